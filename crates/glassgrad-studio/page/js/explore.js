// The page on which an expression is taken apart.

import { ask, post } from "./api.js";
import { errors } from "./chart.js";
import { byId, copy, editor, h, math, options, setMath, setText } from "./dom.js";
import { Graph, legend } from "./graph.js";
import * as plots from "./plots.js";
import { write } from "./state.js";
import { Stepper, timeline } from "./steps.js";
import { Tables, covered, orders } from "./tables.js";
import { Values } from "./values.js";

const FIRST = { e: "ln(x1) + x1*x2 - sin(x2)", at: new Map([["x1", "2"], ["x2", "5"]]) };
const HIGHEST_ORDER = 8;

const field = byId("expression");
const text = editor(field, byId("mirror"));
const graph = new Graph(byId("graph"), chooseNode);
const tables = new Tables(byId("tables"));
const stepper = new Stepper(moved);
const values = new Values((name, value) => {
  state.at.set(name, value);
  question();
});

let state = null;
let answer = null;
let steps = [];
let comparing = null;

export function open(given) {
  // The previous state is restored.
  const first = given.e === undefined ? state || FIRST : given;
  state = {
    e: first.e,
    at: new Map(first.at || []),
    mode: first.mode === "forward" ? "forward" : "reverse",
    output: Number(first.output) || 1,
    wrt: first.wrt ?? null,
    order: Math.min(Math.max(Number(first.order) || 1, 1), HIGHEST_ORDER),
    step: first.step === undefined || first.step === null ? null : Number(first.step),
  };
  field.value = state.e;
  text.paint();
  stepper.stop();
  question();
}

export function key(event) {
  const actions = {
    ArrowRight: () => stepper.go(stepper.place + 1),
    ArrowLeft: () => stepper.go(stepper.place - 1),
    Home: () => stepper.go(0),
    End: () => stepper.go(stepper.length),
    m: () => setMode(state.mode === "forward" ? "reverse" : "forward"),
    "/": () => field.focus(),
  };
  // On a button the space bar presses it.
  if (!event.target.closest("button, a, summary")) actions[" "] = () => stepper.toggle();
  const action = actions[event.key];
  if (!action || (event.target.closest(".scroll") && event.target.scrollWidth > event.target.clientWidth && event.key.startsWith("Arrow"))) return;
  event.preventDefault();
  action();
}

async function question() {
  remember();
  const at = Object.fromEntries([...state.at].map(([name, value]) => [name, value !== "" && Number.isFinite(Number(value)) ? Number(value) : value]));
  const asked = { expression: state.e, at, output: state.output, order: state.order };
  if (state.wrt !== null) asked.wrt = state.wrt;
  byId("work").setAttribute("aria-busy", "true");
  const got = await ask("/api/explore", asked);
  if (got === null) return;
  byId("work").setAttribute("aria-busy", "false");
  if (got.error) return refused(got.error);
  setText(byId("problem"), "");
  byId("work").classList.remove("stale");
  field.removeAttribute("aria-invalid");
  answer = got;
  answer.mode = answer.forward ? state.mode : "reverse";
  show();
  plot({ ...asked, ranges: values.ranges() });
  compare(asked);
}

// The plot follows the slider: one question at a time, and then the latest.
let plotting = null;
async function plot(asked) {
  const isBusy = plotting !== null;
  plotting = asked;
  if (isBusy) return;
  while (plotting !== null) {
    const now = plotting;
    const got = await post("/api/plot", now);
    if (!got.error) plots.show(got);
    plotting = plotting === now ? null : plotting;
  }
}

// What was there before stays in sight, pale, while an expression is not whole yet.
function refused({ message, start, end, help }) {
  // A choice that the new expression does not offer is dropped, and asked again without.
  if (start === null && state.wrt !== null && message.includes("is not a variable")) {
    state.wrt = null;
    return question();
  }
  if (start === null && state.output !== 1 && message.startsWith("there is no result")) {
    state.output = 1;
    return question();
  }
  setText(byId("problem"), help ? `${message}: ${help}` : message);
  field.setAttribute("aria-invalid", "true");
  if (start !== null && start !== undefined) text.paint(start, end);
  byId("work").classList.add("stale");
}

function show() {
  state.wrt = answer.wrt;
  values.show(answer.variables, state.at);
  options(byId("output"), answer.outputs.map(({ label }, place) => [String(place + 1), `${place + 1}: ${label}`]), String(answer.output));
  options(byId("wrt"), answer.variables.map(({ name }) => [name, name]), answer.wrt);
  options(byId("order"), Array.from({ length: HIGHEST_ORDER }, (_, place) => [String(place + 1), String(place + 1)]), String(state.order));
  for (const radio of document.querySelectorAll("input[name=mode]")) radio.checked = radio.value === answer.mode;
  showFormula();
  // The place in the text is in the message too, but a narrow screen would break its lines.
  setText(byId("warning"), (answer.warning || "").split("\n")[0]);
  legend(byId("legend"), answer.mode);
  graph.show(answer);
  tables.show(answer);
  covered(byId("covered"), answer.covered);
  orders(byId("orders"), answer);
  steps = timeline(answer, answer.mode);
  stepper.reset(steps.length, state.step);
  paint();
}

