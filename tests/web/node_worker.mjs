// The page's own worker under Node: node node_worker.mjs SITE. Questions come as lines of JSON, its
// messages go out as lines. Here is only what a browser gives a worker and Node does not.
import { closeSync, openSync, readFileSync, readSync, statSync } from "node:fs";
import { createInterface } from "node:readline";
import { basename } from "node:path";
import { pathToFileURL } from "node:url";
import { MessageChannel, Worker, receiveMessageOnPort } from "node:worker_threads";

const site = pathToFileURL(`${process.argv[2]}/`);
const SEEN = ["cache-control", "content-language", "content-length", "content-type", "expires", "last-modified", "pragma"];

// A request that waits: another thread asks, this one sleeps until it is told.
const told = new Int32Array(new SharedArrayBuffer(4));
const { port1, port2 } = new MessageChannel();
const asks = `const { port, told } = require("node:worker_threads").workerData;
port.on("message", async ({ url, headers }) => {
  const answer = await fetch(url, { headers }).then(async (found) => ({ status: found.status,
    url: found.url, headers: [...found.headers], body: await found.arrayBuffer() }), (error) => ({ error: String(error) }));
  port.postMessage(answer);
  Atomics.store(told, 0, 1);
  Atomics.notify(told, 0);
});`;
new Worker(asks, { eval: true, workerData: { port: port2, told }, transferList: [port2] }).unref();
globalThis.XMLHttpRequest = class {
  headers = {};
  open(method, url) { this.url = url; }
  setRequestHeader(name, value) { this.headers[name] = value; }
  send() {
    Atomics.store(told, 0, 0);
    port1.postMessage({ url: this.url, headers: this.headers });
    Atomics.wait(told, 0, 0);
    const { message: found } = receiveMessageOnPort(port1);
    if (found.error) throw new Error(`NetworkError: ${found.error}`);
    [this.status, this.responseURL, this.response] = [found.status, found.url, found.body];
    this.seen = new Map(found.headers);
  }
  getAllResponseHeaders() { // those that a page may see
    const open = (this.seen.get("access-control-expose-headers") || "").toLowerCase().split(/[\s,]+/);
    return [...this.seen].filter(([name]) => SEEN.includes(name) || open.includes(name))
      .map(([name, value]) => `${name}: ${value}\r\n`).join("");
  }
};

// Files of a page: a size and slices. What is not asked for is not read.
let sliced = 0;
class PageFile {
  constructor(path) { [this.path, this.name, this.size] = [path, basename(path), statSync(path).size]; }
  slice(start, stop) { return { path: this.path, start, size: Math.max(0, Math.min(stop, this.size) - start) }; }
}
globalThis.FileReaderSync = class {
  readAsArrayBuffer({ path, start, size }) {
    const found = new Uint8Array(size), file = openSync(path);
    readSync(file, found, 0, found.length, start);
    closeSync(file);
    sliced += found.length;
    return found.buffer;
  }
};
globalThis.WorkerGlobalScope = Object; // Emscripten mounts files of a page in workers alone
const realFetch = globalThis.fetch;
globalThis.fetch = async (url, ...more) => url.protocol === "file:" ? new Response(readFileSync(url)) : realFetch(url, ...more);
let warm;
globalThis.postMessage = (message) => {
  process.stdout.write(`${JSON.stringify({ ...message, sliced })}\n`);
  if (message.warm || message.failed) warm();
};
globalThis.onmessage = null;

// What a browser would keep, for this process: the worker that is asked is one of a second visit.
const kept = new Map();
globalThis.navigator ??= { userAgent: "node" };
globalThis.caches = {
  match: async (url) => kept.get(url)?.clone(),
  open: async () => ({
    put: async (url, found) => kept.set(url, new Response(await found.arrayBuffer(), { headers: found.headers })),
    delete: async (url) => kept.delete(url),
  }),
};
for (const visit of ["first", "again"]) {
  const started = new Promise((resolve) => { warm = resolve; });
  await import(new URL(`worker.mjs?${visit}`, site));
  await started;
}
for await (const line of createInterface({ input: process.stdin })) {
  const data = JSON.parse(line);
  for (const side of Object.keys(data.files || {})) data.files[side] = data.files[side].map((path) => new PageFile(path));
  sliced = 0;
  await globalThis.onmessage({ data });
}
