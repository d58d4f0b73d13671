// Look inside: a weight and its last update, an example and the way of its gradient, the graph, the passes, the audit.

import { byId, h, math, table } from "../dom.js";
import { planned } from "../plan.js";
import { bitmap, bytes, grey, signed } from "./paint.js";
import { short } from "./plot.js";

const TABS = { weight: "A weight", sample: "An example", graph: "The graph", passes: "The passes", audit: "The audit" };

export class Inside {
  constructor(look) {
    this.look = look;
    this.host = byId("inside");
    this.asked = { weight: null, sample: { part: "test", index: 0 }, graph: {}, passes: {}, audit: {} };
    this.tab = "weight";
    const tab = ([name, title]) => h("button", { type: "button", role: "tab", id: `inside-${name}`, "aria-controls": "inside-body", onclick: () => this.open(name), onkeydown: (event) => this.move(event) }, title);
    this.body = h("div", { id: "inside-body", role: "tabpanel", "aria-labelledby": "inside-weight", tabindex: "-1" });
    this.tabs = Object.entries(TABS).map(tab);
    this.host.replaceChildren(h("h2", {}, "Look inside"), h("div", { class: "tabs", role: "tablist", "aria-label": "Look inside" }, ...this.tabs), this.body);
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
    // The first weight there is, until someone clicks on another.
    const first = about.parameters.find((one) => one.trained);
    this.asked.weight = first ? { path: first.path, place: first.shape.map(() => 0) } : null;
    this.parameters = about.parameters.filter((one) => one.trained);
    this.asked.sample = { part: "test", index: 0 };
    this.clear();
  }

  clear() {
    this.body.replaceChildren(h("p", { class: "note" }, "Pause, and click on a weight, a point or an image, or choose a tab. Questions are answered between two steps, so they can be asked while it learns, too."));
  }

  choose(asked) {
    const name = asked.path ? "weight" : "sample";
    this.asked[name] = asked;
    this.open(name).then(() => this.host.scrollIntoView({ behavior: "smooth", block: "nearest" }));
  }

  async open(name) {
    this.tab = name;
    this.mark();
    if (!this.asked[name]) return;
    this.body.setAttribute("aria-busy", "true");
    const answer = await this.look({ at: name, ...this.asked[name] });
    if (!answer || this.tab !== name) return;
    this.body.setAttribute("aria-busy", "false");
    this.body.replaceChildren(...(answer.error ? [this.chooser(name), h("p", { class: "problem", role: "alert" }, answer.error.help ? `${answer.error.message}: ${answer.error.help}` : answer.error.message)] : [this.chooser(name), this[name](answer)]));
  }

  // What can be asked for by hand: a weight by its place, an example by its number, a level of the graph.
  chooser(name) {
    const again = h("button", { type: "button", onclick: () => this.open(name) }, "Look again");
    if (name === "weight") {
      const { path, place } = this.asked.weight;
      const select = h("select", { id: "inside-path" }, ...this.parameters.map((one) => h("option", { value: one.path, selected: one.path === path }, one.path)));
      const at = h("input", { id: "inside-place", class: "short", value: place.join(", "), autocomplete: "off" });
      const ask = () => this.choose({ path: select.value, place: at.value.split(/[\s,]+/).filter(Boolean).map(Number) });
      select.addEventListener("change", () => { at.value = this.parameters.find((one) => one.path === select.value).shape.map(() => 0).join(", "); ask(); });
      at.addEventListener("change", ask);
      return h("div", { class: "row" }, h("label", { class: "inline" }, "Parameter ", select), h("label", { class: "inline" }, "place ", at), again);
    }
    if (name === "sample") {
      const { part, index } = this.asked.sample;
      const select = h("select", { id: "inside-part" }, ...["training", "test"].map((one) => h("option", { value: one, selected: one === part }, `${one} part`)));
      const at = h("input", { id: "inside-index", class: "short", value: index, inputmode: "numeric", autocomplete: "off" });
      const ask = () => this.choose({ part: select.value, index: Number(at.value) });
      select.addEventListener("change", ask);
      at.addEventListener("change", ask);
      return h("div", { class: "row" }, h("label", { class: "inline" }, "Of the ", select), h("label", { class: "inline" }, "number ", at), again);
    }
    return h("div", { class: "row" }, again);
  }

  weight(answer) {
    const { shown } = answer;
    const item = (title, number, kind = "") => h("li", { class: kind }, h("span", {}, title), h("b", {}, number));
    const memory = (link) => link.memory.map((one) => h("li", {}, `${link.name}, ${one.name}: ${short(one.before)} → ${short(one.after)}`));
    return h("div", {}, h("h3", {}, `${answer.name}: step ${answer.step}`),
      h("ol", { class: "chain" }, item("gradient", shown.gradient, "first"), ...answer.links.map((link) => item(link.name, link.shown)),
        item(`× rate ${shown.rate}, against it`, shown.change), item("before", shown.before), item("after", shown.after, "last")),
      h("div", { class: "formulas" }, ...answer.lines.map((line) => h("div", { class: "scroll", tabindex: "0" }, math(line.math, true)))),
      answer.links.some((link) => link.memory.length) ? h("div", {}, h("h3", {}, "What the optimiser remembers of it"), h("ul", { class: "arrays" }, ...answer.links.flatMap(memory))) : "",
      answer.graph ? h("div", {}, h("h3", {}, "The step as a graph"), h("p", { class: "note" }, answer.graph.about), planned(answer.graph.plan, "The step of one weight")) : "");
  }

