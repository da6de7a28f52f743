// Keeps the site's own files, so that a second visit needs no network. Nothing else is touched.
const NAME = "{{ cache }}"; // the page keeps Python's memory there, too
const FILES = {{ files }};

self.addEventListener("install", (event) => {
  event.waitUntil(caches.open(NAME).then((cache) => cache.addAll(FILES)).then(() => self.skipWaiting()));
});
self.addEventListener("activate", (event) => {
  event.waitUntil((async () => {
    const scope = new URL(self.registration.scope);
    for (const name of await caches.keys()) {
      if (!name.startsWith("draftcheck-") || name === NAME) continue;
      // Another checker may live on this origin, below another path.
      const ours = (await (await caches.open(name)).keys())[0];
      if (ours && ours.url.startsWith(scope.href)) await caches.delete(name);
    }
    await self.clients.claim();
  })());
});
self.addEventListener("fetch", (event) => {
  const url = new URL(event.request.url);
  const scope = new URL(self.registration.scope);
  if (event.request.method !== "GET" || url.origin !== scope.origin) return;
  const name = url.pathname.slice(scope.pathname.length) || "index.html";
  if (!FILES.includes(name)) return;
  event.respondWith(caches.open(NAME).then((cache) => cache.match(name)).then((found) => found || fetch(event.request)));
});