function showFormula() {
  const formula = byId("formula");
  const lines = answer.statements;
  if (formula.children.length !== lines.length) formula.replaceChildren(...lines.map(() => h("div")));
  lines.forEach((line, place) => setMath(formula.children[place], line, true));
  const entry = (name, number, id) => h("div", {}, h("dt", {}, ...name), h("dd", { "data-result": id }, number));
  const partial = ({ variable, math: name, shown }) => entry(["∂f/∂", math(name)], shown, variable);
  byId("result").replaceChildren(h("dl", { class: "numbers" },
    entry([answer.outputs.length > 1 ? `result ${answer.output}` : "value"], answer.shown, "value"), ...answer.gradient.map(partial)));
}

function paint() {
  const done = stepper.place;
  graph.paint(answer, steps, done);
  tables.paint(steps, done);
  const now = done > 0 ? steps[done - 1] : null;
  const rule = byId("rule");
  rule.replaceChildren(...(now ? now.formulas.map((line) => math(line, true)) : [h("p", { class: "note" }, "Nothing is computed yet: press → or ›.")]));
  const place = now && answer.nodes[now.node].place;
  if (place && done < steps.length) text.paint(place[0], place[1], "here");
  else text.paint();
}

function moved(place) {
  state.step = place === steps.length ? null : place;
  remember();
  paint();
}

// A click on a node goes to the last step that changed it.
function chooseNode(node) {
  const last = steps.findLastIndex((step) => step.node === node);
  if (last >= 0) stepper.go(last + 1);
}

function remember() {
  const used = answer && answer.expression === state.e ? new Map([...state.at].filter(([name]) => answer.variables.some((own) => own.name === name))) : state.at;
  write("explore", { ...state, at: used, output: state.output > 1 ? state.output : null, order: state.order > 1 ? state.order : null });
}

function compare(asked) {
  clearTimeout(comparing);
  comparing = setTimeout(async () => {
    const got = await ask("/api/compare", asked);
    if (got) showComparison(got);
  }, 250);
}

function showComparison(got) {
  const host = byId("compare");
  if (got.error) return host.replaceChildren(h("p", { class: "note lines" }, got.error.message));
  const digits = (value) => String(value);
  const ways = got.derivatives.map((way) => h("tr", {}, h("th", { scope: "row" }, "∂f/∂", math(way.name)),
    h("td", { class: "n" }, digits(way.finite_difference)), h("td", { class: "n" }, digits(way.symbolic)), h("td", { class: "n" }, digits(way.automatic))));
  const head = (...names) => h("thead", {}, h("tr", {}, ...names.map((name) => h("th", { scope: "col" }, name))));
  const scroll = (inside) => h("div", { class: "scroll", tabindex: "0" }, inside);
  const verdict = got.certified ? h("p", { class: "verdict right" }, "Certified: adjoint identity, symmetry and Taylor remainders hold.")
    : h("p", { class: "verdict wrong" }, `Not certified at this point; a kink near it is the usual reason. ${got.blame.join("; ")}`);
  const formulas = got.derivatives.map((way) => h("div", { class: "symbolic scroll", tabindex: "0" }, "∂f/∂", math(way.name), " = ", math(way.math)));
  const growth = got.symbolic_growth.map((row) => h("tr", {}, h("th", { scope: "row" }, String(row.order)), h("td", { class: "n" }, digits(row.written_out)), h("td", { class: "n" }, digits(row.shared))));
  host.replaceChildren(verdict,
    scroll(h("table", { id: "ways" }, head("", "Finite differences", "Symbolic", "Automatic"), h("tbody", {}, ...ways))),
    h("h3", {}, "Symbolic derivatives"), ...formulas,
    h("div", { class: "pair" }, errors(got.finite_difference_errors),
      scroll(h("table", {}, h("caption", {}, "Size of symbolic derivatives (operations)"), head("Order", "Expression tree", "DAG"), h("tbody", {}, ...growth)))));
}

function setMode(mode) {
  state.mode = mode;
  state.step = null;
  if (!answer) return;
  answer.mode = answer.forward ? mode : "reverse";
  stepper.stop();
  remember();
  show();
}

let typing = null;
field.addEventListener("input", () => {
  state.e = field.value.replaceAll("\n", " ");
  state.step = null;
  text.paint();
  clearTimeout(typing);
  typing = setTimeout(question, 120);
});
field.addEventListener("keydown", (event) => { if (event.key === "Enter") event.preventDefault(); });
for (const radio of document.querySelectorAll("input[name=mode]")) radio.addEventListener("change", () => setMode(radio.value));
for (const [id, set] of [["output", (value) => { state.output = Number(value); }], ["wrt", (value) => { state.wrt = value; }], ["order", (value) => { state.order = Number(value); }]]) {
  byId(id).addEventListener("change", (event) => {
    set(event.target.value);
    state.step = null;
    question();
  });
}
byId("share").addEventListener("click", () => copy(location.href, byId("shared")));
