// Questions to the server. A later question of the same kind takes the place of an earlier one.

const running = new Map();

async function request(path, init) {
  const response = await fetch(path, init);
  const kind = response.headers.get("content-type") || "";
  if (kind.includes("json")) return response.json();
  return { error: { message: (await response.text()).trim() || `the server answers ${response.status}` } };
}

// The answer, or null where another question has come in between.
export async function ask(path, question) {
  running.get(path)?.abort();
  const control = new AbortController();
  running.set(path, control);
  try {
    const body = JSON.stringify(question);
    return await request(path, { method: "POST", headers: { "content-type": "application/json" }, body, signal: control.signal });
  } catch (error) {
    if (error.name === "AbortError") return null;
    return { error: { message: "the studio does not answer; is it still running?" } };
  }
}

export const fetchGallery = () => request("/api/gallery").catch(() => ({ examples: [] }));
