// The core in Pyodide, under Node: node core.mjs PYODIDE ARCHIVE FIXTURES
import { readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";

const [folder, archive, fixtures] = process.argv.slice(2);
const { loadPyodide } = await import(pathToFileURL(`${folder}/pyodide.mjs`));
const python = await loadPyodide({ indexURL: folder });
const place = python.runPython("import sysconfig; sysconfig.get_path('purelib')");
python.unpackArchive(new Uint8Array(readFileSync(archive)), "zip", { extractDir: place });
python.FS.mkdirTree("/fixtures");
python.FS.mount(python.FS.filesystems.NODEFS, { root: fixtures }, "/fixtures");
console.log(python.runPython(`
import json, os, sys
import draftcheck
os.chdir("/fixtures/pair")
pairs = (("target", "draft"), ("target.gguf", "draft.gguf"), ("target", "heads/eagle3"))
found = [draftcheck.check(*pair).to_dict() for pair in pairs]
json.dumps({"found": found, "platform": sys.platform})
`));
