// The tables of both sweeps. All rows have their places from the beginning, and are seen when they are reached.

import { h, math, setMath, setText } from "./dom.js";

const FORWARD = ["Node", "Expression", "Numbers", "Value", "Tangent", "Rule", "Numbers", "Result"];
const VALUES = ["Node", "Expression", "Numbers", "Value"];
const ADJOINTS = ["Step", "Adjoint", "Rule", "Numbers", "Result"];

const markup = (text) => ({ math: text });

function forwardRows(answer) {
  return answer.evaluation.map((row, place) => {
    const tangent = answer.forward.rows[place];
    return [markup(row.label), markup(row.expression), row.numbers, row.shown, markup(tangent.label), markup(tangent.rule), tangent.numbers, tangent.shown];
  });
}

const valueRows = (answer) => answer.evaluation.map((row) => [markup(row.label), markup(row.expression), row.numbers, row.shown]);
const adjointRows = (answer) =>
  answer.reverse.steps.map((step, place) => [String(place + 1), markup(step.label), markup(step.rule), step.numbers, step.shown]);

class Sheet {
  constructor(id, caption, heads, rows) {
    this.cells = rows.map((row) => row.map((_, column) => h("td", { class: typeof row[column] === "string" ? "n" : "f" })));
    this.rows = this.cells.map((cells) => h("tr", {}, ...cells));
    this.element = h("div", { class: "scroll", tabindex: "0" }, h("table", { id },
      h("caption", {}, ...caption), h("thead", {}, h("tr", {}, ...heads.map((head) => h("th", { scope: "col" }, head)))), h("tbody", {}, ...this.rows)));
  }

  fill(rows) {
    rows.forEach((row, place) => row.forEach((content, column) => {
      const cell = this.cells[place][column];
      if (typeof content === "string") setText(cell, content);
      else setMath(cell, content.math);
    }));
  }

  reach(count, now) {
    this.rows.forEach((row, place) => {
      row.classList.toggle("pending", place >= count);
      row.classList.toggle("now", place === now);
    });
  }
}

export class Tables {
  constructor(host) {
    this.host = host;
    this.key = null;
  }

  show(answer) {
    const parts = answer.mode === "forward" && answer.forward
      ? [["forward-table", ["Forward sweep, derivatives by ", answer.forward.variable], FORWARD, forwardRows(answer)]]
      : [["value-table", ["Forward: values"], VALUES, valueRows(answer)],
        ["reverse-table", ["Reverse sweep, derivatives of ", answer.reverse.output], ADJOINTS, adjointRows(answer)]];
    const key = JSON.stringify(parts.map(([id, caption, , rows]) => [id, caption, rows.map((row) => row.length)]));
    if (key !== this.key) {
      this.key = key;
      this.sheets = parts.map(([id, caption, heads, rows]) => new Sheet(id, caption, heads, rows));
      this.host.replaceChildren(...this.sheets.map((sheet) => sheet.element));
      this.host.classList.toggle("two", parts.length === 2);
    }
    parts.forEach(([, , , rows], place) => this.sheets[place].fill(rows));
  }

  paint(steps, done) {
    const first = this.sheets[0].rows.length;
    this.sheets[0].reach(Math.min(done, first), done <= first ? done - 1 : -1);
    this.sheets[1]?.reach(done - first, done - first - 1);
  }
}

export function covered(host, { reachable, forward_order: forward, ancestors, reverse_order: reverse }) {
  const pairs = [["Reached forwards", reachable], ["An order forwards", forward], ["Reached backwards", ancestors], ["An order backwards", reverse]];
  host.replaceChildren(...pairs.filter(([, names]) => names).flatMap(([head, names]) => [h("dt", {}, head), h("dd", {}, names)]));
}

// The derivatives of higher orders, and the matrix of second ones.
export function orders(host, answer) {
  host.hidden = answer.order < 2 || !answer.derivatives;
  if (host.hidden) return;
  const row = ({ order, shown }) => h("tr", {}, h("th", { scope: "row" }, String(order)), h("td", { class: "n" }, shown));
  const series = h("div", { class: "scroll", tabindex: "0" }, h("table", { id: "series" }, h("caption", {}, `Derivatives by ${answer.wrt}`),
    h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "Order"), h("th", { scope: "col" }, "Derivative"))),
    h("tbody", {}, ...answer.derivatives.map(row))));
  const { hessian } = answer;
  const names = new Map(answer.variables.map((variable) => [variable.name, variable.math]));
  const head = (name) => h("th", { scope: "col" }, math(names.get(name)));
  const matrix = hessian && h("div", { class: "scroll", tabindex: "0" }, h("table", { id: "hessian" }, h("caption", {}, "Hessian"),
    h("thead", {}, h("tr", {}, h("td"), ...hessian.variables.map(head))),
    h("tbody", {}, ...hessian.shown.map((numbers, place) =>
      h("tr", {}, h("th", { scope: "row" }, math(names.get(hessian.variables[place]))), ...numbers.map((text) => h("td", { class: "n" }, text)))))));
  host.replaceChildren(h("h2", {}, "Higher orders"), h("div", { class: "pair" }, series, matrix || null));
}
