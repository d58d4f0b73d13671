// Draw a digit: prediction, class probabilities and saliency map.

import { get, post } from "./api.js";
import { byId, h, options, setText } from "./dom.js";
import { write } from "./state.js";
import { bars } from "./train/inside.js";
import { bitmap, bytes, grey, onTheme, signed } from "./train/paint.js";
import { short } from "./train/plot.js";
import { Run, runs } from "./train/run.js";

const SIDE = 112;
const pad = byId("draw-pad");
const context = pad.getContext("2d", { willReadFrequently: true });
const select = byId("draw-run");
const shown = byId("draw-class");

let run = null;
let isAsking = false;
let isChanged = false;
let answer = null;
// Where the pen is, for those who draw with keys, whether it is down, and whether keys were used at all.
let pen = { x: SIDE / 2, y: SIDE / 4, isDown: false, isUsed: false };

// The strokes of the drawing, as lists of places, for the link.
let strokes = [];

// Two digits of base 36 for each coordinate, strokes separated by dots.
const written = () => strokes.map((stroke) => stroke.map((own) => Math.round(own).toString(36).padStart(2, "0")).join("")).join(".");

function redraw(text) {
  context.clearRect(0, 0, SIDE, SIDE);
  strokes = [];
  for (const stroke of text.split(".").filter((own) => /^([0-9a-z]{4})+$/.test(own))) {
    const places = stroke.match(/.{2}/g).map((own) => Math.min(parseInt(own, 36), SIDE));
    for (let k = 0; k < places.length; k += 2) line(places[k], places[k + 1], k > 0 ? { x: places[k - 2], y: places[k - 1] } : null);
  }
}

function remember() {
  write("draw", { run: run?.id, ink: written() });
}

export async function open(given) {
  if (given.ink) redraw(given.ink);
  const fitting = (await runs()).filter((one) => ["digits", "mnist", "fashion"].includes(one.settings.data));
  const known = fitting.map((one) => [String(one.id), `run ${one.id}: ${one.settings.data}, ${one.settings.model} ${one.state?.test?.shown ?? ""}`]);
  const selected = String(given.run ?? run?.id ?? known[0]?.[0] ?? "");
  if (!known.some(([id]) => id === selected)) return train();
  attach(Number(selected));
  return options(select, known, selected);
}

// A small network that learns in a moment, for those who come to draw.
async function train() {
  const started = await post("/api/runs", { data: "digits", options: { epochs: 25 } });
  setText(byId("draw-problem"), started.error?.message ?? "");
  if (!started.error) {
    attach(started.id);
    options(select, [[String(started.id), `run ${started.id}: digits, mlp (training)`]], String(started.id));
  }
}

function attach(id) {
  if (run?.id === id) return;
  run?.leave();
  run = new Run(id, (fresh, latest) => {
    if (!fresh.has("state")) return;
    const { state } = latest;
    setText(byId("draw-state"), `${state.phase}, step ${state.step}${state.test ? `, test accuracy ${state.test.shown}` : ""}`);
    // While it learns, its opinion changes.
    question();
  });
  remember();
  question();
}

// One question at a time; what is drawn meanwhile is asked about next.
async function question() {
  if (!run) return;
  if (isAsking) { isChanged = true; return; }
  isAsking = true;
  isChanged = false;
  const pixels = context.getImageData(0, 0, SIDE, SIDE).data;
  const ink = Array.from({ length: SIDE * SIDE }, (_, k) => pixels[4 * k + 3]);
  const got = await run.inspect({ at: "drawn", ink, from: [SIDE, SIDE], class: shown.value === "" ? null : Number(shown.value) });
  isAsking = false;
  if (got && !got.error) show(got);
  setText(byId("draw-problem"), got?.error?.message ?? "");
  if (isChanged) question();
}

