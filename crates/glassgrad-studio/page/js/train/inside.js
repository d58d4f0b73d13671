// Inspection: a weight and its last update, an example and the way of its gradient, the graph, the passes, the audit.

import { byId, counted, h, math, table } from "../dom.js";
import { describe } from "../glossary.js";
import { planned } from "../plan.js";
import { bitmap, bytes, grey, signed } from "./paint.js";
import { short } from "./plot.js";

const TABS = { weight: "Weight update", sample: "Example", graph: "Computation graph", passes: "Compiler passes", audit: "Gradient audit" };

export class Inside {
  constructor(inspect) {
    this.inspect = inspect;
    this.host = byId("inside");
    this.asked = { weight: null, sample: { part: "test", index: 0 }, graph: {}, passes: {}, audit: {} };
    this.tab = "weight";
    const tab = ([name, title]) => h("button", { type: "button", role: "tab", id: `inside-${name}`, "aria-controls": "inside-body", onclick: () => this.open(name), onkeydown: (event) => this.move(event) }, title);
    this.body = h("div", { id: "inside-body", role: "tabpanel", "aria-labelledby": "inside-weight", tabindex: "-1" });
    this.tabs = Object.entries(TABS).map(tab);
    this.host.replaceChildren(h("h2", {}, "Inspect"), h("div", { class: "tabs", role: "tablist", "aria-label": "Inspect" }, ...this.tabs), this.body);
    this.tabs.forEach((own, place) => describe(own, Object.values(TABS)[place]));
    this.mark();
  }

