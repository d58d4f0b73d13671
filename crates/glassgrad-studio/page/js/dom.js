// Elements, without text ever being read as markup.

const SVG = "http://www.w3.org/2000/svg";
const MATHML = "http://www.w3.org/1998/Math/MathML";

export const byId = (id) => document.getElementById(id);

function filled(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value !== null && value !== undefined && value !== false) element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

export const h = (name, attributes = {}, ...children) => filled(document.createElement(name), attributes, children);
export const svg = (name, attributes = {}, ...children) => filled(document.createElementNS(SVG, name), attributes, children);

const parser = new DOMParser();

// Formulas come typeset from the library. They are read as XML, and only MathML is let in.
export function math(markup, display = false) {
  const source = markup.replace("<math>", `<math xmlns="${MATHML}"${display ? ' display="block"' : ""}>`);
  const root = parser.parseFromString(source, "text/xml").documentElement;
  if (root.namespaceURI !== MATHML || root.querySelector("parsererror")) return document.createTextNode("");
  return document.importNode(root, true);
}

// Puts a formula into a place, and leaves it alone where it already stands there.
export function setMath(host, markup, display = false) {
  if (host.dataset.markup === markup) return;
  host.dataset.markup = markup;
  host.replaceChildren(math(markup, display));
}

// A count with its noun: 1 step, 2 steps.
export const counted = (count, noun) => `${count} ${noun}${count === 1 ? "" : "s"}`;

export function setText(host, text) {
  if (host.textContent !== text) host.textContent = text;
}

export function options(select, pairs, chosen) {
  const key = JSON.stringify(pairs);
  if (select.dataset.key !== key) {
    select.dataset.key = key;
    select.replaceChildren(...pairs.map(([value, text]) => h("option", { value }, text)));
  }
  select.value = chosen;
}

// A table whose first cells name their rows.
export function table(caption, heads, rows) {
  const cell = (content, column) => {
    const own = h(column === 0 ? "th" : "td", column === 0 ? { scope: "row" } : {});
    own.append(content);
    return own;
  };
  return h("div", { class: "scroll", tabindex: "0" }, h("table", {},
    h("caption", {}, caption),
    h("thead", {}, h("tr", {}, ...heads.map((head) => h("th", { scope: "col" }, head)))),
    h("tbody", {}, ...rows.map((row) => h("tr", {}, ...row.map(cell))))));
}

// A field that grows with its text, over a copy of it in which places can be marked.
export function editor(field, mirror) {
  const paint = (start = null, end = null, kind = "wrong") => {
    const text = field.value;
    mirror.replaceChildren();
    if (start === null) mirror.append(text);
    else {
      // A place behind the text, or of no width, is shown as the space there.
      const from = Math.min(start, text.length);
      const to = Math.max(end, from + 1);
      mirror.append(text.slice(0, from), h("mark", { class: kind }, text.slice(from, to) || " "), text.slice(to));
    }
    mirror.append("\u200b");
    field.style.height = "auto";
    field.style.height = `${field.scrollHeight}px`;
  };
  return { paint };
}

export async function copy(text, status) {
  try {
    await navigator.clipboard.writeText(text);
    status.textContent = "copied";
  } catch {
    status.textContent = "the address of this page is the link";
  }
  setTimeout(() => { status.textContent = ""; }, 3000);
}
