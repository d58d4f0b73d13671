// The service worker of the static site: after the first visit every file of the studio comes from its cache, and every page of the book that was
// opened once. `tools/site` fills in the list of
// files and a hash of their contents, by which a new version replaces an old one.

const VERSION = "glassgrad-%VERSION%";
const FILES = %FILES%;

addEventListener("install", (event) => {
  event.waitUntil(caches.open(VERSION).then((cache) => cache.addAll(FILES)).then(() => skipWaiting()));
});

addEventListener("activate", (event) => {
  const old = (name) => name.startsWith("glassgrad-") && name !== VERSION;
  event.waitUntil(caches.keys().then((names) => Promise.all(names.filter(old).map((name) => caches.delete(name)))).then(() => clients.claim()));
});

addEventListener("fetch", (event) => {
  if (event.request.method !== "GET" || new URL(event.request.url).origin !== location.origin) return;
  event.respondWith(caches.open(VERSION).then(async (cache) => {
    const found = await cache.match(event.request, { ignoreSearch: true });
    if (found) return found;
    const fetched = await fetch(event.request);
    if (fetched.ok) cache.put(event.request, fetched.clone());
    return fetched;
  }));
});
