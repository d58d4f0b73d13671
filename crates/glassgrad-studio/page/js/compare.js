// Runs beside each other: smoothed curves on linear or logarithmic axes, what distinguishes the runs, and export.

import { get, post } from "./api.js";
import { byId, h, setText, table } from "./dom.js";
import { write } from "./state.js";
import { key as legend, plot, short } from "./train/plot.js";

const EACH = ["sgd", "momentum", "rmsprop", "adam"];
const BETWEEN = 500;

const [smoothing, logUp, logAcross] = [byId("compare-smoothing"), byId("compare-log-up"), byId("compare-log-across")];

let state = { smoothing: "0.6", off: new Set(), up: "log", across: "linear" };
let answer = null;
let timer = null;

export async function open(given) {
  if (Object.keys(given).length > 0) {
    state = { smoothing: given.smoothing ?? "0.6", off: new Set((given.off || "").split(",").filter(Boolean).map(Number)), up: given.up ?? "log", across: given.across ?? "linear" };
  }
  smoothing.value = state.smoothing;
  logUp.checked = state.up === "log";
  logAcross.checked = state.across === "log";
  const data = byId("compare-data");
  if (data.children.length === 0) {
    const { tasks = [] } = await get("/api/train");
    data.replaceChildren(...tasks.filter((task) => task.is_there).map(({ name }) => h("option", { value: name }, name.replace("-", " "))));
    data.value = given.data ?? "moons";
  }
  refresh();
}

const remember = () => write("compare", { smoothing: state.smoothing, up: state.up, across: state.across, off: [...state.off].join(",") });

const isHere = () => !byId("page-compare").hidden;

// While a run trains the page asks again.
async function refresh() {
  clearTimeout(timer);
  remember();
  const got = await post("/api/curves", { smoothing: Number(state.smoothing) });
  setText(byId("compare-problem"), got.error?.message ?? "");
  if (got.error || !isHere()) return;
  answer = got;
  show();
  if (got.runs.some((run) => run.phase === "running")) timer = setTimeout(() => isHere() && refresh(), BETWEEN);
}

const colours = () => answer.runs.map((run, place) => ({ ...run, colour: place % 10 })).filter((run) => !state.off.has(run.id));

function show() {
  const { runs, differing } = answer;
  byId("compare-empty").hidden = runs.length > 0;
  byId("compare-work").hidden = runs.length === 0;
  setText(byId("compare-weight"), Number(state.smoothing).toFixed(2));
  const focused = document.activeElement?.id;
  byId("compare-runs").replaceChildren(...runs.map((run, place) => h("li", {},
    h("label", { class: `legend-entry k${place % 10}` }, h("input", { type: "checkbox", id: `compare-on-${run.id}`, checked: !state.off.has(run.id), onchange: (event) => {
      if (event.target.checked) state.off.delete(run.id); else state.off.add(run.id);
      remember();
      show();
    } }), run.name),
    h("span", { class: "note" }, ` ${run.phase ?? ""} ${run.shown ?? ""} `), h("a", { href: `#/train?run=${run.id}` }, "Open"))));
  if (focused?.startsWith("compare-on-")) byId(focused)?.focus();
  const chosen = colours();
  const names = legend(chosen.map((run) => [run.colour, run.name]));
  const metric = chosen.find((run) => run.metric)?.metric ?? "metric";
  setText(byId("compare-metric"), metric === "rmse" ? "RMSE" : metric.charAt(0).toUpperCase() + metric.slice(1));
  const draw = (host, field, label, log) => {
    const pale = Number(state.smoothing) > 0 ? chosen.map((run) => ({ at: run[field].at, value: run[field].value, colour: run.colour, pale: true })) : [];
    byId(host).replaceChildren(names.cloneNode(true), plot({ label, log, logAcross: state.across === "log",
      curves: [...pale, ...chosen.map((run) => ({ at: run[field].at, value: run[field].smooth, colour: run.colour }))] }));
  };
  draw("compare-training", "training", "Training loss by step, smoothed", state.up === "log");
  draw("compare-test", "test", "Test loss by step, smoothed", state.up === "log");
  draw("compare-measure", "measure", `Test ${metric} by step, smoothed`, false);
  const text = (value) => (Array.isArray(value) ? value.join("-") : value === null ? "–" : String(value));
  byId("compare-table").replaceChildren(table("Settings that differ, and results", ["Run", ...differing, "step", "loss", metric],
    chosen.map((run) => [run.name, ...differing.map((name) => text(run.differs[name])), text(run.step), short(run.loss), run.shown ?? "–"])));
}

async function startEach() {
  const button = byId("compare-start");
  button.disabled = true;
  setText(byId("compare-problem"), "");
  for (const optimizer of EACH) {
    const got = await post("/api/runs", { data: byId("compare-data").value, options: { optimizer }, pace: 400 });
    if (got.error) {
      setText(byId("compare-problem"), got.error.message);
      break;
    }
    await post(`/api/runs/${got.id}/command`, { do: "pin", pinned: true });
  }
  button.disabled = false;
  refresh();
}

function save(name, type, body) {
  const link = h("a", { href: URL.createObjectURL(new Blob([body], { type })), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

// The charts with the colours of the page, as a drawing of its own.
function drawing() {
  const parts = [...byId("compare-work").querySelectorAll("svg.chart")].map((chart, place) => {
    const own = chart.cloneNode(true);
    chart.querySelectorAll("*").forEach((element, k) => {
      const style = getComputedStyle(element);
      const copy = own.querySelectorAll("*")[k];
      for (const name of ["fill", "stroke", "stroke-width", "opacity", "font-size"]) copy.setAttribute(name, style.getPropertyValue(name));
    });
    own.setAttribute("y", String(place * 290));
    own.setAttribute("width", "520");
    own.setAttribute("height", "270");
    return own.outerHTML;
  });
  return `<svg xmlns="http://www.w3.org/2000/svg" width="520" height="${parts.length * 290}" font-family="sans-serif">${parts.join("")}</svg>`;
}

smoothing.addEventListener("input", () => { state.smoothing = smoothing.value; refresh(); });
logUp.addEventListener("change", () => { state.up = logUp.checked ? "log" : "linear"; remember(); show(); });
logAcross.addEventListener("change", () => { state.across = logAcross.checked ? "log" : "linear"; remember(); show(); });
byId("compare-start").addEventListener("click", startEach);
byId("compare-csv").addEventListener("click", () => answer && save("glassgrad-runs.csv", "text/csv", answer.csv));
byId("compare-svg").addEventListener("click", () => answer && save("glassgrad-runs.svg", "image/svg+xml", drawing()));
