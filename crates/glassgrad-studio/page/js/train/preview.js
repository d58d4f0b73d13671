// The data before the first step. Points of a plane can be added, moved and removed: then they are a table of their own.

import { byId, counted, h, svg } from "../dom.js";
import { bitmap, bytes, grey } from "./paint.js";
import { key, plot, short } from "./plot.js";

// A point is this far from its neighbours when arrows move it, as a part of the plane.
const STRIDE = 0.02;

export class Preview {
  // The listener is called with the text of a table when points were changed.
  constructor(changed) {
    this.changed = changed;
    this.host = byId("train-preview");
    this.chosen = 0;
  }

  // The answer about the data, or null where there is none.
  show(answer) {
    this.points = null;
    if (!answer || answer.error) return this.host.replaceChildren();
    const { boundary, fitted, images } = answer.views;
    const counts = `${answer.title}: ${counted(answer.training, "training example")}, ${counted(answer.test, "test example")}`;
    const picture = boundary ? this.plane(boundary) : fitted ? curve(fitted) : images ? tiles(images) : null;
    this.host.replaceChildren(h("p", { class: "note" }, counts), ...(picture ? [picture] : []));
    return null;
  }

  plane(fixed) {
    const { across: [left, right], up: [low, high], names, features } = fixed;
    this.fixed = fixed;
    this.chosen = Math.min(this.chosen, names.length - 1);
    this.points = ["training", "test"].flatMap((part) => fixed[part].x.map((x, k) => ({ x, y: fixed[part].y[k], class: fixed[part].class[k], part })));
    this.isWhole = ["training", "test"].every((part) => fixed[part].x.length === fixed[part].all);
    const place = { x: (x) => (1000 * (x - left)) / (right - left), y: (y) => (1000 * (high - y)) / (high - low) };
    this.board = svg("svg", { class: "points board", viewBox: "0 0 1000 1000", role: "group", "aria-label": `Examples over ${features[0]} and ${features[1]}` });
    const draw = (point) => {
      const dot = svg("circle", { class: `point ${point.part} k${point.class % 10}`, cx: place.x(point.x).toFixed(1), cy: place.y(point.y).toFixed(1), r: 9 });
      if (this.isWhole) {
        dot.setAttribute("tabindex", "-1");
        dot.setAttribute("role", "button");
        dot.setAttribute("aria-label", `Point ${short(point.x)}, ${short(point.y)} of class ${names[point.class]}`);
      }
      point.dot = dot;
      dot.point = point;
      return dot;
    };
    this.board.append(...this.points.map(draw));
    const move = (point, x, y) => {
      [point.x, point.y] = [Math.min(Math.max(x, left), right), Math.min(Math.max(y, low), high)];
      point.dot.setAttribute("cx", place.x(point.x).toFixed(1));
      point.dot.setAttribute("cy", place.y(point.y).toFixed(1));
    };
    const where = (event) => {
      const box = this.board.getBoundingClientRect();
      return [left + ((event.clientX - box.left) / box.width) * (right - left), high - ((event.clientY - box.top) / box.height) * (high - low)];
    };
    const choices = h("fieldset", { class: "classes" }, h("legend", {}, "Class of new points"), ...names.map((name, k) => {
      const radio = h("input", { type: "radio", name: "preview-class", value: String(k), onchange: () => { this.chosen = k; } });
      radio.checked = k === this.chosen;
      return h("label", { class: `k${k % 10}` }, radio, name);
    }));
    const figure = h("figure", {}, key(names.map((name, k) => [k % 10, `class ${name}`])), h("div", { class: "stack editing" }, this.board));
    const axes = `${features[0]} from ${short(left)} to ${short(right)}, ${features[1]} from ${short(low)} to ${short(high)}.`;
    if (!this.isWhole) {
      figure.append(h("p", { class: "note" }, `${axes} Dots are training examples, rings test examples; only some are shown.`));
      return figure;
    }
    const add = (x, y) => {
      const point = { x, y, class: this.chosen, part: "training" };
      this.points.push(point);
      this.board.append(draw(point));
      return point;
    };
    const remove = (point) => {
      this.points = this.points.filter((other) => other !== point);
      point.dot.remove();
    };
    let held = null;
    this.board.addEventListener("pointerdown", (event) => {
      event.preventDefault();
      this.board.setPointerCapture(event.pointerId);
      held = event.target.point ?? add(...where(event));
      held.dot.focus();
    });
    this.board.addEventListener("pointermove", (event) => { if (held) move(held, ...where(event)); });
    this.board.addEventListener("pointerup", () => { if (held) { held = null; this.tell(); } });
    this.board.addEventListener("pointercancel", () => { held = null; });
    // With keys: Enter adds a point in the middle or goes to the first, arrows move it, Delete removes it.
    this.board.addEventListener("keydown", (event) => {
      const { point } = event.target;
      const way = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] }[event.key];
      if (point && way) move(point, point.x + way[0] * STRIDE * (right - left), point.y + way[1] * STRIDE * (high - low));
      else if (point && (event.key === "Delete" || event.key === "Backspace")) remove(point);
      else return;
      event.preventDefault();
      event.stopPropagation();
      this.tell();
    });
    const button = h("button", { type: "button", onclick: () => { add((left + right) / 2, (low + high) / 2).dot.focus(); this.tell(); } }, "Add a point");
    figure.append(h("div", { class: "row" }, choices, button),
      h("p", { class: "note" }, `${axes} Dots are training examples, rings test examples. Click to add a point, drag to move one; with keys, arrows move the focused point and Delete removes it.`));
    return figure;
  }

  // The points as a table, once they rest.
  tell() {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => {
      const { names, features } = this.fixed;
      const digits = (value) => String(Number(value.toPrecision(6)));
      const rows = this.points.map((point) => `${digits(point.x)},${digits(point.y)},${/^[\w .-]+$/.test(names[point.class]) ? `class ${names[point.class].replace(/^class /, "")}` : `class ${point.class}`}`);
      this.changed([`${features.map((name) => name.replaceAll(",", " ")).join(",")},class`, ...rows].join("\n"));
    }, 150);
  }
}

function curve(fixed) {
  const dots = fixed.training.y.flatMap((y, k) => [{ at: fixed.training.x, value: y, colour: k }, { at: fixed.test.x, value: fixed.test.y[k], colour: 9 }]);
  return h("figure", {}, key([[0, "training"], [9, "test"]]), plot({ label: "Examples", across: fixed.feature, up: fixed.names.join(", "), dots }));
}

function tiles(fixed) {
  return h("figure", {}, h("div", { class: "tiles" }, ...fixed.examples.map((one) => bitmap(fixed.width, fixed.height, grey(bytes(one.pixels)), { role: "img", "aria-label": fixed.names[one.class] }))));
}
