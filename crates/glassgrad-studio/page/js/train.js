// The page on which a network learns.

import { ask, get, send, post } from "./api.js";
import { byId, counted, h, setText } from "./dom.js";
import { foldable } from "./fold.js";
import { explain } from "./glossary.js";
import { saves } from "./host.js";
import { write } from "./state.js";
import { Form, fillSpeeds } from "./train/form.js";
import { Inside } from "./train/inside.js";
import { onTheme } from "./train/paint.js";
import { Preview } from "./train/preview.js";
import { key as legend, plot, short } from "./train/plot.js";
import { Run, free, runs } from "./train/run.js";
import * as views from "./train/views.js";

const start = byId("train-start");
const speed = byId("train-speed");
const rate = byId("train-rate");
const columns = [byId("train-left"), byId("train-right")];

let form = null;
let run = null;
let chosen = {};
// The phase of the run when the list of runs was last rendered.
let phase = null;
// What a view keeps between two of its pictures.
let kept = {};
// Curves of other runs, by number, to compare with.
const beside = new Map();
const preview = new Preview((text) => {
  preview.text = text;
  form.useTable("points.csv", text);
});
const inside = new Inside((asked) => run?.inspect(asked));

export async function open(given) {
  const { run: id, table, ...rest } = given;
  if (!form) {
    form = new Form(await get("/api/train"), (settings) => {
      chosen = settings;
      remember();
      look();
    });
    fillSpeeds(speed, "500");
    await form.open(rest);
    if (table) await form.openTable("points.csv", table);
  } else if (Object.keys(rest).length > 0 && !id) await form.open(rest);
  const known = await list();
  if (id && (!run || run.id !== Number(id))) {
    if (known.some((one) => one.id === Number(id))) attach(Number(id));
    else tellProblem(`Run ${id} was deleted: start it again, the results are identical.`);
  }
  remember();
}

// The data of the form, as long as no run is shown. A change of the points themselves is there already.
async function look() {
  const asked = form.asked();
  const isShown = preview.text !== undefined && asked.csv === preview.text;
  if (byId("train-empty").hidden || isShown || (asked.data.endsWith(".csv") && !asked.csv)) return;
  const got = await ask("/api/train/preview", asked);
  if (got) preview.show(got);
}

export function key(event) {
  if (event.target.closest("button, a, summary") && event.key === " ") return;
  const actions = { " ": toggle, ".": () => step(), "/": () => byId("train-task").focus() };
  const action = actions[event.key];
  if (!action) return;
  event.preventDefault();
  action();
}

// Points that were edited are in the link, as long as browsers and messengers carry it.
const LONGEST_LINK = 6000;
function remember() {
  const table = chosen.data === "csv" && form.csv?.name === "points.csv" ? form.csv.text : "";
  write("train", { ...chosen, table: table.length <= LONGEST_LINK ? table : "", run: run?.id ?? "" });
}

function tellProblem(message) {
  setText(byId("train-problem"), message || "");
}

async function begin(paused = false) {
  const asked = { ...form.asked(), paused, pace: speed.value === "" ? null : Number(speed.value) };
  start.disabled = true;
  const answer = await post("/api/runs", asked);
  start.disabled = false;
  tellProblem(answer.error?.message);
  if (answer.error) return;
  attach(answer.id);
  remember();
  list();
  // On a narrow screen what happens is below what was chosen.
  if (matchMedia("(max-width: 860px)").matches) byId("train-work").scrollIntoView({ behavior: "smooth" });
}

function attach(id) {
  run?.leave();
  kept = {};
  for (const column of columns) column.replaceChildren();
  inside.clear();
  byId("train-surface").replaceChildren(h("p", { class: "note" }, "The loss on a plane through the path of the optimizer, computed on request."));
  run = new Run(id, changed);
  phase = null;
  byId("train-work").hidden = false;
  byId("train-reproduce").hidden = false;
  byId("train-empty").hidden = true;
}

const isOn = () => run && ["running", "paused"].includes(run.latest.state?.phase);

function toggle() {
  if (!isOn()) return begin();
  return run.command({ do: run.latest.state.phase === "running" ? "pause" : "go" });
}

