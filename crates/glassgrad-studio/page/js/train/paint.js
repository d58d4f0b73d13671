// Pixels: bytes from the server, in the colours of the page.

import { h } from "../dom.js";

const probe = document.createElement("span");
probe.hidden = true;
document.body.append(probe);

let known = new Map();

// A colour of the style sheet as three numbers: whatever the theme is now.
export function rgb(name) {
  if (!known.has(name)) {
    probe.style.color = `var(${name})`;
    known.set(name, getComputedStyle(probe).color.match(/[\d.]+/g).slice(0, 3).map(Number));
  }
  return known.get(name);
}

const listeners = new Set();

// Canvases are repainted when the theme changes.
export const onTheme = (repaint) => listeners.add(repaint);

function changed() {
  known = new Map();
  for (const repaint of listeners) repaint();
}
new MutationObserver(changed).observe(document.documentElement, { attributes: true, attributeFilter: ["data-theme"] });
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", changed);

export const bytes = (text) => Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));

const mixed = (a, b, part) => [0, 1, 2].map((k) => a[k] + (b[k] - a[k]) * part);

// A canvas with one pixel for each cell; the page stretches it.
export function bitmap(columns, rows, colour, attributes = {}) {
  const canvas = h("canvas", { width: columns, height: rows, ...attributes });
  repaint(canvas, colour);
  return canvas;
}

export function repaint(canvas, colour) {
  const context = canvas.getContext("2d");
  const image = context.createImageData(canvas.width, canvas.height);
  for (let k = 0; k < canvas.width * canvas.height; k += 1) {
    const [r, g, b] = colour(k);
    image.data.set([r, g, b, 255], 4 * k);
  }
  context.putImageData(image, 0, 0);
}

// From paper to ink.
export function grey(cells) {
  const [paper, ink] = [rgb("--card"), rgb("--ink")];
  return (k) => mixed(paper, ink, cells[k] / 255);
}

// Signed cells: 128 is nothing, one side blue, the other orange; 0 is what is no number.
export function signed(cells) {
  const [none, more, less, wrong] = [rgb("--card"), rgb("--k0"), rgb("--k1"), rgb("--wrong")];
  return (k) => {
    if (cells[k] === 0) return wrong;
    const part = (cells[k] - 128) / 127;
    return mixed(none, part > 0 ? more : less, Math.abs(part));
  };
}

// Classes, paler where they are less sure.
export function classes(predicted, certainty) {
  const paper = rgb("--card");
  return (k) => mixed(paper, rgb(`--k${predicted[k] % 10}`), 0.12 + 0.5 * (certainty[k] / 255));
}

// Levels from 0 to 1 along a scale from dark to light.
export function heat(levels) {
  const stops = ["--h0", "--h1", "--h2", "--h3"].map(rgb);
  return (k) => {
    const part = Math.min(Math.max(levels[k], 0), 0.999) * 3;
    const place = Math.floor(part);
    return mixed(stops[place], stops[place + 1], part - place);
  };
}
