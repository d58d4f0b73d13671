// The paths of several optimizers on a function of two variables, side by side.

import { ask } from "./api.js";
import { byId, copy, editor, h, setText, svg } from "./dom.js";
import { plane } from "./plots.js";
import { write } from "./state.js";
import { onTheme } from "./train/paint.js";
import { plot, short } from "./train/plot.js";

const FIRST = {
  e: "(1 - x)^2 + 100*(y - x^2)^2", at: new Map([["x", "-1.2"], ["y", "1"]]), steps: "500",
  rates: "sgd:0.001,momentum:0.0005,nesterov:0.0005,ema:0.002,rmsprop:0.02,adagrad:0.3,adam:0.1,adamw:0.1",
};

const field = byId("paths-expression");
const text = editor(field, byId("paths-mirror"));
const slider = byId("paths-step");
const count = byId("paths-steps");

let state = null;
let answer = null;
let playing = null;

export function open(given) {
  const first = given.e === undefined ? state || FIRST : given;
  state = {
    e: first.e, at: new Map(first.at || []), steps: String(Number(first.steps) || 200), step: first.step ?? null,
    off: new Set(typeof first.off === "string" ? first.off.split(",").filter(Boolean) : first.off || []),
    rates: first.rates instanceof Map ? first.rates : new Map((first.rates || "").split(",").filter(Boolean).map((pair) => pair.split(":"))),
  };
  field.value = state.e;
  count.value = state.steps;
  text.paint();
  question();
}

export function key(event) {
  const actions = { " ": play, ArrowRight: () => go(Number(slider.value) + 1), ArrowLeft: () => go(Number(slider.value) - 1), Home: () => go(0), End: () => go(Number(slider.max)), "/": () => field.focus() };
  const action = actions[event.key];
  if (!action || (event.key === " " && event.target.closest("button, a, summary"))) return;
  event.preventDefault();
  action();
}

function remember() {
  const rates = [...state.rates].map((pair) => pair.join(":")).join(",");
  write("paths", { e: state.e, at: state.at, steps: state.steps, step: state.step, off: [...state.off].join(","), rates });
}

async function question() {
  remember();
  const rates = Object.fromEntries([...state.rates].map(([name, rate]) => [name, Number(rate)]));
  const at = Object.fromEntries([...state.at].map(([name, value]) => [name, value !== "" && Number.isFinite(Number(value)) ? Number(value) : value]));
  byId("paths-work").setAttribute("aria-busy", "true");
  const got = await ask("/api/paths", { of: { expression: state.e, at }, rates, steps: Number(state.steps) });
  if (got === null) return;
  byId("paths-work").setAttribute("aria-busy", "false");
  const { error } = got;
  setText(byId("paths-problem"), error ? (error.help ? `${error.message}: ${error.help}` : error.message) : "");
  byId("paths-work").classList.toggle("stale", Boolean(error));
  if (error) {
    field.setAttribute("aria-invalid", "true");
    if (error.start !== null && error.start !== undefined) text.paint(error.start, error.end);
    return;
  }
  field.removeAttribute("aria-invalid");
  answer = got;
  slider.max = String(got.steps);
  if (state.step === null) slider.value = slider.max;
  else slider.value = String(state.step);
  show();
}

const shown = () => answer.paths.map((path, colour) => ({ ...path, colour })).filter((path) => !state.off.has(path.optimizer));

function show() {
  const { field: contours } = answer;
  const names = contours.variables;
  state.at = new Map(names.map((name, k) => [name, state.at.get(name) ?? String(contours.point[k])]));
  byId("paths-start").replaceChildren(...names.map((name, k) => h("label", {}, `Start ${name}`, h("input", {
    class: "short", id: `paths-at-${k}`, value: state.at.get(name), autocomplete: "off", onchange: (event) => { state.at.set(name, event.target.value.trim()); question(); },
  }))));
  byId("paths-list").replaceChildren(...answer.paths.map(row));
  paint();
}

