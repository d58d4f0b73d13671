// Curves on logarithmic axes.

import { h, svg } from "./dom.js";

const [WIDTH, HEIGHT, LEFT, BOTTOM, TOP] = [520, 280, 58, 44, 10];

// The smallest error that is drawn: below it a number is as good as zero.
const FLOOR = 1e-17;

export function errors(rows) {
  const curves = [["forward", "forward differences", "forward_error"], ["central", "central differences", "central_error"]];
  const level = (value) => Math.log10(Math.max(Number(value) || FLOOR, FLOOR));
  const all = rows.flatMap((row) => curves.map(([, , field]) => level(row[field])));
  const [low, high] = [Math.floor(Math.min(...all)), Math.max(Math.ceil(Math.max(...all)), Math.floor(Math.min(...all)) + 1)];
  const [first, last] = [-1, -15];
  const x = (exponent) => LEFT + ((exponent - first) / (last - first)) * (WIDTH - LEFT - 26);
  const y = (exponent) => TOP + ((high - exponent) / (high - low)) * (HEIGHT - TOP - BOTTOM);
  const every = Math.ceil((high - low) / 6);
  const parts = [];
  for (let exponent = high; exponent >= low; exponent -= every) {
    parts.push(svg("line", { class: "grid", x1: LEFT, x2: WIDTH - 26, y1: y(exponent), y2: y(exponent) }));
    parts.push(power(LEFT - 8, y(exponent) + 4, exponent, "end"));
  }
  for (let exponent = first; exponent >= last; exponent -= 2) parts.push(power(x(exponent), HEIGHT - BOTTOM + 20, exponent, "middle"));
  parts.push(svg("text", { class: "axis", x: (LEFT + WIDTH) / 2, y: HEIGHT - 4, "text-anchor": "middle" }, "step h"));
  for (const [kind, , field] of curves) {
    const points = rows.map((row) => `${x(Math.log10(row.h)).toFixed(1)},${y(level(row[field])).toFixed(1)}`).join(" ");
    parts.push(svg("polyline", { class: `curve ${kind}`, points }));
  }
  const legend = h("ul", { class: "legend" }, ...curves.map(([kind, text]) => h("li", { class: kind }, text)));
  return h("figure", {}, h("figcaption", {}, "Error of finite differences"), legend,
    svg("svg", { class: "chart", viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": "Error of finite differences against the step" }, ...parts));
}

function power(x, y, exponent, anchor) {
  return svg("text", { class: "tick", x, y, "text-anchor": anchor }, "10", svg("tspan", { dy: -5, class: "exponent" }, String(exponent).replace("-", "−")));
}
