// Curves, dots and bars over two axes with round numbers.

import { h, svg } from "../dom.js";

const [WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM] = [520, 270, 56, 12, 10, 36];

// About as many round numbers between two ends.
export function ticks(low, high, about = 5) {
  const span = high - low;
  if (!(span > 0) || !Number.isFinite(span)) return [low];
  const rough = span / about;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = power * ([1, 2, 5].find((factor) => factor * power >= rough) || 10);
  const found = [];
  for (let tick = Math.ceil(low / step) * step; tick <= high + step * 1e-9; tick += step) found.push(Math.abs(tick) < step * 1e-9 ? 0 : tick);
  return found;
}

// A number with three significant digits.
export function short(number) {
  if (typeof number !== "number") return String(number);
  const size = Math.abs(number);
  const text = size !== 0 && (size < 1e-3 || size >= 1e5) ? number.toExponential(1).replace("e+", "e") : String(Number(number.toPrecision(3)));
  return text.replace("-", "−");
}

// The numbers of an axis, with as many digits as distinguish them.
export function labels(values, digits) {
  const one = (value) => {
    const [rounded, size] = [Number(value.toPrecision(digits)), Math.abs(value)];
    return (size !== 0 && (size < 1e-3 || size >= 1e5) ? rounded.toExponential().replace("e+", "e") : String(rounded)).replace("-", "−");
  };
  const texts = values.map(one);
  return new Set(texts).size === texts.length || digits >= 9 ? texts : labels(values, digits + 1);
}

const isNumber = (value) => typeof value === "number" && Number.isFinite(value);

function extent(lists) {
  let [low, high] = [Infinity, -Infinity];
  for (const list of lists) for (const value of list) if (isNumber(value)) { low = Math.min(low, value); high = Math.max(high, value); }
  return low <= high ? [low, high] : [0, 1];
}

// curves: { name, colour, at, value, dashed, pale }; dots: { at, value, colour }; bands: { at, low, high, colour }.
export function plot({ label, across = "step", up = "", curves = [], dots = [], bands = [], log: wantsLog = false, zero = false, ends = null, most = Infinity, logAcross = false }) {
  // A loss that is a log-density may be negative, where there is no logarithm.
  const log = wantsLog && curves.every((one) => one.value.every((value) => !isNumber(value) || value > 0));
  const scaled = (value) => (log ? (isNumber(value) && value > 0 ? Math.log10(value) : null) : isNumber(value) ? value : null);
  // The first step is 1; what stands before it has no logarithm.
  const along = (place) => (logAcross ? Math.log10(Math.max(place, 1)) : place);
  let [left, right] = extent([...curves, ...dots, ...bands].map((one) => one.at).concat(ends ? [ends] : []).map((list) => list.map(along)));
  if (left === right) right = left + 1;
  let [low, high] = extent([...curves.map((one) => one.value), ...dots.map((one) => one.value), ...bands.flatMap((one) => [one.low, one.high])].map((list) => list.map(scaled)));
  if (zero && !log) low = Math.min(low, 0);
  if (high - low < 1e-12 * Math.max(1, Math.abs(high))) [low, high] = [low - 0.5, Math.min(high + 0.5, Math.max(high, most))];
  const placed = (value) => LEFT + ((value - left) / (right - left)) * (WIDTH - LEFT - RIGHT);
  const x = (value) => placed(along(value));
  const y = (value) => TOP + ((high - value) / (high - low)) * (HEIGHT - TOP - BOTTOM);
  const parts = [];
  const levels = ticks(low, high);
  const names = log ? labels(levels.map((tick) => 10 ** tick), 2) : labels(levels, 6);
  levels.forEach((tick, k) => {
    parts.push(svg("line", { class: "grid", x1: LEFT, x2: WIDTH - RIGHT, y1: y(tick), y2: y(tick) }));
    parts.push(svg("text", { class: "tick", x: LEFT - 7, y: y(tick) + 4, "text-anchor": "end" }, names[k]));
  });
  const places = ticks(left, right);
  // A label at the right edge ends there, so that it is not clipped.
  labels(logAcross ? places.map((tick) => 10 ** tick) : places, logAcross ? 2 : 6).forEach((name, k) => parts.push(svg("text", {
    class: "tick", x: placed(places[k]), y: HEIGHT - BOTTOM + 18, "text-anchor": placed(places[k]) + 4 * name.length > WIDTH ? "end" : "middle",
  }, name)));
  parts.push(svg("text", { class: "axis", x: WIDTH - RIGHT, y: HEIGHT - 3, "text-anchor": "end" }, across));
  if (up) parts.push(svg("text", { class: "axis", x: LEFT + 4, y: TOP + 12 }, up));
  const path = (at, value) => {
    let isDrawing = false;
    return at.map((place, k) => {
      const level = scaled(value[k]);
      if (level === null) { isDrawing = false; return ""; }
      const command = isDrawing ? "L" : "M";
      isDrawing = true;
      return `${command}${x(place).toFixed(1)} ${y(level).toFixed(1)}`;
    }).join("");
  };
  for (const { at, low: under, high: over, colour } of bands) {
    const there = at.map((place, k) => `${x(place).toFixed(1)},${y(over[k]).toFixed(1)}`);
    const back = at.map((place, k) => `${x(place).toFixed(1)},${y(under[k]).toFixed(1)}`).reverse();
    parts.push(svg("polygon", { class: `band k${colour}`, points: [...there, ...back].join(" ") }));
  }
  for (const { at, value, colour } of dots) for (let k = 0; k < at.length; k += 1) if (scaled(value[k]) !== null) parts.push(svg("circle", { class: `dot k${colour}`, cx: x(at[k]).toFixed(1), cy: y(scaled(value[k])).toFixed(1), r: 2.2 }));
  for (const { at, value, colour, dashed, pale } of curves) parts.push(svg("path", { class: `line k${colour}${dashed ? " dashed" : ""}${pale ? " pale" : ""}`, d: path(at, value) }));
  // A curve of one point is a dot.
  for (const { at, value, colour } of curves) if (value.filter((one) => scaled(one) !== null).length === 1) {
    const k = value.findIndex((one) => scaled(one) !== null);
    parts.push(svg("circle", { class: `dot k${colour}`, cx: x(at[k]).toFixed(1), cy: y(scaled(value[k])).toFixed(1), r: 3.5 }));
  }
  return svg("svg", { class: "chart", viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": label }, ...parts);
}

export const key = (pairs) => h("ul", { class: "legend" }, ...pairs.map(([colour, name]) => h("li", { class: `k${colour}` }, name)));
