// Plots of an expression: a curve with its tangent and Taylor polynomial, and of two variables the contours and the gradient field.
// The numbers come from the library; here are only their places on the screen.

import { byId, h, svg } from "./dom.js";
import { bitmap, bytes, heat, onTheme, rgb } from "./train/paint.js";
import { key, labels, short, ticks } from "./train/plot.js";

const [WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM] = [520, 340, 52, 12, 10, 34];
// Bands between contours.
const BANDS = 12;

let shown = null;

export function show(answer) {
  shown = answer;
  const parts = [answer.curve && curve(answer.curve), answer.field && field(answer.field)].filter(Boolean);
  byId("plots").replaceChildren(...parts);
  byId("plot-card").hidden = parts.length === 0;
}

const isNumber = (value) => typeof value === "number" && Number.isFinite(value);

// The range of the function itself, with some room; its tangent and polynomial may leave it.
function range({ value, point }) {
  const sorted = value.filter(isNumber).sort((a, b) => a - b);
  if (sorted.length === 0) return [-1, 1];
  const at = (part) => sorted[Math.round(part * (sorted.length - 1))];
  // Near a pole the outermost values say little.
  const [inner, outer] = [at(0.95) - at(0.05), at(1) - at(0)];
  let [low, high] = outer > 8 * inner && inner > 0 ? [at(0.05) - inner, at(0.95) + inner] : [at(0), at(1)];
  if (isNumber(point[1])) [low, high] = [Math.min(low, point[1]), Math.max(high, point[1])];
  const room = 0.08 * (high - low) || 1;
  return [low - room, high + room];
}

