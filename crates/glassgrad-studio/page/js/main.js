// The pages, and which of them is shown. A page is loaded when it is opened for the first time.

import { byId } from "./dom.js";
import { foldAll } from "./fold.js";
import { explainAll } from "./glossary.js";
import { isEmbedded, read } from "./state.js";

const pages = {
  explore: () => import("./explore.js"),
  matrix: () => import("./matrix.js"),
  train: () => import("./train.js"),
  paths: () => import("./paths.js"),
  compare: () => import("./compare.js"),
  draw: () => import("./draw.js"),
  tour: () => import("./tour.js"),
  gallery: () => import("./gallery.js"),
  glossary: () => import("./glossary.js"),
};
// A figure of the book: the page without its frame.
if (isEmbedded) document.documentElement.classList.add("embed");

let shown = null;
let page = null;

async function show() {
  if (location.hash === "#main") return;
  const { page: asked, state } = read();
  const name = asked in pages ? asked : "explore";
  for (const other of Object.keys(pages)) byId(`page-${other}`).hidden = other !== name;
  for (const anchor of document.querySelectorAll("nav a")) {
    if (anchor.dataset.page === name) anchor.setAttribute("aria-current", "page");
    else anchor.removeAttribute("aria-current");
  }
  if (shown !== null && shown !== name) scrollTo(0, 0);
  shown = name;
  document.title = `${name[0].toUpperCase()}${name.slice(1)} · Glassgrad studio`;
  const loaded = await pages[name]();
  // The user may have navigated to another page meanwhile.
  if (shown !== name) return;
  page = loaded;
  page.open(state);
}

addEventListener("hashchange", show);
document.addEventListener("keydown", (event) => {
  const isTyping = event.target.closest?.("input, textarea, select");
  if (event.ctrlKey || event.metaKey || event.altKey || isTyping) return;
  page?.key?.(event);
});
show();
foldAll();
explainAll();
