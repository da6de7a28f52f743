// Python in a worker: takes questions, answers them one by one. What an answer says is Python's.
import { loadPyodide } from "./pyodide/pyodide.mjs";

const here = new URL(".", import.meta.url);
const mounted = new Set();
let python, answers, main;

async function start() {
  const site = await (await fetch(new URL("site.json", here))).json();
  const archive = fetch(new URL(site.archive, here)).then((found) => {
    if (!found.ok) throw new Error(`${site.archive}: ${found.status}`);
    return found.arrayBuffer();
  });
  postMessage({ stage: "Starting Python" });
  python = await loadPyodide({
    indexURL: new URL("pyodide/", here).href,
    env: { HOME: "/home/pyodide", HF_ENDPOINT: site.endpoint, NO_COLOR: "1", DRAFTCHECK_CACHE_LIMIT: "64MB" },
    stdout: () => {}, stderr: () => {},
  });
  postMessage({ stage: "Unpacking the rulebook" });
  const folder = python.runPython("import sysconfig; sysconfig.get_path('purelib')");
  python.unpackArchive(await archive, "zip", { extractDir: folder });
  postMessage({ stage: "Loading the rulebook" });
  answers = python.pyimport("draftcheck.web.answers");
  main = python.pyimport("draftcheck.cli").main;
  python.pyimport("draftcheck.cli.pair");
  answers.prepare();
  answers.listen((name, count, wait) => postMessage({ came: count, wait }));
  postMessage({ ready: true, heap: python._module.HEAPU8.length });
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
    postMessage({ id: data.id, answer: JSON.parse(text), heap: python._module.HEAPU8.length });
  } catch (error) {
    postMessage({ id: data.id, broke: String(error.message || error) });
  }
};
