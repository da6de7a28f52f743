// Python in a worker: takes questions, answers them one by one. What an answer says is Python's.
import { loadPyodide } from "./pyodide/pyodide.mjs";

const here = new URL(".", import.meta.url);
const PLACE = "/draftcheck";
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
    env: {
      HOME: "/home/pyodide", NO_COLOR: "1", HF_ENDPOINT: site.endpoint,
      DRAFTCHECK_CACHE: `${PLACE}/cache`, DRAFTCHECK_CACHE_LIMIT: "64MB",
    },
    stdout: () => {}, stderr: () => {},
  });
  postMessage({ stage: "Unpacking the checker" });
  python.unpackArchive(await archive, "zip", { extractDir: PLACE });
  python.pyimport("sys").path.append(PLACE);
  postMessage({ stage: "Loading the checker" });
  answers = python.pyimport("draftcheck.web.answers");
  main = python.pyimport("draftcheck.cli").main;
  answers.listen((name, count, wait) => postMessage({ came: count, wait }));
  postMessage({ ready: true });
  setTimeout(() => { // a question that is waiting comes first
    python.pyimport("draftcheck.cli.pair");
    answers.prepare();
    postMessage({ warm: true });
  });
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
