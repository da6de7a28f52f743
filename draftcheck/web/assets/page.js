// The page: fields -> a question for the worker; the answer that comes back is shown as it is.
"use strict";
const at = (selector, under = document) => under.querySelector(selector);
const all = (selector, under = document) => [...under.querySelectorAll(selector)];
const SHARED = ["target", "draft", "engine", "gpu", "context", "sequences"];
const PAUSE = 250;
const files = { target: [], draft: [] };
let worker, asked = 0, running = null, ready = false, bytes = 0, timer = 0, cache = "";
const waiting = new Map();

// ---- the worker ----

function begin() {
  ready = false;
  // From a blob: so the policy of this page holds inside the worker, too.
  const code = `import(${JSON.stringify(new URL("worker.mjs", location).href)})`;
  const queue = `const early = []; onmessage = (event) => early.push(event);
    ${code}.then(() => early.forEach((event) => onmessage(event)), (error) => postMessage({ failed: String(error) }))`;
  const url = URL.createObjectURL(new Blob([queue], { type: "text/javascript" }));
  worker = new Worker(url, { type: "module" });
  worker.onmessage = ({ data }) => heard(data);
  worker.onerror = (event) => { event.preventDefault(); failed(event.message || "it ended"); };
}

function heard(data) {
  if (data.failed) return failed(data.failed);
  if (data.kept) return document.body.setAttribute("data-kept", "");
  if (data.stage && !ready) return say(`${data.stage} …`, true);
  if (data.ready) {
    ready = true;
    cache = data.cache;
    document.body.dataset.ready = Math.round(performance.now());
    document.body.dataset.start = data.again ? "again" : "first";
    say(running ? "Reading …" : "", Boolean(running));
    return document.activeElement.dispatchEvent(new Event("input")); // a name may be half typed
  }
  if (data.warm) {
    document.body.dataset.warm = "";
    return serve();
  }
  if ("came" in data) {
    bytes += data.came;
    if (!running) return undefined;
    const rest = data.wait >= 1 ? `, waiting ${Math.round(data.wait)} s` : "";
    return say(`Reading: ${(bytes / 1e6).toFixed(1)} MB${rest} …`, true);
  }
  const take = waiting.get(data.id);
  waiting.delete(data.id);
  if (take) take(data);
  return undefined;
}

// What the worker keeps for the next start may be the reason: the next one begins from scratch.
function forget() {
  if (!cache || !("caches" in window)) return;
  caches.open(cache).then((there) => there.delete(new URL("memory", location).href)).catch(() => {});
}

// What is kept for the next visit must not slow an answer down.
function serve() {
  if (running || !("warm" in document.body.dataset) || !("serviceWorker" in navigator)) return;
  navigator.serviceWorker.register("sw.js").catch(() => {});
}

function ask(question, more = {}) {
  const id = ++asked;
  worker.postMessage({ id, question, ...more });
  return new Promise((resolve) => waiting.set(id, resolve));
}

function failed(reason) {
  const loading = !ready;
  restart();
  forget();
  const what = loading ? "The checker could not be loaded" : "Too large or too deep for Python in this page (draftcheck pair on a machine may do it)";
  trouble(`${what}: ${reason}`);
  if (!loading) begin();
}

function restart() {
  worker.terminate();
  waiting.clear();
  running = null;
  worker = null;
  busy(false);
}

// ---- what is said ----

function say(text, works = false, seen = true) {
  at("#status").textContent = text;
  at("#status").classList.toggle("unseen", !seen);
  at("#progress").hidden = !works;
}

function busy(now) {
  at("#cancel").hidden = !now;
  for (const button of all("button.main")) button.disabled = now;
  if (!now) at("#progress").hidden = true;
}

function trouble(text) {
  const box = document.createElement("div");
  box.className = "card failed";
  const line = document.createElement("h2");
  line.className = "first";
  line.textContent = text;
  box.append(line);
  at("#answer").replaceChildren(box);
  say(text);
}

