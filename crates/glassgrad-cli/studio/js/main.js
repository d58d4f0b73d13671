// The pages, and which of them is shown.

import * as draw from "./draw.js";
import * as explore from "./explore.js";
import * as gallery from "./gallery.js";
import * as matrix from "./matrix.js";
import * as train from "./train.js";
import { byId } from "./dom.js";
import { read } from "./state.js";

const pages = { explore, matrix, train, draw, gallery };
let shown = null;

function show() {
  if (location.hash === "#main") return;
  const { page, state } = read();
  const name = page in pages ? page : "explore";
  for (const other of Object.keys(pages)) byId(`page-${other}`).hidden = other !== name;
  for (const anchor of document.querySelectorAll("nav a")) {
    if (anchor.dataset.page === name) anchor.setAttribute("aria-current", "page");
    else anchor.removeAttribute("aria-current");
  }
  if (shown !== null && shown !== name) scrollTo(0, 0);
  shown = name;
  document.title = `${name[0].toUpperCase()}${name.slice(1)} · Glassgrad studio`;
  pages[name].open(state);
}

addEventListener("hashchange", show);
document.addEventListener("keydown", (event) => {
  const isTyping = event.target.closest?.("input, textarea, select");
  if (event.ctrlKey || event.metaKey || event.altKey || isTyping) return;
  pages[shown]?.key?.(event);
});
show();