  // The arrow keys go from tab to tab.
  move(event) {
    const names = Object.keys(TABS);
    const way = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!way) return;
    event.preventDefault();
    event.stopPropagation();
    const next = (names.indexOf(this.tab) + way + names.length) % names.length;
    this.tabs[next].focus();
    this.open(names[next]);
  }

  mark() {
    Object.keys(TABS).forEach((name, place) => {
      this.tabs[place].setAttribute("aria-selected", String(name === this.tab));
      this.tabs[place].tabIndex = name === this.tab ? 0 : -1;
    });
    this.body.setAttribute("aria-labelledby", `inside-${this.tab}`);
  }

  about(about) {
    // The first weight, until another is selected.
    const first = about.parameters.find((one) => one.trained);
    this.asked.weight = first ? { path: first.path, place: first.shape.map(() => 0) } : null;
    this.parameters = about.parameters.filter((one) => one.trained);
    this.asked.sample = { part: "test", index: 0 };
    this.clear();
  }

  clear() {
    this.body.replaceChildren(h("p", { class: "note" }, "Click a weight, a point or an image, or choose a tab. Inspection happens between two steps, also during training."));
  }

  choose(asked) {
    const name = asked.path ? "weight" : "sample";
    this.asked[name] = asked;
    this.open(name).then(() => this.host.scrollIntoView({ behavior: "smooth", block: "nearest" }));
  }

  // Says what is wrong with what was entered, above what is shown.
  refuse(message) {
    this.body.querySelector(".problem.entry")?.remove();
    this.body.firstChild.after(h("p", { class: "problem entry", role: "alert" }, message));
  }

  async open(name) {
    this.tab = name;
    this.mark();
    if (!this.asked[name]) return;
    this.body.setAttribute("aria-busy", "true");
    const answer = await this.inspect({ at: name, ...this.asked[name] });
    if (!answer || this.tab !== name) return;
    this.body.setAttribute("aria-busy", "false");
    this.body.replaceChildren(...(answer.error ? [this.chooser(name), h("p", { class: "problem", role: "alert" }, answer.error.help ? `${answer.error.message}: ${answer.error.help}` : answer.error.message)] : [this.chooser(name), this[name](answer)]));
  }

  // What can be asked for by hand: a weight by its place, an example by its number, a level of the graph.
  chooser(name) {
    const again = h("button", { type: "button", onclick: () => this.open(name) }, "Refresh");
    if (name === "weight") {
      const { path, place } = this.asked.weight;
      const select = h("select", { id: "inside-path" }, ...this.parameters.map((one) => h("option", { value: one.path, selected: one.path === path }, one.path)));
      const at = h("input", { id: "inside-place", class: "short", value: place.join(", "), autocomplete: "off" });
      const ask = () => {
        const place = at.value.split(/[\s,]+/).filter(Boolean).map(Number);
        if (place.some((one) => !Number.isInteger(one) || one < 0)) return this.refuse("index: expected whole numbers with commas between them, as in 0, 0");
        return this.choose({ path: select.value, place });
      };
      select.addEventListener("change", () => { at.value = this.parameters.find((one) => one.path === select.value).shape.map(() => 0).join(", "); ask(); });
      at.addEventListener("change", ask);
      return h("div", { class: "row" }, h("label", { class: "inline" }, "Parameter ", select), h("label", { class: "inline" }, "index ", at), again);
    }
    if (name === "sample") {
      const { part, index } = this.asked.sample;
      const select = h("select", { id: "inside-part" }, ...["training", "test"].map((one) => h("option", { value: one, selected: one === part }, `${one} set`)));
      const at = h("input", { id: "inside-index", class: "short", value: index, inputmode: "numeric", autocomplete: "off" });
      const ask = () => {
        const number = Number(at.value);
        if (at.value.trim() === "" || !Number.isInteger(number) || number < 0) return this.refuse("number: expected a whole number of at least 0");
        return this.choose({ part: select.value, index: number });
      };
      select.addEventListener("change", ask);
      at.addEventListener("change", ask);
      return h("div", { class: "row" }, h("label", { class: "inline" }, "From the ", select), h("label", { class: "inline" }, "number ", at), again);
    }
    return h("div", { class: "row" }, again);
  }

  weight(answer) {
    const { shown } = answer;
    const item = (title, number, kind = "") => h("li", { class: kind }, h("span", {}, title), h("b", {}, number));
    const slots = (link) => link.slots.map((one) => h("li", {}, `${link.name}, ${one.name}: ${short(one.before)} → ${short(one.after)}`));
    return h("div", {}, h("h3", {}, `${answer.name}: step ${answer.step}`),
      h("ol", { class: "chain" }, item("gradient", shown.gradient, "first"), ...answer.links.map((link) => item(link.name, link.shown)),
        item(`× −learning rate ${shown.rate}`, shown.change), item("before", shown.before), item("after", shown.after, "last")),
      h("div", { class: "formulas" }, ...answer.lines.map((line) => h("div", { class: "scroll", tabindex: "0" }, math(line.math, true)))),
      answer.links.some((link) => link.slots.length) ? h("div", {}, h("h3", {}, "Optimizer state (slots)"), h("ul", { class: "arrays" }, ...answer.links.flatMap(slots))) : "",
      answer.graph ? h("div", {}, h("h3", {}, "The update as a computation graph"), h("p", { class: "note" }, answer.graph.about), planned(answer.graph.plan, "The update of one weight")) : "");
  }

  sample(answer) {
    const { row, image, text, truth, predicted, layers } = answer;
    const verdict = predicted?.name !== undefined ? `predicted ${predicted.name} (${short(100 * predicted.shares[predicted.class])} %), actual ${truth.name}` : predicted ? `predicted ${predicted.numbers.map(short).join(", ")}, actual ${truth?.numbers.map(short).join(", ")}` : "";
    const given = row
      ? table("Input features and the gradient of the loss", ["Feature", "Value", "Standardized", "Gradient"], row.names.map((name, k) => [name, short(row.values[k]), short(row.inputs[k]), short(row.gradients[k] ?? "")]))
      : image ? h("div", { class: "pictures" },
        h("figure", {}, bitmap(image.width, image.height, grey(bytes(image.pixels))), h("figcaption", {}, "Input image")),
        h("figure", {}, bitmap(image.width, image.height, signed(bytes(image.gradients))), h("figcaption", {}, `Gradient of the loss with respect to each pixel (saliency), up to ${short(image.scale)}`)))
        : h("p", {}, h("code", {}, text?.given ?? ""));
    const shares = predicted?.shares ? h("div", {}, h("h3", {}, predicted.probabilities ? "Predicted probabilities" : "Normalized scores"), bars(predicted.names, predicted.shares, predicted.class)) : "";
    const layer = (one) => [h("code", {}, one.name), one.shape.join(" × "), strip(one.cells), short(one.size), one.gradient_cells ? strip(one.gradient_cells) : "no gradient", short(one.gradient_size)];
    return h("div", {}, h("h3", {}, `Example ${answer.index} of the ${answer.part} set: ${verdict}; loss ${short(answer.loss)}`), given, shares,
      table("Forward and backward pass by layer", ["Layer", "Shape", "Activations", "RMS", "Gradients", "RMS"], layers.map(layer)),
      h("p", { class: "note" }, "Blue is positive, orange negative; each strip has its own scale. RMS is the root mean square."));
  }

  graph(answer) {
    const level = h("select", { id: "inside-level" }, ...answer.levels.map(({ about, boxes }, k) => h("option", { value: k, selected: k === answer.level }, `${boxes} nodes: ${about}`)));
    level.addEventListener("change", () => { this.asked.graph = { level: Number(level.value) }; this.open("graph"); });
    const detail = h("dl", { class: "facts", "aria-live": "polite" });
    const select = (place) => {
      const one = answer.details[place];
      const facts = [["name", one.name], ["is", one.expression], ["type", one.type], ["line", one.file ? `${one.file}:${one.line}` : ""], ["value", shownOf(one.value)], ["gradient", shownOf(one.gradient)]];
      detail.replaceChildren(...facts.filter(([, text]) => text).flatMap(([name, text]) => [h("dt", {}, name), h("dd", {}, text)]));
    };
    return h("div", {}, h("label", { class: "inline" }, "Collapse ", level), h("p", { class: "note" }, `The loss of ${counted(answer.examples, "example")}, ${counted(answer.nodes, "operation")}. Gradients of the loss are in red. Click a node for its values and its source line.`),
      answer.plan ? planned(answer.plan, "Computation graph of the loss", select) : h("p", { class: "note" }, "Too many nodes to draw: collapse further."), detail);
  }

  passes(answer) {
    const change = ([before, after]) => (before === after ? short(after) : `${short(before)} → ${short(after)}`);
    const rows = answer.passes.map((pass) => [pass.name, change(pass.nodes), change(pass.flops), change(pass.bytes)]);
    const folds = answer.passes.filter((pass) => pass.after).map((pass) => h("details", {}, h("summary", {}, `After ${pass.name}: ${counted(pass.nodes[1], "node")}`), h("pre", { class: "lines scroll" }, pass.after)));
    return h("div", {}, table("Compiler passes of a training step", ["Pass", "Nodes", "Operations", "Bytes"], rows),
      h("details", {}, h("summary", {}, "Graph before the first pass"), h("pre", { class: "lines scroll" }, answer.graph)), ...folds,
      h("p", { class: "note" }, `${counted(answer.steps.length, "step")} in the compiled program; predicted ${short(1e3 * answer.predicted)} ms by the roofline of this machine, measured ${short(1e3 * answer.measured)} ms.`));
  }

  audit(answer) {
    const rows = answer.parameters.map((one) => [h("code", {}, one.name), one.type, one.verdict, shownOf(one.gradient), one.by.map((cut) => `${cut.expression} at ${cut.file}:${cut.line}`).join("; ")]);
    return h("div", {}, h("p", { class: answer.healthy ? "verdict right" : "verdict wrong" }, answer.healthy ? `The gradient of the loss reaches all ${answer.floats} parameters.` : `The gradient reaches ${answer.reached} of ${answer.floats} parameters.`),
      ...answer.diagnostics.map((one) => h("p", { class: "problem" }, one.text)),
      table("Gradient-path audit", ["Parameter", "Type", "Verdict", "Gradient", "Blocked by"], rows));
  }
}

