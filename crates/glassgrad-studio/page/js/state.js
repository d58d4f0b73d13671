// The state of a page is in the hash of its address, so that an address can be shared and gone back to.

// Whether the page is a figure of the book.
export const isEmbedded = /[?&]embed=1(&|$)/.test(location.hash);

export function read() {
  const [path, query = ""] = location.hash.replace(/^#\/?/, "").split(/\?(.*)/s);
  const state = {};
  for (const pair of query.split("&").filter(Boolean)) {
    const [name, text = ""] = pair.split(/=(.*)/s);
    if (name !== "embed") state[name] = name === "at" ? values(text) : decoded(text);
  }
  return { page: path || "explore", state };
}

function decoded(text) {
  try { return decodeURIComponent(text); } catch { return text; }
}

function values(text) {
  const pairs = text.split(",").filter(Boolean).map((pair) => pair.split(/:(.*)/s));
  return new Map(pairs.map(([name, value = "1"]) => [decoded(name), decoded(value)]));
}

export function link(page, state) {
  const pairs = Object.entries(state).filter(([, value]) => value !== null && value !== undefined && value !== "").map(([name, value]) => {
    if (!(value instanceof Map)) return `${name}=${encodeURIComponent(value)}`;
    return `${name}=${[...value].map((pair) => pair.map(encodeURIComponent).join(":")).join(",")}`;
  });
  return `#/${page}?${pairs.concat(isEmbedded ? ["embed=1"] : []).join("&")}`;
}

// Changes the address without a new entry in the history: sliders would fill it.
export function write(page, state) {
  const hash = link(page, state);
  if (location.hash !== hash) history.replaceState(null, "", hash);
}
