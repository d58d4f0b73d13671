// On narrow screens cards can be folded to their headings, so that a page is not longer than a few screens. Elsewhere they are open.

import { h } from "./dom.js";

// A card is open or closed at first; what the user chooses stays.
export function foldable(card, isOpen) {
  if (card.querySelector(":scope > .fold")) return;
  const heading = card.querySelector("h1, h2");
  const button = h("button", { type: "button", class: "fold" });
  const set = (open) => {
    card.classList.toggle("folded", !open);
    button.setAttribute("aria-expanded", String(open));
    button.setAttribute("aria-label", `${open ? "Hide" : "Show"}: ${heading?.firstChild?.textContent ?? card.getAttribute("aria-label") ?? "section"}`);
    button.textContent = open ? "−" : "+";
  };
  button.addEventListener("click", () => set(card.classList.contains("folded")));
  card.prepend(button);
  set(isOpen);
}

export const foldAll = () => document.querySelectorAll("[data-fold]").forEach((card) => foldable(card, card.dataset.fold === "open"));