function row(path, colour) {
  const { optimizer: name, about, rate, ended } = path;
  const box = h("input", { type: "checkbox", id: `paths-on-${name}`, checked: !state.off.has(name), onchange: (event) => {
    if (event.target.checked) state.off.delete(name); else state.off.add(name);
    remember();
    paint();
  } });
  const own = rate === null ? "–" : h("input", { class: "short", value: state.rates.get(name) ?? short(rate).replace("−", "-"), inputmode: "decimal", autocomplete: "off", "aria-label": `Learning rate of ${name}`, onchange: (event) => {
    if (event.target.value.trim() === "") state.rates.delete(name); else state.rates.set(name, event.target.value.trim());
    question();
  } });
  return h("tr", { title: about }, h("td", {}, h("label", { class: `legend-entry k${colour}` }, box, name)), h("td", {}, own), h("td", { class: "n" }, h("span", { id: `paths-value-${name}` }), ended ? h("small", {}, ended) : null));
}

// What is drawn follows the step; everything was computed before.
function paint() {
  if (!answer) return;
  const now = Number(slider.value);
  setText(byId("paths-count"), `step ${now} of ${slider.max}`);
  const { canvas, x, y, note } = plane(answer.field);
  const until = (path) => Math.min(now, path.points.length - 1);
  const line = (path) => {
    const points = path.points.slice(0, until(path) + 1).map(([a, b]) => `${x(a).toFixed(1)},${y(b).toFixed(1)}`).join(" ");
    const [a, b] = path.points[until(path)];
    return [svg("polyline", { class: "halo", points }), svg("polyline", { class: `line k${path.colour}`, points }), svg("circle", { class: `point k${path.colour}`, cx: x(a), cy: y(b), r: 13 })];
  };
  const drawn = svg("svg", { class: "points paths", viewBox: "0 0 1000 1000", role: "img",
    "aria-label": `Paths of ${shown().map((path) => `${path.optimizer}, now at the value ${short(path.values[until(path)])}`).join("; ")}` }, ...shown().flatMap(line));
  drawn.addEventListener("click", (event) => {
    const box = drawn.getBoundingClientRect();
    const { variables, across, up } = answer.field;
    const place = [across[0] + ((event.clientX - box.left) / box.width) * (across[1] - across[0]), up[1] - ((event.clientY - box.top) / box.height) * (up[1] - up[0])];
    variables.forEach((name, k) => state.at.set(name, String(Number(place[k].toPrecision(3)))));
    question();
  });
  byId("paths-plane").replaceChildren(h("div", { class: "stack" }, canvas, drawn), note);
  // A function with negative values has a linear axis. On a logarithmic one, what is as good as zero would flatten everything else.
  const isPositive = shown().every((path) => path.values.every((value) => value >= 0));
  const least = 1e-12 * Math.max(...shown().map((path) => path.values[0]));
  const curve = (path) => path.values.slice(0, until(path) + 1).map((value) => (isPositive && value <= least ? null : value));
  byId("paths-curves").replaceChildren(plot({ label: "Value by step", across: "step", log: isPositive,
    curves: shown().map((path) => ({ at: curve(path).map((_, k) => k), value: curve(path), colour: path.colour })) }));
  for (const path of answer.paths) setText(byId(`paths-value-${path.optimizer}`), short(path.values[until(path)]));
}

function go(step) {
  slider.value = String(Math.max(0, Math.min(step, Number(slider.max))));
  state.step = slider.value === slider.max ? null : slider.value;
  remember();
  paint();
}

function play() {
  const button = byId("paths-play");
  if (playing !== null) {
    clearInterval(playing);
    playing = null;
    setText(button, "Play");
    return;
  }
  if (Number(slider.value) >= Number(slider.max)) go(0);
  setText(button, "Pause");
  // A path takes about six seconds, whatever its length.
  const stride = Math.max(1, Math.round(Number(slider.max) / 200));
  playing = setInterval(() => {
    go(Number(slider.value) + stride);
    if (Number(slider.value) >= Number(slider.max)) play();
  }, 30);
}

let typing = null;
field.addEventListener("input", () => {
  state.e = field.value.replaceAll("\n", " ");
  text.paint();
  clearTimeout(typing);
  typing = setTimeout(question, 200);
});
field.addEventListener("keydown", (event) => { if (event.key === "Enter") event.preventDefault(); });
slider.addEventListener("input", () => go(Number(slider.value)));
count.addEventListener("change", () => { state.steps = count.value; state.step = null; question(); });
byId("paths-play").addEventListener("click", play);
byId("paths-share").addEventListener("click", () => copy(location.href, byId("paths-shared")));
onTheme(paint);
