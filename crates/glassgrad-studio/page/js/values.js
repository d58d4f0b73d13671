// The values of the variables: a slider and a field for each.

import { byId, h, setMath } from "./dom.js";

// A slider reaches as far as its value needs, and stays so while it is moved.
function reach(value) {
  const size = Math.abs(value);
  return size < 5 ? 5 : 2 * size;
}

export class Values {
  constructor(changed) {
    this.host = byId("values");
    this.changed = changed;
    this.rows = new Map();
  }

  // Shows the variables of an answer; rows that are there already stay, and so does the focused input.
  show(variables, at) {
    const names = variables.map((variable) => variable.name);
    if (names.join() !== [...this.rows.keys()].join()) {
      this.rows = new Map(variables.map((variable) => [variable.name, this.row(variable.name)]));
      this.host.replaceChildren(...[...this.rows.values()].map((row) => row.element));
      if (variables.length === 0) this.host.append(h("p", { class: "note" }, "The expression has no variables."));
    }
    for (const { name, math, value, shown } of variables) {
      const row = this.rows.get(name);
      setMath(row.name, math);
      const number = Number(value);
      if (!(Math.abs(number) < Number(row.slider.max)) && document.activeElement !== row.slider) {
        const edge = Number.isFinite(number) ? reach(number) : 5;
        row.slider.min = -edge;
        row.slider.max = edge;
      }
      if (document.activeElement !== row.slider) row.slider.value = number;
      if (document.activeElement !== row.field) row.field.value = at.get(name) ?? shown;
    }
  }

  // The ranges of the sliders, over which functions are plotted.
  ranges() {
    return Object.fromEntries([...this.rows].map(([name, { slider }]) => [name, [Number(slider.min), Number(slider.max)]]));
  }

  row(name) {
    const label = h("label", { for: `value-${name}` });
    const slider = h("input", { type: "range", min: "-5", max: "5", step: "any", "aria-label": `${name}, slider` });
    const field = h("input", { id: `value-${name}`, class: "short", "aria-label": name, autocomplete: "off", autocapitalize: "off", spellcheck: "false" });
    slider.addEventListener("input", () => {
      // Three digits are as many as a hand can choose.
      field.value = String(Number(Number(slider.value).toPrecision(3)));
      this.changed(name, field.value);
    });
    field.addEventListener("input", () => { if (field.value.trim()) this.changed(name, field.value.trim()); });
    return { element: h("div", { class: "variable" }, label, slider, field), name: label, slider, field };
  }
}
