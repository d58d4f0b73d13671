// What is to be learnt, by which network, and how. What nobody has chosen is what suits the data: the server says so.

import { ask } from "../api.js";
import { byId, h, options } from "../dom.js";

// The settings: a name, a title, how it is chosen, and for which data or models it counts.
const made = ["moons", "circles", "spirals", "blobs", "function"];
const FIELDS = [
  ["model", "Model", "choice"],
  ["layers", "Layers", "widths"],
  ["activation", "Activation", "choice", { models: ["mlp", "sparse", "cnn"] }],
  ["optimizer", "Optimiser", "choice"],
  ["lr", "Learning rate", "number"],
  ["batch", "Batch", "number"],
  ["epochs", "Epochs", "number"],
  ["function", "Function", "function", { data: ["function"] }],
  ["noise", "Noise", "number", { data: made }],
  ["points", "Points", "number", { data: made }],
  ["target", "Target", "text", { data: ["csv"] }],
  ["seed", "Seed", "number"],
  ["loss", "Loss", "choice"],
  ["initial", "First weights", "choice"],
  ["schedule", "Schedule", "choice"],
  ["lr_end", "Ends at part", "number"],
  ["momentum", "Momentum", "number"],
  ["weight_decay", "Weight decay", "number"],
  ["dropout", "Dropout", "number"],
  ["clip", "Clip gradients", "number"],
  ["wires", "Wires", "number", { models: ["sparse"] }],
  ["heads", "Heads", "number", { models: ["transformer"] }],
  ["test", "Test part", "number"],
  ["dtype", "Numbers", "choice"],
];
// Those behind the fold.
const MORE = new Set(["seed", "loss", "initial", "schedule", "lr_end", "momentum", "weight_decay", "dropout", "clip", "wires", "heads", "test", "dtype"]);

export class Form {
  // Someone is told when something was chosen.
  constructor(catalogue, chosen) {
    this.catalogue = catalogue;
    this.chosen = chosen;
    this.given = {};
    this.csv = null;
    this.inputs = new Map();
    const tasks = catalogue.tasks.flatMap((task) => (task.name === "moons" ? [task, { name: "sparse-moons", about: "moons, by a network of random wires", is_there: true }] : [task]));
    const offered = [...tasks, { name: "csv", about: "a table of your own (CSV)", is_there: true }];
    this.task = byId("train-task");
    this.task.replaceChildren(...offered.map(({ name, about, is_there: isThere }) =>
      h("option", { value: name, disabled: !isThere, title: about }, name === "csv" ? "own table (CSV)" : isThere ? name.replace("-", " ") : `${name} (not here: --data DIR)`)));
    this.about = new Map(offered.map((task) => [task.name, task.about]));
    this.task.addEventListener("change", () => this.open({ data: this.task.value }));
    for (const part of [byId("train-fields"), byId("train-more")]) part.replaceChildren();
    for (const [name, title, kind] of FIELDS) this.add(name, title, kind);
    byId("train-file").addEventListener("change", (event) => this.takeFile(event.target.files[0]));
  }

  add(name, title, kind) {
    const choices = kind === "choice" ? this.catalogue.choices[name].map(([value, about]) => [value, value, about]) : kind === "function" ? this.catalogue.functions.map((value) => [value, value]) : null;
    const input = choices
      ? h("select", { id: `set-${name}` }, ...choices.map(([value, text, about]) => h("option", { value, title: about }, text)))
      : h("input", { id: `set-${name}`, class: "short", inputmode: kind === "number" ? "decimal" : null, autocomplete: "off", spellcheck: "false" });
    const label = h("label", {}, title, input);
    this.inputs.set(name, { input, kind, label });
    byId(MORE.has(name) ? "train-more" : "train-fields").append(label);
    input.addEventListener("change", () => {
      this.given[name] = input.value;
      if (name === "model") {
        // What suits one model does not suit another.
        this.given = Object.fromEntries(Object.entries(this.given).filter(([own]) => ["data", "model", "seed", "noise", "points"].includes(own)));
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
      if (field.kind === "number") own[name] = Number(text);
      else if (field.kind === "widths") own[name] = String(text).split(/[\s,]+/).filter(Boolean).map(Number);
      else own[name] = text;
    }
    const data = this.data === "csv" ? this.csv?.name || "table.csv" : this.data === "sparse-moons" ? "moons" : this.data;
    return { data, options: own, ...(this.data === "csv" && this.csv ? { csv: this.csv.text } : {}) };
  }

  // Asks what suits, and shows it where nothing was chosen.
  async suit() {
    if (this.data === "csv" && !this.csv) {
      this.tell("Choose a file: a table with names in its first line.");
      return;
    }
    const answer = await ask("/api/train/settings", this.asked());
    if (answer === null) return;
    this.tell(answer.error?.message || "");
    if (answer.error) return;
    const { settings } = answer;
    for (const [name, { input, label }] of this.inputs) {
      const only = FIELDS.find(([own]) => own === name)[3];
      const fits = (only?.data?.includes(this.data) ?? true) && (only?.models?.includes(settings.model) ?? true);
      label.hidden = !fits && !(this.data === "sparse-moons" && only?.data?.includes("moons"));
      const value = settings[name];
      if (document.activeElement !== input || input.tagName === "SELECT") input.value = Array.isArray(value) ? value.join(", ") : value ?? "";
      input.removeAttribute("aria-invalid");
    }
    this.chosen({ data: this.data, ...this.given });
  }

  tell(message) {
    byId("train-problem").textContent = message;
  }
}

export const speeds = [["5", "5 steps/s"], ["50", "50 steps/s"], ["500", "500 steps/s"], ["", "full speed"]];

export function fillSpeeds(select, chosen) {
  options(select, speeds, chosen);
}
