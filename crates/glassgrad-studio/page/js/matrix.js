// The page of the calculator of matrix expressions.

import { ask } from "./api.js";
import { byId, copy, editor, h, math, setText } from "./dom.js";
import { write } from "./state.js";

const FIRST = { e: "norm2(A*x - b)^2", sizes: "A: m n, x: n, b: m", wrt: "x", order: "1" };

const field = byId("matrix-expression");
const text = editor(field, byId("matrix-mirror"));
const work = byId("matrix-work");
const inputs = { e: field, sizes: byId("matrix-sizes"), wrt: byId("matrix-wrt"), order: byId("matrix-order") };

export function open(given) {
  // Whoever comes back finds what was left.
  const first = given.e === undefined ? (field.value ? null : FIRST) : { order: "1", wrt: "", sizes: "", ...given };
  if (first) for (const [name, input] of Object.entries(inputs)) input.value = first[name];
  if (!inputs.order.value) inputs.order.value = "1";
  text.paint();
  question();
}

export function key(event) {
  if (event.key !== "/") return;
  event.preventDefault();
  field.focus();
}

async function question() {
  const state = Object.fromEntries(Object.entries(inputs).map(([name, input]) => [name, input.value]));
  write("matrix", state);
  work.setAttribute("aria-busy", "true");
  const got = await ask("/api/derive", { expression: state.e, wrt: state.wrt, sizes: state.sizes, order: Number(state.order) });
  if (got === null) return;
  work.setAttribute("aria-busy", "false");
  const problem = byId("matrix-problem");
  work.classList.toggle("stale", Boolean(got.error));
  if (!got.error) {
    problem.textContent = "";
    field.removeAttribute("aria-invalid");
    text.paint();
    setText(byId("matrix-inferred"), state.sizes.trim() ? "" : `Inferred: ${got.declared}`);
    return show(got, state);
  }
  const { message, start, end, help } = got.error;
  problem.textContent = help ? `${message}: ${help}` : message;
  field.setAttribute("aria-invalid", "true");
  if (start !== null && start !== undefined) text.paint(start, end);
}

// Text with a_b as a with the subscript b.
const subscripts = (text) => text.split(/(_\w+)/).map((part) => (part.startsWith("_") ? h("sub", {}, part.slice(1)) : part));

const typeset = (markup, plain) => (markup ? math(markup, true) : h("code", {}, plain));

function show(got, state) {
  const notation = (name, id, markup, plain) => plain && h("div", { class: "notation" },
    h("h3", {}, name), h("div", { class: "formula scroll", tabindex: "0", "data-notation": id }, typeset(markup, plain)), h("code", { class: "plain-text" }, plain));
  const held = got.held.map(({ array, axes }) => h("li", {}, h("code", {}, array), axes.length ? `: ${axes.join(" × ")}` : ": a number"));
  const sizes = Object.entries(got.sizes).map(([name, number]) => `${name} = ${number}`).join(", ");
  work.replaceChildren(
    h("section", { class: "card" }, h("h2", {}, "Function"), h("div", { class: "formula scroll", tabindex: "0" }, typeset(got.math.expression, state.e)),
      h("p", { class: "note" }, `A ${got.shape}`)),
    h("section", { class: "card", "aria-label": "Derivative" }, h("h2", {}, "Derivative ", ...subscripts(got.derivative)),
      notation("Matrix notation", "matrix", got.math.matrix, got.matrix) || h("p", { class: "note" }, "The derivative is not a product of matrices and vectors; see the index notation."),
      notation("Einstein notation", "einstein", got.math.einstein, got.einstein),
      h("details", {}, h("summary", {}, "Ricci notation and LaTeX"), h("p", {}, h("code", {}, got.ricci)), h("p", {}, h("code", {}, got.latex)))),
    h("section", { class: "card", "aria-label": "Size" }, h("h2", {}, "Storage: dense and compressed"), h("p", { class: "note" }, sizes ? `At ${sizes}: ${got.structure}` : got.structure),
      bars(got), h("ul", { class: "arrays" }, ...held)),
    checks(got), ledger(got.steps));
}

// Two bars on a logarithmic scale, because one is often a million times the other.
function bars({ held_bytes: held, dense_bytes: dense }) {
  const length = (bytes) => Math.log10(Math.max(bytes, 8)) / Math.log10(Math.max(held, dense, 8));
  const bar = (name, bytes, kind) => {
    const filling = h("span", { class: `filling ${kind}` });
    filling.style.width = `${(100 * length(bytes)).toFixed(1)}%`;
    return h("div", { class: "bytes" }, h("span", {}, name), h("span", { class: "track" }, filling), h("b", { "data-bytes": kind }, readable(bytes)));
  };
  return h("div", {}, bar("dense", dense, "dense"), bar("compressed", held, "held"), h("p", { class: "note" }, "Logarithmic scale."));
}

function readable(bytes) {
  const units = ["bytes", "kB", "MB", "GB", "TB", "PB"];
  const unit = Math.min(Math.floor(Math.log10(Math.max(bytes, 1)) / 3), units.length - 1);
  return `${unit === 0 ? bytes : Number((bytes / 1000 ** unit).toPrecision(3))} ${units[unit]}`;
}

const deviation = (value) => (Number(value) === 0 ? "0" : Number(value).toExponential(0));

function checks({ agreement, disagreement }) {
  const rows = [["finite differences", agreement.finite_differences], ["nested modes", agreement.nested], ["matrix notation, read back", agreement.matrix]];
  const row = ([name, value]) => h("tr", {}, h("th", { scope: "row" }, name), h("td", { class: "n" }, deviation(value)));
  return h("section", { class: "card", "aria-label": "Checks" }, h("h2", {}, "Verification at a random point"),
    disagreement ? h("p", { class: "verdict wrong" }, disagreement) : h("p", { class: "verdict right" }, "All methods agree."),
    h("div", { class: "scroll", tabindex: "0" }, h("table", {}, h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "Compared with"), h("th", { scope: "col" }, "Deviation"))),
      h("tbody", {}, ...rows.filter(([, value]) => value !== null).map(row)))));
}

function ledger(steps) {
  if (steps.length === 0) return h("section", { class: "card" }, h("h2", {}, "Rewriting steps"), h("p", { class: "note" }, "No rewriting was needed."));
  const item = (step) => h("li", {}, h("b", {}, step.rule),
    h("div", { class: "scroll", tabindex: "0" }, typeset(step.math.before, step.before)), h("div", { class: "scroll", tabindex: "0" }, "= ", typeset(step.math.after, step.after)),
    h("p", { class: "note" }, `${step.flops_before.toLocaleString("en")} FLOP → ${step.flops_after.toLocaleString("en")}, deviation ${deviation(step.deviation)}`));
  return h("section", { class: "card", "aria-label": "Rewriting steps" }, h("h2", {}, "Rewriting steps"), h("ol", { class: "ledger" }, ...steps.map(item)));
}

let typing = null;
for (const input of Object.values(inputs)) {
  input.addEventListener("input", () => {
    if (input === field) text.paint();
    clearTimeout(typing);
    typing = setTimeout(question, 250);
  });
}
field.addEventListener("keydown", (event) => { if (event.key === "Enter") event.preventDefault(); });
byId("matrix-share").addEventListener("click", () => copy(location.href, byId("matrix-shared")));
