// Python in a worker: takes questions, answers them one by one. What an answer says is Python's.
//
// A first start imports everything, and its memory is kept before the first question: nothing that a
// question brings can be in it. Later starts put that memory back instead of importing. Of Pyodide's
// insides this uses _makeSnapshot, _loadSnapshot, HEAP8 and growMemory: look at them in a new version.
import createModule from "./pyodide/pyodide.asm.mjs";
import { loadPyodide } from "./pyodide/pyodide.mjs";

const here = new URL(".", import.meta.url);
const PLACE = "/draftcheck";
const MEMORY = new URL("memory", here).href; // in the site's cache, where the page puts it
const PIECE = 1 << 20;
const mounted = new Set();
let python, answers, main;

async function start() {
  const site = await (await fetch(new URL("site.json", here))).json();
  const archive = fetch(new URL(site.archive, here)).then((found) => {
    if (!found.ok) throw new Error(`${site.archive}: ${found.status}`);
    return found.arrayBuffer();
  });
  try {
    if (await wake(site, archive)) return;
  } catch {
    await (await caches.open(site.cache)).delete(MEMORY);
  }
  await first(site, archive);
}

async function first(site, archive) {
  postMessage({ stage: "Starting Python: 15 MB, once" });
  const keeps = Boolean(globalThis.caches); // not on a page without https
  python = await load(site, { _makeSnapshot: keeps });
  postMessage({ stage: "Unpacking the checker" });
  python.unpackArchive(await archive, "zip", { extractDir: PLACE });
  python.pyimport("sys").path.append(PLACE);
  postMessage({ stage: "Loading the checker" });
  find();
  python.pyimport("draftcheck.cli.pair");
  answers.prepare();
  postMessage({ ready: true, cache: site.cache });
  await new Promise((resolve) => setTimeout(resolve)); // the page shows it
  answers.prepare_answer();
  if (keeps) await keep(site).catch(() => {}); // a full disk is no error
  listen();
  postMessage({ warm: true });
}

async function wake(site, archive) {
  const memory = await kept(site);
  if (!memory) return false;
  python = await load(site, { _loadSnapshot: await memory.head() }, memory);
  find();
  listen();
  postMessage({ ready: true, cache: site.cache, again: true });
  python.unpackArchive(await archive, "zip", { extractDir: PLACE });
  postMessage({ warm: true });
  return true;
}

function load(site, more, memory) {
  const library = `${PLACE}/${site.library}`;
  return loadPyodide({
    ...more,
    env: {
      HOME: "/home/pyodide", NO_COLOR: "1", HF_ENDPOINT: site.endpoint, PYTHONDONTWRITEBYTECODE: "1",
      DRAFTCHECK_CACHE: `${PLACE}/cache`, DRAFTCHECK_CACHE_LIMIT: "64MB",
    },
    stdout: () => {}, stderr: () => {},
    async createPyodideModule(settings) {
      // Before Python, so that its code and data lie at the same addresses in every start.
      const { locateFile } = settings;
      settings.dynamicLibraries = [library];
      settings.locateFile = (name) => (name === library ? new URL("pyodide/library.so", here).href : locateFile(name));
      const made = await createModule(settings);
      if (memory) await memory.fill(made);
      return made;
    },
  });
}

// Python's memory, piece by piece, so that it never lies here twice. First comes Pyodide's own
// snapshot of a memory without content: what else it wants to know.
async function keep(site) {
  const module = python._module, whole = module.HEAP8;
  let at = 0, end = whole.length, head;
  try {
    module.HEAP8 = new Int8Array();
    head = python.makeMemorySnapshot();
  } finally {
    module.HEAP8 = whole;
  }
  while (end && !whole[end - 1]) end -= 1;
  const body = new ReadableStream({
    start: (out) => out.enqueue(head),
    pull(out) {
      if (at >= end) return out.close();
      out.enqueue(new Uint8Array(whole.slice(at, Math.min(end, at += PIECE)).buffer));
    },
  });
  const headers = { "x-browser": navigator.userAgent, "x-head": head.length, "x-length": end };
  await (await caches.open(site.cache)).put(MEMORY, new Response(body, { headers }));
  postMessage({ kept: true });
}

async function kept(site) {
  const found = await globalThis.caches?.match(MEMORY, { cacheName: site.cache }).catch(() => {});
  if (!found || found.headers.get("x-browser") !== navigator.userAgent) return null;
  const [first, length] = ["x-head", "x-length"].map((name) => Number(found.headers.get(name)));
  const stream = found.body.getReader();
  let rest = new Uint8Array();
  async function more() {
    const { value, done } = await stream.read();
    if (done) throw new Error("what was kept ends too soon");
    return value;
  }
  return {
    async head() {
      while (rest.length < first) rest = new Uint8Array(await new Blob([rest, await more()]).arrayBuffer());
      const head = rest.slice(0, first);
      rest = rest.slice(first);
      return head;
    },
    async fill(module) {
      module.growMemory(Math.max(length, module.HEAP8.length));
      for (let at = 0; at < length; rest = at < length ? await more() : null) {
        module.HEAPU8.set(rest, at);
        at += rest.length;
      }
    },
  };
}

function find() {
  answers = python.pyimport("draftcheck.web.answers");
  main = python.pyimport("draftcheck.cli").main;
}

function listen() {
  answers.listen((name, count, wait) => postMessage({ came: count, wait }));
}

// Emscripten's own file system for files of a page: it reads the slices that are asked for.
function give(side, files) {
  const folder = `/dropped/${side}`;
  python.FS.mkdirTree(folder);
  if (mounted.delete(side)) python.FS.unmount(folder);
  if (!files.length) return;
  const blobs = files.map((file) => ({ name: file.name, data: file }));
  python.FS.mount(python.FS.filesystems.WORKERFS, { blobs }, folder);
  mounted.add(side);
}

const started = start();
started.catch((error) => postMessage({ failed: String(error.message || error) }));

onmessage = async ({ data }) => {
  await started;
  try {
    for (const [side, files] of Object.entries(data.files || {})) give(side, files);
    const text = answers.answer(main, JSON.stringify(data.question), data.token || "");
    postMessage({ id: data.id, answer: JSON.parse(text) });
  } catch (error) {
    postMessage({ id: data.id, broke: String(error.message || error) });
  }
};