// ---- questions ----

async function check(kind, fields) {
  if (!worker) begin();
  clearTimeout(timer);
  const mine = running = {};
  bytes = 0;
  busy(true);
  at("#answer").replaceChildren();
  delete at("#answer").dataset.json;
  delete at("#answer").dataset.code;
  say(ready ? "Reading …" : at("#status").textContent || "Loading …", true);
  const token = kind === "pair" ? at("#token").value.trim() : "";
  const found = await ask({ kind, ...fields }, kind === "pair" ? { files, token } : {});
  if (running !== mine) return;
  running = null;
  busy(false);
  serve();
  if (found.broke) return failed(found.broke);
  show(kind, fields, found.answer);
}

function show(kind, fields, answer) {
  const place = at("#answer");
  place.innerHTML = answer.html;
  const actions = at("[data-actions]", place);
  if (actions && answer.json) {
    if (kind === "pair" && !files.target.length && !files.draft.length) {
      actions.append(button("Copy link", () => copy(link(fields), "Link copied")));
    }
    actions.append(saved("JSON", answer.json, "application/json", "draftcheck.json"));
    if (answer.badge) actions.append(saved("Badge", answer.badge, "image/svg+xml", "draftcheck.svg"));
  }
  const access = at(".access"); // a hint may name it
  access.open ||= place.textContent.includes(at("summary", access).textContent);
  place.dataset.code = answer.code;
  place.dataset.json = answer.json;
  say(answer.first, false, false); // for screen readers: it stands in the answer, too
  const head = at(".first", place);
  if (head) head.focus({ preventScroll: true });
  place.scrollIntoView({ block: "nearest" });
}

function button(text, act) {
  const made = document.createElement("button");
  made.type = "button";
  made.className = "quiet";
  made.textContent = text;
  made.addEventListener("click", act);
  return made;
}

function saved(text, content, type, name) {
  const made = document.createElement("a");
  made.className = "quiet";
  made.textContent = text;
  made.download = name;
  made.href = URL.createObjectURL(new Blob([content], { type }));
  return made;
}

async function copy(text, done) {
  try {
    await navigator.clipboard.writeText(text);
    say(done);
  } catch {
    say("The browser does not let this page copy: select the text and copy it");
  }
}

function link(fields) {
  const url = new URL(location.pathname, location.origin);
  for (const name of SHARED) if (fields[name]) url.searchParams.set(name, fields[name]);
  return url.href.replaceAll("%2F", "/").replaceAll("%40", "@").replaceAll("%3A", ":");
}

function fieldsOf(form) {
  return Object.fromEntries([...new FormData(form)].filter(([, value]) => typeof value === "string" && value));
}

for (const form of all("form[data-kind]")) {
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const fields = fieldsOf(form), kind = form.dataset.kind;
    if (kind === "pair" && !files.target.length && !fields.target) {
      say("Name a target, or drop its files");
      return at("#target").focus();
    }
    if (kind === "pair" && !files.target.length && !files.draft.length) history.replaceState(null, "", link(fields));
    return check(kind, fields);
  });
}

at("#cancel").addEventListener("click", () => {
  restart();
  say("Cancelled");
  begin();
});

document.addEventListener("click", (event) => {
  const copier = event.target.closest("[data-copy]");
  if (copier) copy(at("pre", copier.parentElement).textContent, "Copied");
  const rule = event.target.closest("a[data-rule]");
  if (rule) {
    event.preventDefault();
    explain(rule.dataset.rule);
  }
});

async function explain(rule) {
  if (!worker) begin();
  const found = await ask({ kind: "rule", rule });
  const dialog = at("#rule");
  at("div", dialog).innerHTML = found.answer ? found.answer.html : "";
  if (!dialog.open) dialog.showModal();
}

// ---- files ----