const shownOf = (value) => (value === null || value === undefined ? "" : typeof value === "number" ? short(value) : typeof value === "object" ? Object.entries(value).map(([name, one]) => `${name} ${typeof one === "number" ? short(one) : Array.isArray(one) ? one.map((number) => (typeof number === "number" ? short(number) : number)).join(", ") : one}`).join("; ") : String(value));

function strip(cells) {
  const own = bytes(cells);
  const columns = Math.min(own.length, 64) || 1;
  const rows = Math.ceil(own.length / columns) || 1;
  const padded = new Uint8Array(rows * columns).fill(128);
  padded.set(own);
  const canvas = bitmap(columns, rows, signed(padded), { class: "strip" });
  canvas.style.height = `${Math.min(Math.max(14, 6 * rows), 84)}px`;
  return canvas;
}

// Bars with names, one of them marked.
export function bars(names, shares, marked) {
  return h("ol", { class: "bars" }, ...names.map((name, k) => {
    const own = h("i");
    own.style.width = `${Math.max(0.5, 100 * (Number(shares[k]) || 0))}%`;
    return h("li", { class: k === marked ? "predicted" : "" }, h("span", {}, name), h("span", { class: "track" }, own), h("b", {}, `${(100 * shares[k]).toFixed(1)} %`));
  }));
}