function curve({ variable, at, value, tangent, taylor, order, point, slope }) {
  const [left, right] = [at[0], at[at.length - 1]];
  const [low, high] = range({ value, point });
  const x = (own) => LEFT + ((own - left) / (right - left)) * (WIDTH - LEFT - RIGHT);
  const y = (own) => TOP + ((high - own) / (high - low)) * (HEIGHT - TOP - BOTTOM);
  // A line ends where it leaves the picture, and begins again where it comes back.
  const path = (list) => {
    let isDrawing = false;
    return list.map((own, k) => {
      const isInside = isNumber(own) && own > low - 2 * (high - low) && own < high + 2 * (high - low);
      const command = isInside ? `${isDrawing ? "L" : "M"}${x(at[k]).toFixed(1)} ${y(own).toFixed(1)}` : "";
      isDrawing = isInside;
      return command;
    }).join("");
  };
  const [across, up] = [ticks(left, right, 6), ticks(low, high, 5)];
  const grid = [
    ...across.map((tick) => svg("line", { class: tick === 0 ? "grid zero" : "grid", x1: x(tick), x2: x(tick), y1: TOP, y2: HEIGHT - BOTTOM })),
    ...up.map((tick) => svg("line", { class: tick === 0 ? "grid zero" : "grid", x1: LEFT, x2: WIDTH - RIGHT, y1: y(tick), y2: y(tick) })),
    ...labels(across, 6).map((name, k) => svg("text", { class: "tick", x: x(across[k]), y: HEIGHT - BOTTOM + 17, "text-anchor": x(across[k]) + 4 * name.length > WIDTH ? "end" : "middle" }, name)),
    ...labels(up, 6).map((name, k) => svg("text", { class: "tick", x: LEFT - 6, y: y(up[k]) + 4, "text-anchor": "end" }, name)),
    svg("text", { class: "axis", x: WIDTH - RIGHT, y: HEIGHT - 3, "text-anchor": "end" }, variable),
  ];
  const line = (list, name) => svg("path", { class: `line ${name}`, d: path(list) });
  const dot = point.every(isNumber) ? [svg("circle", { class: "here", cx: x(point[0]), cy: y(point[1]), r: 5.5 })] : [];
  const clip = svg("clipPath", { id: "plot-clip" }, svg("rect", { x: LEFT, y: TOP, width: WIDTH - LEFT - RIGHT, height: HEIGHT - TOP - BOTTOM }));
  const lines = svg("g", { "clip-path": "url(#plot-clip)" }, ...(order > 1 ? [line(taylor, "k2 dashed")] : []), line(tangent, "k1"), line(value, "k0"), ...dot);
  const text = `f along ${variable} from ${short(left)} to ${short(right)}; at ${variable} = ${short(point[0])} the value is ${short(point[1])} and the slope ${short(slope)}`;
  const names = [[0, "f"], [1, `tangent, slope ${short(slope)}`], ...(order > 1 ? [[2, `Taylor polynomial of order ${order}`]] : [])];
  return h("figure", { id: "plot-curve" }, key(names), svg("svg", { class: "chart", viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": text }, clip, ...grid, lines));
}

// The plane with its contours: the canvas, the places of coordinates in a square of 1000, and what stands below.
export function plane({ variables, across, up, places, levels, marks }) {
  const cells = bytes(levels);
  const band = heat(Array.from(cells, (level) => (Math.floor((level / 256) * BANDS) + 0.5) / BANDS));
  // Where there is no value there is paper.
  const paper = rgb("--soft");
  const canvas = bitmap(places, places, (k) => (cells[k] === 0 ? paper : band(k)), { class: "plane" });
  const x = (own) => (1000 * (own - across[0])) / (across[1] - across[0]);
  const y = (own) => (1000 * (up[1] - own)) / (up[1] - up[0]);
  const note = h("div", {}, h("div", { class: "scale" }, h("i"), h("div", {}, ...marks.map((mark) => h("span", {}, short(mark))))),
    h("p", { class: "note" }, `${variables[0]} from ${short(across[0])} to ${short(across[1])} (right), ${variables[1]} from ${short(up[0])} to ${short(up[1])} (up).`));
  return { canvas, x, y, note };
}

function field(contours) {
  const { variables, across, up, point, gradient, arrows } = contours;
  const { canvas, x, y, note } = plane(contours);
  // Lengths as on the screen: the axes have scales of their own.
  const vector = ([a, b]) => (isNumber(a) && isNumber(b) ? [a / (across[1] - across[0]), -b / (up[1] - up[0])] : [0, 0]);
  const size = (pair) => Math.hypot(...vector(pair));
  const most = Math.max(...arrows.map((one) => size(one.gradient)).filter(Number.isFinite), 1e-300);
  const arrow = (at, pair, name, scale = 1) => {
    const [a, b] = vector(pair);
    const own = Math.hypot(a, b);
    if (!(own > 1e-9 * most)) return null;
    // The square root keeps short arrows visible.
    const length = scale * (18 + 60 * Math.sqrt(Math.min(own / most, 1)));
    const [dx, dy] = [(a / own) * length, (b / own) * length];
    const [tx, ty] = [x(at[0]) + dx / 2, y(at[1]) + dy / 2];
    const side = (turn) => `${(tx - 0.3 * (dx * Math.cos(turn) - dy * Math.sin(turn))).toFixed(1)} ${(ty - 0.3 * (dx * Math.sin(turn) + dy * Math.cos(turn))).toFixed(1)}`;
    return svg("path", { class: name, d: `M${(tx - dx).toFixed(1)} ${(ty - dy).toFixed(1)}L${tx.toFixed(1)} ${ty.toFixed(1)}M${side(0.5)}L${tx.toFixed(1)} ${ty.toFixed(1)}L${side(-0.5)}` });
  };
  const isInside = point[0] >= across[0] && point[0] <= across[1] && point[1] >= up[0] && point[1] <= up[1];
  const here = isInside ? [arrow(point, gradient, "arrow own", 1.6), svg("circle", { class: "here", cx: x(point[0]), cy: y(point[1]), r: 12 })] : [];
  const text = `Contours of f over ${variables[0]} and ${variables[1]} with the gradient field; the gradient at the point is ${short(gradient[0])}, ${short(gradient[1])}`;
  const drawn = svg("svg", { class: "points field", viewBox: "0 0 1000 1000", role: "img", "aria-label": text }, ...arrows.map((one) => arrow(one.at, one.gradient, "arrow")), ...here);
  return h("figure", { id: "plot-field" }, h("div", { class: "stack" }, canvas, drawn), note, h("p", { class: "note" }, "Arrows: the gradient, uphill."));
}

onTheme(() => shown && show(shown));
