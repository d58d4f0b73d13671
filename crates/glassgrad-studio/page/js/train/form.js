// The form of an experiment: data, network and training. Settings that are not chosen have the defaults of the server.

import { ask } from "../api.js";
import { byId, h, options } from "../dom.js";
import { explain } from "../glossary.js";

// Settings of the data stay when another model is chosen.
const KEPT = ["data", "model", "seed", "noise", "points", "function", "test", "target", "target_type", "drop", "missing", "delimiter", "decimal", "header"];

export class Form {
  // The listener is called after a change.
  constructor(catalogue, chosen) {
    this.catalogue = catalogue;
    this.chosen = chosen;
    this.given = {};
    this.csv = null;
    this.inputs = new Map();
    const tasks = catalogue.tasks.flatMap((task) => (task.name === "moons" ? [task, { name: "sparse-moons", about: "moons, with sparse random connectivity", is_there: true }] : [task]));
    const offered = [...tasks, { name: "csv", about: "your own table (CSV)", is_there: true }];
    this.task = byId("train-task");
    this.task.replaceChildren(...offered.map(({ name, about, is_there: isThere }) =>
      h("option", { value: name, disabled: !isThere, title: about }, name === "csv" ? "CSV table" : isThere ? name.replace("-", " ") : `${name} (not available)`)));
    this.about = new Map(offered.map((task) => [task.name, task.about]));
    this.task.addEventListener("change", () => this.open({ data: this.task.value }));
    for (const part of [byId("train-fields"), byId("train-more")]) part.replaceChildren();
    for (const field of catalogue.fields) this.add(field);
    byId("train-file").addEventListener("change", (event) => this.takeFile(event.target.files[0]));
  }

  // A field comes from the server's table of settings; a list of choices is its kind.
  add({ name, title, help, kind, more, data, models }) {
    const suggested = kind.suggested && h("datalist", { id: `suggested-${name}` }, ...kind.suggested.map((value) => h("option", { value })));
    const input = Array.isArray(kind)
      ? h("select", { id: `set-${name}` }, ...kind.map(([value, about]) => h("option", { value, title: about }, value)))
      : h("input", { id: `set-${name}`, class: "short", inputmode: kind === "number" ? "decimal" : null, list: suggested ? suggested.id : null, autocomplete: "off", spellcheck: "false" });
    const heading = h("span", {}, title);
    const label = h("label", { title: help }, heading, input, suggested);
    explain(heading, title);
    this.inputs.set(name, { input, kind, label, data, models });
    byId(more ? "train-more" : "train-fields").append(label);
    input.addEventListener("change", () => {
      this.given[name] = input.value;
      if (name === "model") {
        // What suits one model does not suit another.
        this.given = Object.fromEntries(Object.entries(this.given).filter(([own]) => KEPT.includes(own)));
      }
      this.suit();
    });
  }

  // Begins with what an address says.
  open(given) {
    const { data = "moons", ...rest } = given;
    this.given = { ...rest };
    this.data = data;
    if (data === "sparse-moons") this.given.model ??= "sparse";
    this.task.value = data;
    byId("train-own").hidden = data !== "csv";
    byId("train-about").textContent = this.about.get(data) || "";
    return this.suit();
  }

  // Points that were edited in the page: a table, with the network that was chosen.
  useTable(name, text) {
    const kept = ["model", "layers", "activation", "optimizer", "lr", "epochs", "batch", "test", "seed", "dropout", "weight_decay"];
    if (this.csv?.name !== name || this.data !== "csv") {
      this.given = { ...Object.fromEntries(kept.map((own) => [own, this.inputs.get(own)?.input.value]).filter(([, value]) => value)), target: "class", target_type: "classification" };
      this.data = "csv";
      this.task.value = "csv";
      byId("train-own").hidden = false;
      byId("train-about").textContent = "edited points";
    }
    this.csv = { name, text };
    return this.suit();
  }

  // A table of an address, whose settings are there already.
  openTable(name, text) {
    byId("train-about").textContent = "edited points";
    this.csv = { name, text };
    return this.suit();
  }

  async takeFile(file) {
    if (!file) return;
    this.csv = { name: file.name.toLowerCase().endsWith(".csv") ? file.name : `${file.name}.csv`, text: await file.text() };
    this.suit();
  }

  // What is asked for, as the server takes it.
  asked() {
    const own = {};
    for (const [name, text] of Object.entries(this.given)) {
      const field = this.inputs.get(name);
      if (!field || text === "" || text === null || text === undefined) continue;
      // What is no number goes as it is: the server says what it expects.
      const numbers = String(text).split(/[\s,]+/).filter(Boolean).map(Number);
      if (field.kind === "number") own[name] = Number.isNaN(Number(text)) ? text : Number(text);
      else if (field.kind === "widths") own[name] = numbers.some(Number.isNaN) ? text : numbers;
      else own[name] = text;
    }
    const data = this.data === "csv" ? this.csv?.name || "table.csv" : this.data === "sparse-moons" ? "moons" : this.data;
    return { data, options: own, ...(this.data === "csv" && this.csv ? { csv: this.csv.text } : {}) };
  }

  // Asks what suits, and shows it where nothing was chosen.
  async suit() {
    if (this.data === "csv" && !this.csv) {
      this.showMessage("Choose a CSV file, preferably with column names in its first line.");
      return;
    }
    const answer = await ask("/api/train/settings", this.asked());
    if (answer === null) return;
    this.showMessage(answer.error?.message || answer.problem || "");
    if (answer.error) return;
    const { settings } = answer;
    const own = this.data === "sparse-moons" ? "moons" : this.data;
    for (const [name, { input, label, data, models }] of this.inputs) {
      label.hidden = (data.length > 0 && !data.includes(own)) || (models.length > 0 && !models.includes(settings.model));
      const value = settings[name];
      if (document.activeElement !== input || input.tagName === "SELECT") input.value = Array.isArray(value) ? value.join(", ") : value ?? "";
      input.removeAttribute("aria-invalid");
    }
    this.chosen({ data: this.data, ...this.given });
  }

  showMessage(message) {
    byId("train-problem").textContent = message;
  }
}

export const speeds = [["5", "5 steps/s"], ["50", "50 steps/s"], ["500", "500 steps/s"], ["", "full speed"]];

export function fillSpeeds(select, chosen) {
  options(select, speeds, chosen);
}
