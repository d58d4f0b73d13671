// The sweeps as one list of steps, and the place in it.

import { byId, setText } from "./dom.js";

// Forwards, a step gives a node its value and its tangent. Backwards, all values come first, then one contribution after another.
export function timeline(answer, mode) {
  const evaluation = answer.evaluation.map((row, place) => ({ kind: "value", node: row.node, row: place, formulas: [row.math] }));
  if (mode === "forward" && answer.forward) {
    return evaluation.map((step, place) => {
      const tangent = answer.forward.rows[place];
      return { ...step, kind: "tangent", shown: tangent.shown, formulas: [...step.formulas, tangent.math] };
    });
  }
  const contributions = answer.reverse.steps.map((step, place) => ({
    kind: "adjoint", node: step.node, through: step.through, row: place, shown: step.shown, formulas: [step.math],
  }));
  return [...evaluation, ...contributions];
}

const PACE = 700;

export class Stepper {
  constructor(moved) {
    this.moved = moved;
    this.length = 0;
    this.place = 0;
    this.timer = null;
    this.slider = byId("step");
    this.play = byId("step-play");
    this.count = byId("step-count");
    byId("step-first").addEventListener("click", () => this.go(0));
    byId("step-back").addEventListener("click", () => this.go(this.place - 1));
    byId("step-next").addEventListener("click", () => this.go(this.place + 1));
    byId("step-last").addEventListener("click", () => this.go(this.length));
    this.play.addEventListener("click", () => this.toggle());
    this.slider.addEventListener("input", () => this.go(Number(this.slider.value)));
  }

  // A new list of steps; a position at its end moves to the end of the new one.
  reset(length, place) {
    this.length = length;
    this.place = Math.max(0, Math.min(place ?? length, length));
    this.paint();
  }

  go(place) {
    this.stop();
    this.move(place);
  }

  move(place) {
    this.place = Math.max(0, Math.min(place, this.length));
    this.paint();
    this.moved(this.place);
  }

  toggle() {
    if (this.timer !== null) return this.stop();
    if (this.place === this.length) this.move(0);
    this.timer = setInterval(() => {
      this.move(this.place + 1);
      if (this.place === this.length) this.stop();
    }, PACE);
    this.play.setAttribute("aria-label", "Pause");
    setText(this.play, "Pause");
  }

  stop() {
    if (this.timer !== null) clearInterval(this.timer);
    this.timer = null;
    this.play.setAttribute("aria-label", "Play");
    setText(this.play, "Play");
  }

  paint() {
    this.slider.max = this.length;
    this.slider.value = this.place;
    setText(this.count, `${this.place} of ${this.length}`);
    for (const id of ["step-first", "step-back"]) byId(id).setAttribute("aria-disabled", this.place === 0);
    for (const id of ["step-next", "step-last"]) byId(id).setAttribute("aria-disabled", this.place === this.length);
  }
}
