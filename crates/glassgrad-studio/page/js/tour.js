// The guided tour: lessons with exercises, which the library checks. Everything can be done with keys.

import { get, post } from "./api.js";
import { byId, h, math, setText } from "./dom.js";
import { write } from "./state.js";

const STORE = "glassgrad-tour";
const answer = byId("tour-answer");

let lessons = null;
let place = 0;
// The lessons that were solved, kept for the next visit where the browser allows it.
const solved = new Set(stored());

function stored() {
  try { return JSON.parse(localStorage.getItem(STORE) || "[]"); } catch { return []; }
}

function store() {
  try { localStorage.setItem(STORE, JSON.stringify([...solved])); } catch { /* Then it is only for this visit. */ }
}

export async function open({ lesson = null }) {
  lessons ??= (await get("/api/tour")).lessons ?? [];
  const first = lessons.findIndex((_, k) => !solved.has(k));
  place = lesson === null ? Math.max(first, 0) : Math.min(Math.max(Number(lesson) - 1 || 0, 0), lessons.length - 1);
  show();
}

export function key(event) {
  if (event.target.closest?.("a, button, input") && event.key === " ") return;
  const actions = { ArrowRight: () => go(place + 1), ArrowLeft: () => go(place - 1), "/": () => answer.focus() };
  if (!actions[event.key]) return;
  event.preventDefault();
  actions[event.key]();
}

function go(next) {
  if (next < 0 || next >= lessons.length) return;
  place = next;
  show();
  answer.focus();
}

function show() {
  const { title, text, formulas, link, task, exercise, kind } = lessons[place];
  write("tour", { lesson: place + 1 });
  setText(byId("tour-title"), `${place + 1}. ${title}`);
  byId("tour-text").replaceChildren(...text.map((one) => h("p", {}, one)), ...formulas.map((one) => h("div", { class: "formula scroll" }, math(one, true))));
  const open = byId("tour-link");
  open.href = link;
  setText(byId("tour-task"), task);
  setText(byId("tour-exercise"), exercise);
  answer.value = "";
  answer.placeholder = kind === "formula" ? "a formula, as in 2*x" : "a number";
  tell(solved.has(place) ? "solved" : "", null);
  byId("tour-back").disabled = place === 0;
  byId("tour-next").disabled = place === lessons.length - 1;
  list();
}

function list() {
  byId("tour-list").replaceChildren(...lessons.map(({ title }, k) => h("li", { class: solved.has(k) ? "solved" : "" },
    h("a", { href: `#/tour?lesson=${k + 1}`, "aria-current": k === place ? "step" : null }, title),
    h("span", { class: "note" }, solved.has(k) ? " solved" : ""))));
  setText(byId("tour-count"), solved.size === lessons.length ? "All ten exercises are solved." : `${solved.size} of ${lessons.length} exercises solved`);
}

function tell(message, isRight) {
  const host = byId("tour-verdict");
  host.className = isRight === null ? "note" : `verdict ${isRight ? "right" : "wrong"}`;
  setText(host, message);
}

byId("tour-form").addEventListener("submit", async (event) => {
  event.preventDefault();
  const own = place;
  const got = await post("/api/tour/check", { lesson: own + 1, answer: answer.value });
  if (own !== place) return;
  if (got.error) return tell(got.error.help ? `${got.error.message}: ${got.error.help}` : got.error.message, false);
  tell(got.right ? `Right. ${got.message}` : got.message, got.right);
  if (!got.right) return;
  solved.add(own);
  store();
  list();
  // The next key press goes on.
  if (place < lessons.length - 1) byId("tour-next").focus();
});
byId("tour-back").addEventListener("click", () => go(place - 1));
byId("tour-next").addEventListener("click", () => go(place + 1));
