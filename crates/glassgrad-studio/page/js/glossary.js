// The terms of the field: a page of all of them, and a tooltip with a link wherever one is used.

import { get } from "./api.js";
import { byId, h } from "./dom.js";

let known = null;

// The terms by name, asked for once.
const terms = () => (known ??= get("/api/glossary").then(({ terms: list = [] }) => new Map(list.map((one) => [one.term, one]))));

const idOf = (term) => `term-${term.toLowerCase().replace(/[^a-z]+/g, "-")}`;

// Gives an element its sentence as a tooltip, and a link to the glossary behind it.
export async function explain(element, term) {
  const found = (await terms()).get(term);
  if (!found || element.querySelector(":scope > .term")) return;
  element.title = found.text;
  element.append(h("a", { class: "term", href: `#/glossary?term=${encodeURIComponent(term)}`, title: found.text, "aria-label": `${term}: glossary` }, "?"));
}

// Only the tooltip, for buttons, which cannot hold a link.
export async function describe(element, term) {
  const found = (await terms()).get(term);
  if (found) element.title = found.text;
}

// Everything on the page that names its term.
export const explainAll = () => document.querySelectorAll("[data-term]").forEach((element) => explain(element, element.dataset.term));

export async function open({ term = "" }) {
  const all = [...(await terms()).values()];
  byId("glossary").replaceChildren(...all.flatMap((one) => [
    h("dt", { id: idOf(one.term), class: one.term === term ? "now" : "", tabindex: "-1" }, one.term),
    h("dd", {}, one.text, " ", h("code", { class: "note" }, one.source)),
  ]));
  const chosen = byId(idOf(term));
  chosen?.scrollIntoView({ block: "center" });
  chosen?.focus({ preventScroll: true });
}
