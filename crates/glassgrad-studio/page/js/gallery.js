// The examples, by their groups.

import { fetchGallery } from "./api.js";
import { byId, h } from "./dom.js";

let isFilled = false;

export async function open() {
  if (isFilled) return;
  isFilled = true;
  const { examples = [] } = await fetchGallery();
  const groups = new Map();
  for (const example of examples) groups.set(example.group, [...(groups.get(example.group) || []), example]);
  const card = ({ title, shows, expression, link }) =>
    h("li", {}, h("a", { class: "card example", href: link }, h("b", {}, title), h("code", {}, expression), h("span", {}, shows)));
  byId("gallery").replaceChildren(...[...groups].map(([group, own]) =>
    h("section", {}, h("h2", {}, group), h("ul", { class: "examples" }, ...own.map(card)))));
}