async function step() {
  if (!isOn()) await begin(true);
  run?.command({ do: "go", steps: 1 });
}

start.addEventListener("click", () => begin());
byId("train-toggle").addEventListener("click", toggle);
byId("train-step").addEventListener("click", step);
byId("train-stop").addEventListener("click", () => run?.command({ do: "stop" }));
speed.addEventListener("change", () => run?.command({ do: "pace", pace: speed.value === "" ? null : Number(speed.value) }));
rate.addEventListener("change", async () => {
  const value = Number(rate.value);
  if (rate.value.trim() === "" || !Number.isFinite(value)) return tellProblem(`Learning rate: expected a number, not “${rate.value}”`);
  const answer = await run?.command({ do: "rate", rate: value });
  tellProblem(answer?.error?.message);
});
byId("train-load").addEventListener("change", async (event) => {
  const [file] = event.target.files;
  if (!file) return;
  const answer = await send("/api/models", await file.arrayBuffer());
  event.target.value = "";
  if (!answer.error) { attach(answer.id); remember(); list(); }
  tellProblem(answer.error?.message ?? answer.warnings?.join(" "));
});
byId("surface-compute").addEventListener("click", async () => {
  const answer = await run?.inspect({ at: "surface" });
  if (!answer) return;
  byId("train-surface").replaceChildren(answer.error ? h("p", { class: "problem" }, answer.error.message) : views.surface(answer));
});

// What has arrived since the last frame.
function changed(fresh, latest) {
  if (fresh.has("about")) showAbout(latest.about);
  if (fresh.has("state")) showState(latest.state);
  if (fresh.has("curves")) showCurves(latest.curves);
  for (const kind of fresh) if (kind in views.VIEWS && latest.about) show(kind);
  if (fresh.has("freed")) { tellProblem("The run was deleted. Start it again: the results are identical."); list(); }
}

function show(kind) {
  const { about, [kind]: sent } = run.latest;
  const own = (kept[kind] ??= {});
  const rendered = views[kind]({ fixed: about.views[kind], data: sent.data, kept: own, choose: (asked) => inside.choose(asked) });
  if (!rendered) return;
  let card = byId(`view-${kind}`);
  if (!card) {
    const [title, column] = views.VIEWS[kind];
    card = h("section", { class: "card view", id: `view-${kind}` }, h("h2", {}, title), h("div", { class: "picture" }));
    explain(card.firstChild, title);
    // On a narrow screen the first view of each kind of data is open.
    foldable(card, ["boundary", "fitted", "images"].includes(kind));
    const order = Object.keys(views.VIEWS);
    const next = [...columns[column].children].find((other) => order.indexOf(other.id.slice(5)) > order.indexOf(kind));
    columns[column].insertBefore(card, next || null);
  }
  // The focus and the place of a scrolled table stay where they were.
  const scrolled = [...card.querySelectorAll(".scroll")].map((box) => box.scrollLeft);
  const index = [...card.querySelectorAll("button")].indexOf(document.activeElement);
  card.lastChild.replaceChildren(rendered);
  card.querySelectorAll(".scroll").forEach((box, k) => { box.scrollLeft = scrolled[k] || 0; });
  if (index >= 0) card.querySelectorAll("button")[index]?.focus({ preventScroll: true });
}

function showAbout(about) {
  const { settings, examples, numbers } = about;
  setText(byId("train-title"), `${about.name}: ${about.title}`);
  setText(byId("train-facts"), `${settings.model} ${settings.layers.join("-")}, ${counted(numbers, "parameter")}; ${about.links.join(", ") || "gradient descent"}; ${counted(examples.training, "training example")}, ${counted(examples.test, "test example")}`);
  setText(byId("train-command"), about.command);
  rate.value = settings.lr;
  inside.about(about);
}