  sample(answer) {
    const { row, image, text, truth, told, layers } = answer;
    const verdict = told?.name !== undefined ? `told ${told.name} (${short(100 * told.shares[told.class])} %), is ${truth.name}` : told ? `told ${told.numbers.map(short).join(", ")}, is ${truth?.numbers.map(short).join(", ")}` : "";
    const given = row
      ? table("What goes in, and how the loss would change with it", ["Feature", "Value", "As the network sees it", "Gradient"], row.names.map((name, k) => [name, short(row.values[k]), short(row.inputs[k]), short(row.gradients[k] ?? "")]))
      : image ? h("div", { class: "pictures" },
        h("figure", {}, bitmap(image.width, image.height, grey(bytes(image.pixels))), h("figcaption", {}, "The image")),
        h("figure", {}, bitmap(image.width, image.height, signed(bytes(image.gradients))), h("figcaption", {}, `How the loss would change with each pixel, up to ${short(image.scale)}`)))
        : h("p", {}, h("code", {}, text?.given ?? ""));
    const shares = told?.shares ? h("div", {}, h("h3", {}, told.probabilities ? "Probabilities" : "Shares"), bars(told.names, told.shares, told.class)) : "";
    const layer = (one) => [h("code", {}, one.name), one.shape.join(" × "), strip(one.cells), short(one.size), one.gradient_cells ? strip(one.gradient_cells) : "none arrives", short(one.gradient_size)];
    return h("div", {}, h("h3", {}, `Example ${answer.index} of the ${answer.part} part: ${verdict}; its loss is ${short(answer.loss)}`), given, shares,
      table("On the way through the layers, and the gradient on its way back", ["Layer", "Shape", "Values", "Size", "Gradients", "Size"], layers.map(layer)),
      h("p", { class: "note" }, "Blue is above zero, orange below; each strip has its own scale. Sizes are roots of mean squares."));
  }

  graph(answer) {
    const level = h("select", { id: "inside-level" }, ...answer.levels.map(({ about, boxes }, k) => h("option", { value: k, selected: k === answer.level }, `${boxes} boxes: ${about}`)));
    level.addEventListener("change", () => { this.asked.graph = { level: Number(level.value) }; this.open("graph"); });
    const detail = h("dl", { class: "facts", "aria-live": "polite" });
    const tell = (place) => {
      const one = answer.details[place];
      const facts = [["name", one.name], ["is", one.expression], ["type", one.type], ["line", one.file ? `${one.file}:${one.line}` : ""], ["value", told(one.value)], ["gradient", told(one.gradient)]];
      detail.replaceChildren(...facts.filter(([, text]) => text).flatMap(([name, text]) => [h("dt", {}, name), h("dd", {}, text)]));
    };
    return h("div", {}, h("label", { class: "inline" }, "Fold ", level), h("p", { class: "note" }, `The loss of ${answer.examples} examples, ${answer.nodes} operations. In red the gradient of the loss. Click a box for its numbers and its line.`),
      answer.plan ? planned(answer.plan, "The graph of the loss", tell) : h("p", { class: "note" }, "Too many boxes to be drawn: fold further."), detail);
  }

  passes(answer) {
    const change = ([before, after]) => (before === after ? short(after) : `${short(before)} → ${short(after)}`);
    const rows = answer.passes.map((pass) => [pass.name, change(pass.nodes), change(pass.flops), change(pass.bytes)]);
    const folds = answer.passes.filter((pass) => pass.after).map((pass) => h("details", {}, h("summary", {}, `After ${pass.name}: ${pass.nodes[1]} nodes`), h("pre", { class: "lines scroll" }, pass.after)));
    return h("div", {}, table("What becomes of a training step before it runs", ["Pass", "Nodes", "Operations", "Bytes"], rows),
      h("details", {}, h("summary", {}, "The graph before the first pass"), h("pre", { class: "lines scroll" }, answer.graph)), ...folds,
      h("p", { class: "note" }, `${answer.steps.length} steps in the program that comes out; predicted ${short(1e3 * answer.predicted)} ms by the limits of this machine, measured ${short(1e3 * answer.measured)} ms.`));
  }

  audit(answer) {
    const rows = answer.parameters.map((one) => [h("code", {}, one.name), one.type, one.verdict, told(one.gradient), one.by.map((cut) => `${cut.expression} at ${cut.file}:${cut.line}`).join("; ")]);
    return h("div", {}, h("p", { class: answer.healthy ? "verdict right" : "verdict wrong" }, answer.healthy ? `A derivative of the loss arrives at all ${answer.floats} parameters.` : `A derivative arrives at ${answer.reached} of ${answer.floats} parameters.`),
      ...answer.concerns.map((one) => h("p", { class: "problem" }, one.text)),
      table("The audit of gradient paths", ["Parameter", "Type", "Verdict", "Gradient", "Because of"], rows));
  }
}

const told = (value) => (value === null || value === undefined ? "" : typeof value === "number" ? short(value) : typeof value === "object" ? Object.entries(value).map(([name, one]) => `${name} ${typeof one === "number" ? short(one) : Array.isArray(one) ? one.map((number) => (typeof number === "number" ? short(number) : number)).join(", ") : one}`).join("; ") : String(value));

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
    return h("li", { class: k === marked ? "told" : "" }, h("span", {}, name), h("span", { class: "track" }, own), h("b", {}, `${(100 * shares[k]).toFixed(1)} %`));
  }));
}