function given(side, list) {
  files[side] = list;
  const box = at(`.side[data-side=${side}]`), note = at(".given", box);
  const all = list.reduce((sum, file) => sum + file.size, 0);
  const size = all < 1e9 ? `${(all / 1e6).toFixed(1)} MB` : `${(all / 1e9).toFixed(1)} GB`;
  at("span", note).textContent = `${list.length === 1 ? list[0].name : `${list.length} files`}, ${size}`;
  note.hidden = !list.length;
  at(".drop", box).hidden = Boolean(list.length);
  const name = at("input[list]", box);
  name.disabled = Boolean(list.length);
  if (list.length) name.value = "";
  else at("input[type=file]", box).value = "";
}

// What lies directly in a folder that was dropped, as a checkpoint has it.
async function inside(items) {
  const found = [];
  for (const entry of items.map((item) => item.webkitGetAsEntry && item.webkitGetAsEntry()).filter(Boolean)) {
    if (entry.isFile) found.push(entry);
    else {
      const reader = entry.createReader();
      for (;;) {
        const some = await new Promise((resolve, reject) => reader.readEntries(resolve, reject));
        if (!some.length) break;
        found.push(...some.filter((one) => one.isFile));
      }
    }
  }
  return Promise.all(found.map((entry) => new Promise((resolve, reject) => entry.file(resolve, reject))));
}

for (const box of all(".side")) {
  const side = box.dataset.side;
  at("input[type=file]", box).addEventListener("change", (event) => given(side, [...event.target.files]));
  at(".given button", box).addEventListener("click", () => given(side, []));
  box.addEventListener("dragover", (event) => { event.preventDefault(); box.classList.add("over"); });
  box.addEventListener("dragleave", () => box.classList.remove("over"));
  box.addEventListener("drop", async (event) => {
    event.preventDefault();
    box.classList.remove("over");
    given(side, await inside([...event.dataTransfer.items]));
  });
}
at("#gate-text").addEventListener("dragover", (event) => event.preventDefault());
for (const box of [at("#gate-text"), at("#why-text")]) {
  box.addEventListener("drop", async (event) => {
    const [file] = event.dataTransfer.files;
    if (!file) return;
    event.preventDefault();
    box.value = await file.text();
    if (box.id === "gate-text") at("#gate-name").value = file.name;
  });
}

// ---- names of the Hub ----

for (const input of all("input[list=names]")) {
  input.addEventListener("input", () => {
    clearTimeout(timer);
    const text = input.value.trim();
    if (!ready || running || text.length < 3 || /[@:]/.test(text)) return;
    timer = setTimeout(async () => {
      const found = await ask({ kind: "search", text });
      const names = found.answer ? found.answer.names : [];
      at("#names").replaceChildren(...names.map((name) => Object.assign(document.createElement("option"), { value: name })));
    }, PAUSE);
  });
}

// ---- tabs ----

const tabs = all("[role=tab]");
function choose(tab, focus = false) {
  for (const one of tabs) {
    const mine = one === tab;
    one.setAttribute("aria-selected", String(mine));
    one.tabIndex = mine ? 0 : -1;
    at(`#${one.getAttribute("aria-controls")}`).hidden = !mine;
  }
  if (!running) at("#answer").replaceChildren();
  if (focus) tab.focus();
}
tabs.forEach((tab, number) => {
  tab.addEventListener("click", () => choose(tab));
  tab.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (step) choose(tabs[(number + step + tabs.length) % tabs.length], true);
  });
});

// ---- start ----

if (location.protocol === "file:") {
  trouble("A browser runs this only from a web server. In this folder: python -m http.server, then open http://localhost:8000");
} else {
  say("Loading …", true);
  begin();
  const query = new URLSearchParams(location.search);
  for (const name of SHARED) if (query.has(name)) at(`#${name}`).value = query.get(name);
  if (query.has("rule")) explain(query.get("rule"));
  else if (query.has("target")) check("pair", fieldsOf(at("#panel-pair form")));
}
