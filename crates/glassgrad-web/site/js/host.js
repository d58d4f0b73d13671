// The host of the page on the static site: a web worker with the studio in WebAssembly. It has the messages of the server.

const requests = new Map();
const watchers = new Map();
const encoder = new TextEncoder();
let number = 0;
let worker = null;

function start() {
  worker = new Worker(new URL("./worker.js", import.meta.url), { type: "module" });
  worker.onmessage = ({ data }) => take[data.kind](data);
  worker.onerror = (event) => take.failed({ message: event.message || "the studio could not be loaded" });
}

const take = {
  answer({ number: own, status, type, file, body }) {
    const headers = { "content-type": type, ...(file ? { "x-file": file } : {}) };
    requests.get(own)?.resolve(new Response(body, { status, headers }));
    requests.delete(own);
  },
  update({ number: own, text }) {
    watchers.get(own)?.take(text);
  },
  // After a panic the module is gone with its runs: a new one answers what comes next.
  failed({ message }) {
    worker.terminate();
    const body = JSON.stringify({ error: { message: `the studio failed and was restarted; its runs are lost (${message})`, start: null, end: null, help: null } });
    for (const { resolve } of requests.values()) resolve(new Response(body, { status: 500, headers: { "content-type": "application/json" } }));
    requests.clear();
    for (const { take: give } of watchers.values()) give('{"kind":"freed","data":null}');
    watchers.clear();
    start();
  },
};

// A request, as `fetch` takes it.
export function request(path, { method = "GET", body = "", signal } = {}) {
  number += 1;
  const own = number;
  const bytes = typeof body === "string" ? encoder.encode(body) : new Uint8Array(body);
  return new Promise((resolve, reject) => {
    requests.set(own, { resolve });
    signal?.addEventListener("abort", () => {
      requests.delete(own);
      reject(new DOMException("a later request replaces this one", "AbortError"));
    });
    worker.postMessage({ kind: "request", number: own, head: `${method} ${path}`, body: bytes });
  });
}

// The updates of a run, until they are closed.
export function watch(run, give) {
  number += 1;
  const own = number;
  watchers.set(own, { take: give });
  worker.postMessage({ kind: "watch", number: own, run });
  return {
    close() {
      watchers.delete(own);
      worker.postMessage({ kind: "unwatch", number: own });
    },
  };
}

// Makes a link save a file of a run.
export function saves(link, path) {
  link.href = "#";
  link.addEventListener("click", async (event) => {
    event.preventDefault();
    const response = await request(path);
    const saved = document.createElement("a");
    saved.href = URL.createObjectURL(await response.blob());
    saved.download = response.headers.get("x-file") || "glassgrad";
    saved.click();
    setTimeout(() => URL.revokeObjectURL(saved.href), 10_000);
  });
}

start();

// Later visits need no network. The files are fetched again for the cache after the page is shown.
if ("serviceWorker" in navigator && isSecureContext) {
  addEventListener("load", () => setTimeout(() => navigator.serviceWorker.register("sw.js").catch(() => null), 2000));
}