function show(got) {
  answer = got;
  options(shown, [["", "predicted class"], ...got.names.map((name, k) => [String(k), name])], shown.value);
  const isEmpty = bytes(got.pixels).every((level) => level === 0);
  setText(byId("draw-predicted"), isEmpty ? "–" : got.names[got.predicted]);
  // An empty canvas has no prediction.
  byId("draw-shares").replaceChildren(...(isEmpty ? [] : [bars(got.names, got.shares, got.predicted)]));
  byId("draw-input").replaceChildren(bitmap(got.width, got.height, grey(bytes(got.pixels)), { role: "img", "aria-label": "Network input" }));
  const saliency = bitmap(got.width, got.height, signed(bytes(got.gradients)), { role: "img", "aria-label": "Saliency map" });
  byId("draw-saliency").hidden = isEmpty;
  byId("draw-gradient").replaceChildren(...(isEmpty ? [] : [saliency]));
  setText(byId("draw-about"), isEmpty ? "" : `Blue: ink there raises the score of “${got.names[got.class]}”; orange: lowers it. The largest gradient is ${short(got.scale)}.`);
}

function ink(x, y, from = null) {
  line(x, y, from);
  question();
}

function line(x, y, from) {
  if (from === null || strokes.length === 0) strokes.push([x, y]);
  else strokes[strokes.length - 1].push(x, y);
  context.strokeStyle = context.fillStyle = getComputedStyle(pad).color;
  context.lineWidth = 13;
  context.lineCap = context.lineJoin = "round";
  context.beginPath();
  context.moveTo(from?.x ?? x, from?.y ?? y);
  context.lineTo(x + 0.01, y);
  context.stroke();
}

function place(event) {
  const box = pad.getBoundingClientRect();
  return { x: ((event.clientX - box.left) / box.width) * SIDE, y: ((event.clientY - box.top) / box.height) * SIDE };
}

let last = null;
pad.addEventListener("pointerdown", (event) => {
  pen.isUsed = false;
  mark();
  pad.setPointerCapture(event.pointerId);
  last = place(event);
  ink(last.x, last.y);
});
pad.addEventListener("pointermove", (event) => {
  if (!last) return;
  const next = place(event);
  ink(next.x, next.y, last);
  last = next;
});
for (const end of ["pointerup", "pointercancel"]) pad.addEventListener(end, () => { last = null; remember(); });

pad.addEventListener("keydown", (event) => {
  const way = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[event.key];
  if (event.key === " ") {
    pen.isDown = !pen.isDown;
    if (pen.isDown) ink(pen.x, pen.y);
  } else if (event.key === "Backspace" || event.key === "Delete") clear();
  else if (way) {
    const from = { ...pen };
    pen = { ...pen, x: Math.min(Math.max(pen.x + 6 * way[0], 6), SIDE - 6), y: Math.min(Math.max(pen.y + 6 * way[1], 6), SIDE - 6) };
    if (pen.isDown) ink(pen.x, pen.y, from);
  } else return;
  event.preventDefault();
  event.stopPropagation();
  pen.isUsed = true;
  mark();
  remember();
});

// Where the pen of the keys is.
function mark() {
  const dot = byId("draw-pen");
  dot.hidden = document.activeElement !== pad || !pen.isUsed;
  dot.classList.toggle("down", pen.isDown);
  dot.style.left = `${(100 * pen.x) / SIDE}%`;
  dot.style.top = `${(100 * pen.y) / SIDE}%`;
}
pad.addEventListener("focus", mark);
pad.addEventListener("blur", mark);

function clear() {
  context.clearRect(0, 0, SIDE, SIDE);
  strokes = [];
  remember();
  pen = { ...pen, x: SIDE / 2, y: SIDE / 4, isDown: false };
  mark();
  question();
}

byId("draw-clear").addEventListener("click", clear);
byId("draw-example").addEventListener("click", async () => {
  const { about } = await get(`/api/runs/${run.id}`);
  const { examples, width, height } = about.views.images;
  const { pixels } = examples[Math.floor(Math.random() * examples.length)];
  const own = bytes(pixels);
  context.clearRect(0, 0, SIDE, SIDE);
  context.fillStyle = getComputedStyle(pad).color;
  strokes = [];
  remember();
  const cell = SIDE / Math.max(width, height);
  own.forEach((level, k) => {
    context.globalAlpha = level / 255;
    context.fillRect((k % width) * cell, Math.floor(k / width) * cell, cell, cell);
  });
  context.globalAlpha = 1;
  question();
});
byId("draw-train").addEventListener("click", train);
select.addEventListener("change", () => attach(Number(select.value)));
shown.addEventListener("change", question);
onTheme(() => answer && show(answer));
