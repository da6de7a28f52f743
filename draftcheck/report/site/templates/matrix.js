"use strict";
// The matrix: all pairs lie in one JSON block; rows are made while they are scrolled to.
// Text goes in by textContent alone, so a name can never become markup.
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const { columns, words, targets, drafts, answers, sets, pairs } = data;
  const $ = (id) => document.getElementById(id);
  const frame = $("frame"), status = $("status"), hint = $("hint"), dialog = $("pair"), form = $("controls");
  const CHUNK = 40;
  const ROOMY = 7; // so few targets leave room for words in the grid
  const T = 0, D = 1, SET = 2, BEST = 3, RANK = 4, SPEEDUP = 5, EVEN = 6, BYTES = 7, AT_BEST = 8;
  const NAME = 0, KEY = 1, PARAMETERS = 2, FAMILY = 3, PAGE = 4, KIND = 4, URL = 5, GATED = 6;
  const number = new Intl.NumberFormat("en");
  const lower = (models) => models.map((model) => model[NAME].toLowerCase());
  const targetNames = lower(targets), draftNames = lower(drafts);
  const at = new Map(pairs.map((pair, index) => [pair[T] * drafts.length + pair[D], index]));
  const byKey = new Map(pairs.map((pair, index) => [`${targets[pair[T]][KEY]}.${drafts[pair[D]][KEY]}`, index]));

  const state = { q: "", engine: "", off: new Set(), order: "best", view: "", column: "", down: false };

  function el(tag, attributes, ...children) {
    const node = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes || {})) {
      if (value !== undefined && value !== null) node.setAttribute(name, value);
    }
    node.append(...children.filter((child) => child !== null && child !== undefined));
    return node;
  }

  const answerOf = (pair, column) => sets[pair[SET]].map((id) => answers[id]).find((answer) => answer[0] === column);
  function verdictOf(pair) {
    if (state.engine === "") return pair[BEST];
    const answer = answerOf(pair, Number(state.engine));
    return answer ? answer[1] : -1;
  }
  const wanted = (pair) => {
    const verdict = verdictOf(pair);
    return verdict >= 0 && !state.off.has(verdict);
  };
  function matches(pair, terms) {
    return terms.every((term) => targetNames[pair[T]].includes(term) || draftNames[pair[D]].includes(term));
  }
  const count = (value) => {
    if (value === null) return "";
    const [unit, size] = value >= 1e12 ? ["T", 1e12] : value >= 1e9 ? ["B", 1e9] : value >= 1e6 ? ["M", 1e6] : ["", 1];
    return (value / size).toFixed(value / size < 10 && unit ? 1 : 0).replace(/\.0$/, "") + unit;
  };
  const times = (value) => (value === null ? "" : `${value.toFixed(2)}×`);
  const even = (pair) => (pair[EVEN] === null ? "" : `${pair[AT_BEST] ? "≥ " : ""}${Math.round(pair[EVEN] * 100)} %`);
  const bytes = (value) => {
    if (value === null) return "";
    const [unit, size] = value >= 2 ** 30 ? ["GiB", 2 ** 30] : ["MiB", 2 ** 20];
    return `${(value / size).toFixed(1)} ${unit}`;
  };
  // An engine without a method for such files left nothing unread: it is said in other words.
  const wordOf = (answer) => (answer[3] === "" && words[answer[1]] === "undecided" ? "not applicable" : words[answer[1]]);
  const badge = (word, said) => el("span", { class: `v ${word.replace(" ", "-")}`, title: word }, said ?? word);
  const mark = (verdict) => el("i", { class: words[verdict][0] });
  function engines(pair) {
    const found = new Map([...words, "not applicable"].map((word) => [word, []]));
    const all = sets[pair[SET]].map((id) => answers[id]);
    for (const answer of all) found.get(wordOf(answer)).push(columns[answer[0]][0]);
    const shown = el("span", { class: "engines" });
    for (const [word, names] of found) {
      const every = names.length > 4 && names.length === all.length;
      if (!names.length) continue;
      const one = (name, place) => [el("b", {}, name + (place + 1 < names.length ? "," : "")), " "];
      const told = every ? [`all ${names.length} engines`] : names.flatMap(one);
      shown.append(badge(word, el("span", { class: "names" }, ...told)), " ");
    }
    return shown;
  }

  // The address carries the state, so that a view can be sent to somebody.
  function restore() {
    const given = new URLSearchParams(location.hash.slice(1));
    state.q = given.get("q") || "";
    state.engine = columns.findIndex((column) => column[0] === given.get("engine"));
    state.engine = state.engine < 0 ? "" : String(state.engine);
    state.off = new Set((given.get("hide") || "").split(",").map((word) => words.indexOf(word)).filter((i) => i >= 0));
    state.order = ["best", "name", "size", "speedup"].includes(given.get("order")) ? given.get("order") : "best";
    const narrow = matchMedia("(max-width: 44rem)").matches;
    state.view = ["grid", "list"].includes(given.get("view")) ? given.get("view") : narrow ? "list" : "grid";
    const [column, way] = (given.get("sort") || "").split(".");
    state.column = COLUMNS.some((entry) => entry.id === column) ? column : "";
    state.down = way === "down";
    $("q").value = state.q;
    $("engine").value = state.engine;
    $("order").value = state.order;
    for (const box of form.elements.verdict) box.checked = !state.off.has(Number(box.value));
    for (const radio of form.elements.view) radio.checked = radio.value === state.view;
    const index = byKey.get(given.get("pair"));
    if (index !== undefined) show(pairs[index]);
  }
  function keep() {
    const given = new URLSearchParams();
    if (state.q) given.set("q", state.q);
    if (state.engine !== "") given.set("engine", columns[state.engine][0]);
    if (state.off.size) given.set("hide", [...state.off].map((verdict) => words[verdict]).join(","));
    if (state.order !== "best") given.set("order", state.order);
    given.set("view", state.view);
    if (state.column) given.set("sort", `${state.column}.${state.down ? "down" : "up"}`);
    history.replaceState(null, "", `#${given}`);
  }

  // One observer asks for more rows when the end of the table comes near.
  let more = null;
  const watcher = new IntersectionObserver((entries) => {
    if (entries.some((entry) => entry.isIntersecting) && more) more();
  }, { rootMargin: "600px" });
  function onDemand(body, items, make) {
    let next = 0;
    const end = el("div", { class: "more small muted" });
    frame.append(end);
    more = () => {
      const rows = items.slice(next, next + CHUNK).map((item, index) => make(item, next + index));
      next += rows.length;
      body.append(...rows);
      if (next >= items.length) {
        watcher.unobserve(end);
        end.remove();
        more = null;
      } else {
        end.textContent = `${number.format(next)} of ${number.format(items.length)} rows; more while you scroll`;
        watcher.unobserve(end); // observed anew: it reports once more where the end is still in sight
        watcher.observe(end);
      }
    };
    more();
  }

  function sorters(kept) {
    const score = new Map();
    const family = (side, model) => `f${(side === "t" ? targets : drafts)[model][FAMILY]}`;
    for (const pair of kept) {
      for (const key of [`t${pair[T]}`, `d${pair[D]}`, family("t", pair[T])]) {
        const entry = score.get(key) || { good: 0, speedup: 0 };
        const verdict = verdictOf(pair);
        entry.good += verdict === 0 ? 1 : verdict === 1 ? 0.5 : 0;
        entry.speedup = Math.max(entry.speedup, pair[SPEEDUP] || 0);
        score.set(key, entry);
      }
    }
    const by = {
      // Models of one vocabulary stand together: the grid falls into blocks.
      best: (side, a, b) => {
        const one = family(side, a), other = family(side, b);
        const good = (key) => score.get(key)?.good || 0;
        return good(other) - good(one) || (one < other ? -1 : one > other ? 1 : 0) || good(side + b) - good(side + a);
      },
      speedup: (side, a, b) => score.get(side + b).speedup - score.get(side + a).speedup,
      size: (side, a, b) => (side === "t" ? targets : drafts)[b][PARAMETERS] - (side === "t" ? targets : drafts)[a][PARAMETERS],
      name: () => 0,
    }[state.order];
    const named = (side) => (side === "t" ? targetNames : draftNames);
    const compare = (side) => (a, b) => by(side, a, b) || (named(side)[a] < named(side)[b] ? -1 : 1);
    return [compare("t"), compare("d")];
  }

  function grid(kept) {
    const [byTarget, byDraft] = sorters(kept);
    const across = [...new Set(kept.map((pair) => pair[T]))].sort(byTarget);
    const down = [...new Set(kept.map((pair) => pair[D]))].sort(byDraft);
    const shown = new Set(kept);
    const head = el("tr", {}, el("th", { scope: "col" }, "Draft \\ Target"));
    for (const t of across) {
      head.append(el("th", { scope: "col" }, el("a", { href: targets[t][PAGE], title: targets[t][NAME] }, targets[t][NAME])));
    }
    const body = el("tbody");
    const roomy = across.length <= ROOMY;
    const table = el("table", { class: roomy ? "grid roomy" : "grid" }, el("caption", { class: "skip" }, "Verdict of each draft for each target"), el("thead", {}, head), body);
    frame.append(table);
    onDemand(body, down, (d, place) => {
      const row = el("tr", {}, el("th", { scope: "row", title: drafts[d][NAME] }, drafts[d][NAME]));
      across.forEach((t, column) => {
        const index = at.get(t * drafts.length + d);
        const verdict = index === undefined ? -1 : verdictOf(pairs[index]);
        const first = place === 0 && column === 0;
        if (verdict < 0) {
          row.append(el("td", { class: "none", tabindex: first ? "0" : "-1", "aria-label": "not compared" }));
          return;
        }
        const label = `${drafts[d][NAME]} for ${targets[t][NAME]}: ${words[verdict]}`;
        const cell = el("td", { tabindex: first ? "0" : "-1", "aria-label": label, title: label, "data-p": index }, roomy ? badge(words[verdict], times(pairs[index][SPEEDUP]) || words[verdict]) : mark(verdict));
        if (!shown.has(pairs[index])) cell.className = "out";
        row.append(cell);
      });
      return row;
    });
    hint.textContent = "Arrow keys move between cells, Enter opens one. Faint marks are filtered out; an empty cell was not compared.";
    return `${number.format(down.length)} drafts × ${number.format(across.length)} targets`;
  }

  const COLUMNS = [
    { id: "draft", title: "Draft", value: (pair) => draftNames[pair[D]] },
    { id: "target", title: "Target", value: (pair) => targetNames[pair[T]] },
    { id: "verdict", title: "Verdict", value: (pair) => verdictOf(pair) },
    { id: "engines", title: "Engines", value: (pair) => -sets[pair[SET]].reduce((sum, id) => sum + 3 - answers[id][1], 0) },
    { id: "size", title: "Parameters", number: true, value: (pair) => drafts[pair[D]][PARAMETERS] },
    { id: "speedup", title: "Speed-up", number: true, value: (pair) => pair[SPEEDUP] },
    { id: "even", title: "Breaks even at", number: true, value: (pair) => pair[EVEN] },
    { id: "memory", title: "Memory", number: true, value: (pair) => pair[BYTES] },
  ];
  function ordered(kept) {
    const column = COLUMNS.find((entry) => entry.id === state.column);
    if (!column) {
      const [byTarget] = sorters(kept);
      const value = { best: verdictOf, speedup: (pair) => -(pair[SPEEDUP] || 0), size: (pair) => -(drafts[pair[D]][PARAMETERS] || 0), name: (pair) => draftNames[pair[D]] }[state.order];
      const rows = kept.map((pair) => [value(pair), pair]);
      return rows.sort(([a, one], [b, other]) => (a < b ? -1 : a > b ? 1 : 0) || byTarget(one[T], other[T]) || one[RANK] - other[RANK]).map(([, pair]) => pair);
    }
    const rows = kept.map((pair, place) => [column.value(pair), pair, place]);
    rows.sort(([a, , one], [b, , other]) => {
      if (a === null || b === null) return (a === null) - (b === null) || one - other;
      const order = a < b ? -1 : a > b ? 1 : 0;
      return (state.down ? -order : order) || one - other;
    });
    return rows.map(([, pair]) => pair);
  }

  function list(kept) {
    const head = el("tr");
    for (const column of COLUMNS) {
      const button = el("button", { type: "button" }, column.title);
      const cell = el("th", { scope: "col", class: column.number ? "num" : undefined }, button);
      if (state.column === column.id) cell.setAttribute("aria-sort", state.down ? "descending" : "ascending");
      button.addEventListener("click", () => {
        state.down = state.column === column.id ? !state.down : Boolean(column.number);
        state.column = column.id;
        draw();
        frame.querySelectorAll("thead button")[COLUMNS.indexOf(column)].focus();
      });
      head.append(cell);
    }
    const body = el("tbody");
    frame.append(el("table", { class: "list stack" }, el("thead", {}, head), body));
    onDemand(body, ordered(kept), (pair) => {
      const open = el("a", { href: `#pair=${targets[pair[T]][KEY]}.${drafts[pair[D]][KEY]}` }, drafts[pair[D]][NAME]);
      return el("tr", { "data-p": at.get(pair[T] * drafts.length + pair[D]) },
        el("th", { scope: "row" }, open, drafts[pair[D]][GATED] ? el("span", { class: "tag" }, "gated") : null),
        el("td", { class: "line", "data-l": "for" }, el("a", { href: targets[pair[T]][PAGE] }, targets[pair[T]][NAME])),
        el("td", {}, badge(state.engine === "" ? words[pair[BEST]] : wordOf(answerOf(pair, Number(state.engine))))),
        el("td", { class: "long" }, engines(pair)),
        el("td", { class: "num", "data-l": "parameters" }, count(drafts[pair[D]][PARAMETERS])),
        el("td", { class: "num", "data-l": "speed-up" }, times(pair[SPEEDUP])),
        el("td", { class: "num", "data-l": "breaks even at" }, even(pair)),
        el("td", { class: "num", "data-l": "memory" }, bytes(pair[BYTES])));
    });
    hint.textContent = "";
    return `${number.format(kept.length)} pairs`;
  }

  function draw() {
    watcher.disconnect();
    more = null;
    frame.replaceChildren();
    frame.scrollTop = 0;
    frame.className = `frame ${state.view}s`;
    const terms = state.q.toLowerCase().split(/\s+/).filter(Boolean);
    const kept = pairs.filter((pair) => wanted(pair) && matches(pair, terms));
    const shown = kept.length ? (state.view === "grid" ? grid(kept) : list(kept)) : "No pair";
    if (!kept.length) hint.textContent = "";
    status.textContent = `${shown} (${number.format(kept.length)} of ${number.format(pairs.length)} pairs match)`;
    keep();
  }

  function show(pair) {
    const draft = drafts[pair[D]], target = targets[pair[T]];
    const rows = sets[pair[SET]].map((id) => {
      const [column, , checked, method, reaction, reasons] = answers[id];
      const because = el("td", { class: "long" });
      reasons.forEach(([rule, href, said], place) => {
        if (place) because.append(el("br"));
        because.append(href ? el("a", { class: "id", href }, rule) : rule, ` ${said}`);
      });
      const name = el("th", { scope: "row", class: "brief" }, columns[column].slice(1).join(" "));
      if (!checked) name.append(" ", el("span", { class: "tag" }, "not verified"));
      return el("tr", {}, name, el("td", { class: "nowrap" }, method), el("td", {}, badge(wordOf(answers[id]))), el("td", {}, method && reaction), because);
    });
    const facts = el("dl", { class: "facts" });
    const fact = (label, value) => value && facts.append(el("div", {}, el("dt", {}, label), el("dd", {}, value)));
    fact("files", draft[URL] && el("a", { href: draft[URL], rel: "noreferrer" }, "on the Hub"));
    fact("access", draft[GATED] && "gated");
    fact("parameters", count(draft[PARAMETERS]));
    fact("kind", draft[KIND]);
    fact("measured", times(pair[SPEEDUP]));
    fact("breaks even at", even(pair));
    fact("memory", bytes(pair[BYTES]));
    const heads = ["Engine", "Method", "Verdict", "Reaction", "Because"].map((title) => el("th", { scope: "col" }, title));
    const close = el("button", { type: "button", class: "close", "aria-label": "Close" }, "✕");
    close.addEventListener("click", () => dialog.close());
    dialog.replaceChildren(close,
      el("h2", { id: "pair-title" }, `${draft[NAME]} for `, el("a", { href: target[PAGE] }, target[NAME])), facts,
      el("table", { class: "stack tight" }, el("thead", {}, el("tr", {}, ...heads)), el("tbody", {}, ...rows)));
    if (!dialog.open) dialog.showModal();
    dialog.scrollTop = 0;
  }

  frame.addEventListener("click", (event) => {
    const link = event.target.closest("a");
    if (link && !link.getAttribute("href").startsWith("#")) return;
    const holder = event.target.closest("[data-p]");
    if (holder) {
      event.preventDefault();
      show(pairs[Number(holder.dataset.p)]);
    }
  });
  frame.addEventListener("keydown", (event) => {
    const cell = event.target;
    if (cell.tagName !== "TD") return;
    if (event.key === "Enter" || event.key === " ") {
      event.preventDefault();
      if (cell.dataset.p) show(pairs[Number(cell.dataset.p)]);
      return;
    }
    const row = cell.parentElement, column = cell.cellIndex;
    const go = {
      ArrowRight: () => row.cells[column + 1], ArrowLeft: () => row.cells[column - 1],
      ArrowDown: () => row.nextElementSibling?.cells[column], ArrowUp: () => row.previousElementSibling?.cells[column],
      Home: () => row.cells[1], End: () => row.cells[row.cells.length - 1],
    }[event.key];
    if (!go) return;
    event.preventDefault();
    if (event.key === "ArrowDown" && !row.nextElementSibling && more) more();
    const next = go();
    if (next?.tagName !== "TD") return;
    cell.tabIndex = -1;
    next.tabIndex = 0;
    next.focus();
    next.scrollIntoView({ block: "nearest", inline: "nearest" });
  });

  let timer = 0;
  $("q").addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(() => { state.q = $("q").value; draw(); }, 120);
  });
  form.addEventListener("change", (event) => {
    const { id, name, value, checked } = event.target;
    if (id === "engine") state.engine = value;
    else if (id === "order") { state.order = value; state.column = ""; }
    else if (name === "verdict") checked ? state.off.delete(Number(value)) : state.off.add(Number(value));
    else if (name === "view") state.view = value;
    else return;
    draw();
  });
  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("reset", (event) => {
    event.preventDefault();
    history.replaceState(null, "", "#");
    restore();
    draw();
  });
  form.hidden = false;
  addEventListener("hashchange", () => { restore(); draw(); });
  restore();
  draw();
})();