function showState(state) {
  if (state.phase !== phase) {
    phase = state.phase;
    list();
  }
  const running = state.phase === "running";
  const toggle = byId("train-toggle");
  setText(toggle, running ? "Pause" : state.phase === "paused" ? "Resume" : "Restart");
  byId("train-stop").disabled = !running && state.phase !== "paused";
  byId("train-step").disabled = false;
  const { about } = run.latest;
  const cells = {
    phase: state.phase, epoch: about ? `${Math.min(state.epoch + (running ? 1 : 0), about.settings.epochs)} of ${about.settings.epochs}` : "", step: state.step,
    loss: short(state.loss), test: state.test?.shown ?? "–", rate: short(state.rate), speed: running ? `${short(Math.round(state.speed))}/s` : "–",
  };
  for (const [name, text] of Object.entries(cells)) setText(byId(`state-${name}`), String(text));
  if (about) setText(byId("train-command"), state.rate_changed ? "none, because the learning rate was changed during this run" : about.command);
  const bar = byId("train-progress");
  if (about) { bar.max = about.steps; bar.value = state.step; }
  const trouble = byId("train-trouble");
  trouble.hidden = !state.trouble;
  if (state.trouble) setText(byId("train-trouble-text"), state.trouble.message);
}

function showCurves(curves) {
  const { training, test } = curves;
  const others = [...beside.values()];
  const name = test.name || "metric";
  setText(byId("train-metric"), name === "rmse" ? "RMSE" : name.charAt(0).toUpperCase() + name.slice(1));
  byId("train-loss").replaceChildren(legend([[0, "training"], [1, "test"], ...others.map((one, k) => [2 + k, one.name])]),
    plot({ label: "Loss by step", log: true, curves: [{ ...training, colour: 0 }, { at: test.at, value: test.loss, colour: 1 }, ...others.map((one, k) => ({ ...one.curves.training, colour: 2 + k, dashed: true }))] }));
  byId("train-measure").replaceChildren(legend([[1, `test ${name}`], ...others.map((one, k) => [2 + k, one.name])]),
    plot({ label: `${name} by step`, ends: [training.at[0] ?? 0, training.at[training.at.length - 1] ?? 1], most: name === "accuracy" ? 1 : Infinity, curves: [{ at: test.at, value: test.measure, colour: 1 }, ...others.map((one, k) => ({ at: one.curves.test.at, value: one.curves.test.measure, colour: 2 + k, dashed: true }))] }));
}

// All runs of the studio: to go back to, to compare with, to keep and to take away.
async function list() {
  const all = await runs();
  const row = (one) => {
    const name = `${one.id}: ${one.settings.data}, ${one.settings.model} ${one.settings.layers.join("-")}, ${one.settings.optimizer} ${one.settings.lr}`;
    const isOwn = run?.id === one.id;
    const file = (what, text) => {
      const link = h("a", { class: "button" }, text);
      saves(link, `/api/runs/${one.id}/${what}`);
      return link;
    };
    const act = (text, action, attributes = {}) => h("button", { type: "button", onclick: async () => { await action(); list(); }, ...attributes }, text);
    return h("li", { class: isOwn ? "now" : "" },
      h("span", { class: "name" }, name, h("span", { class: "note" }, ` ${one.state?.phase ?? ""} ${one.state?.test?.shown ?? ""}`)),
      h("span", { class: "acts" },
        isOwn ? null : act("Open", async () => { attach(one.id); remember(); }),
        isOwn ? null : act(beside.has(one.id) ? "Remove" : "Compare", () => compare(one, name)),
        act(one.pinned ? "Pinned" : "Pin", () => post(`/api/runs/${one.id}/command`, { do: "pin", pinned: !one.pinned }), { "aria-pressed": String(one.pinned) }),
        file("model", "Model"), file("report", "Report"), file("history", "CSV"),
        act("Delete", async () => { beside.delete(one.id); if (isOwn) { run.leave(); run = null; byId("train-work").hidden = true; byId("train-reproduce").hidden = true; byId("train-empty").hidden = false; preview.text = undefined; look(); remember(); } await free(one.id); })));
  };
  byId("train-runs").replaceChildren(...all.map(row));
  byId("train-list").hidden = all.length === 0;
  return all;
}

async function compare(one, name) {
  if (beside.has(one.id)) beside.delete(one.id);
  else beside.set(one.id, { name, curves: (await get(`/api/runs/${one.id}`)).curves });
  if (run?.latest.curves) showCurves(run.latest.curves);
}

onTheme(() => {
  kept = {};
  if (run?.latest.about) for (const kind of Object.keys(views.VIEWS)) if (run.latest[kind]) show(kind);
});
