// A drawing in a frame: it fits, is zoomed with buttons, with + and − or with the wheel and Ctrl, and is moved by dragging.

import { h } from "./dom.js";

const [LEAST, MOST, STEP] = [0.15, 4, 1.25];
// A graph shrinks to its frame as long as its text stays readable.
const READABLE = [0.72, 1.15];

export class Zoom {
  constructor(host, name) {
    this.host = host;
    this.chosen = null;
    const button = (text, label, act) => h("button", { type: "button", "aria-label": `${label}: ${name}`, title: label, onclick: act }, text);
    this.bar = h("div", { class: "zoom", role: "group", "aria-label": `Zoom: ${name}` },
      button("−", "Zoom out", () => this.scaleBy(1 / STEP)), button("+", "Zoom in", () => this.scaleBy(STEP)),
      button("Fit", "Fit the whole graph", () => this.whole()), button("Reset", "Readable size", () => this.reset()));
    host.addEventListener("keydown", (event) => this.key(event));
    host.addEventListener("wheel", (event) => {
      if (!event.ctrlKey && !event.metaKey) return;
      event.preventDefault();
      this.scaleBy(Math.exp(-event.deltaY / 300), event);
    }, { passive: false });
    host.addEventListener("pointerdown", (event) => this.grab(event));
    new ResizeObserver(() => this.apply()).observe(host);
  }

  show(picture, size) {
    this.picture = picture;
    this.size = size;
    this.chosen = null;
    this.apply();
  }

  get scale() {
    if (this.chosen !== null) return this.chosen;
    return Math.max(READABLE[0], Math.min(READABLE[1], (this.host.clientWidth - 2) / this.size[0]));
  }

  apply() {
    if (!this.picture || this.host.clientWidth === 0) return;
    this.picture.setAttribute("width", this.size[0] * this.scale);
    this.picture.setAttribute("height", this.size[1] * this.scale);
  }

  // Around the pointer, or around the middle of the frame.
  scaleBy(factor, event = null) {
    if (!this.picture) return;
    const { host } = this;
    const box = host.getBoundingClientRect();
    const [x, y] = event ? [event.clientX - box.left, event.clientY - box.top] : [host.clientWidth / 2, host.clientHeight / 2];
    const before = this.scale;
    this.chosen = Math.max(LEAST, Math.min(MOST, before * factor));
    const [left, top] = [(host.scrollLeft + x) * (this.chosen / before) - x, (host.scrollTop + y) * (this.chosen / before) - y];
    this.apply();
    host.scrollLeft = left;
    host.scrollTop = top;
  }

  whole() {
    if (!this.picture) return;
    const tall = Math.max(this.host.clientHeight, 320);
    this.chosen = Math.max(LEAST, Math.min(READABLE[1], (this.host.clientWidth - 4) / this.size[0], tall / this.size[1]));
    this.apply();
  }

  reset() {
    this.chosen = null;
    this.apply();
  }

  key(event) {
    const action = { "+": () => this.scaleBy(STEP), "=": () => this.scaleBy(STEP), "-": () => this.scaleBy(1 / STEP), 0: () => this.whole() }[event.key];
    if (!action || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    event.stopPropagation();
    action();
  }

  // A drag moves the drawing; a click stays a click.
  grab(event) {
    const { host } = this;
    if (event.button !== 0 || event.pointerType === "touch") return;
    const [x, y, left, top] = [event.clientX, event.clientY, host.scrollLeft, host.scrollTop];
    let isMoved = false;
    const move = (now) => {
      if (!isMoved && Math.hypot(now.clientX - x, now.clientY - y) < 5) return;
      isMoved = true;
      host.classList.add("grabbed");
      host.scrollLeft = left - (now.clientX - x);
      host.scrollTop = top - (now.clientY - y);
    };
    const end = () => {
      removeEventListener("pointermove", move);
      removeEventListener("pointerup", end);
      host.classList.remove("grabbed");
      if (isMoved) addEventListener("click", (click) => click.stopPropagation(), { capture: true, once: true });
    };
    addEventListener("pointermove", move);
    addEventListener("pointerup", end);
  }
}
