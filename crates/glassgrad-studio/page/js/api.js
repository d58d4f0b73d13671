// Requests to the studio. A later request to the same path aborts an earlier one.

import { request as carry } from "./host.js";

const running = new Map();

async function request(path, init) {
  const response = await carry(path, init);
  const kind = response.headers.get("content-type") || "";
  if (kind.includes("json")) return response.json();
  return { error: { message: (await response.text()).trim() || `the studio answers ${response.status}` } };
}

const isAway = { error: { message: "the studio does not answer; is it still running?" } };

const posted = (body, kind = "application/json") => ({ method: "POST", headers: { "content-type": kind }, body });

// The response, or null if a later request aborted it.
export async function ask(path, question) {
  running.get(path)?.abort();
  const control = new AbortController();
  running.set(path, control);
  try {
    return await request(path, { ...posted(JSON.stringify(question)), signal: control.signal });
  } catch (error) {
    return error.name === "AbortError" ? null : isAway;
  }
}

// A POST request that no later one aborts.
export const post = (path, body) => request(path, posted(JSON.stringify(body))).catch(() => isAway);

export const send = (path, bytes) => request(path, posted(bytes, "application/octet-stream")).catch(() => isAway);

export const get = (path) => request(path).catch(() => isAway);

// A request to delete something.
export const remove = (path) => carry(path, { method: "DELETE" }).catch(() => null);

export const fetchGallery = () => get("/api/gallery");
