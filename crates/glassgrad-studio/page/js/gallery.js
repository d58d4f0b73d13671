// The examples, by their groups, each with a small picture.

import { fetchGallery } from "./api.js";
import { byId, h, math, svg } from "./dom.js";
import { bitmap, bytes, grey, heat, onTheme } from "./train/paint.js";

let examples = null;

const isNumber = (value) => typeof value === "number" && Number.isFinite(value);
const ends = (list) => [Math.min(...list), Math.max(...list)];

const pictures = {
  curve({ at, value }) {
    const sorted = value.filter(isNumber).sort((a, b) => a - b);
    const [low, high] = [sorted[Math.floor(0.04 * sorted.length)], sorted[Math.ceil(0.96 * sorted.length) - 1]];
    const y = (own) => 74 - (68 * (own - low)) / (high - low || 1);
    let isDrawing = false;
    const path = at.map((_, k) => {
      const isInside = isNumber(value[k]) && y(value[k]) > -60 && y(value[k]) < 140;
      const part = isInside ? `${isDrawing ? "L" : "M"}${((k * 240) / (at.length - 1)).toFixed(1)} ${y(value[k]).toFixed(1)}` : "";
      isDrawing = isInside;
      return part;
    });
    return svg("svg", { viewBox: "0 0 240 80" }, svg("path", { class: "line k0", d: path.join("") }));
  },
  field: ({ places, levels }) => {
    const cells = bytes(levels);
    return bitmap(places, places, heat(Array.from(cells, (level) => (Math.floor((level / 256) * 10) + 0.5) / 10)));
  },
  points({ at, class: own }) {
    const [across, up] = [ends(at.map((pair) => pair[0])), ends(at.map((pair) => pair[1]))];
    return svg("svg", { viewBox: "0 0 240 80" }, ...at.map(([x, y], k) => svg("circle", {
      class: `dot k${own[k] % 10}`, cx: (8 + (224 * (x - across[0])) / (across[1] - across[0] || 1)).toFixed(1), cy: (74 - (68 * (y - up[0])) / (up[1] - up[0] || 1)).toFixed(1), r: 3 })));
  },
  image: ({ width, height, pixels }) => bitmap(width, height, grey(bytes(pixels)), { class: "pixels" }),
  math: ({ math: markup }) => math(markup, true),
};

export async function open() {
  if (examples) return;
  ({ examples = [] } = await fetchGallery());
  show();
}

function show() {
  if (!examples) return;
  const groups = new Map();
  for (const example of examples) groups.set(example.group, [...(groups.get(example.group) || []), example]);
  const card = ({ title, shows, expression, link, thumbnail }) =>
    h("li", {}, h("a", { class: "card example", href: link },
      thumbnail && h("div", { class: `thumbnail ${thumbnail.kind}`, "aria-hidden": "true" }, pictures[thumbnail.kind](thumbnail)),
      h("b", {}, title), h("code", {}, expression), h("span", {}, shows)));
  byId("gallery").replaceChildren(...[...groups].map(([group, own]) =>
    h("section", {}, h("h2", {}, group), h("ul", { class: "examples" }, ...own.map(card)))));
}

onTheme(show);
