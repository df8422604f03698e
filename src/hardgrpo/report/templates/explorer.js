"use strict";
// The address after # is the only state: controls change the address, and `render` shows what the address selects.
// Texts of models and datasets become text nodes (`show`), never markup.

const PAGE = 100; // problems on a page
const BASE = "(base)"; // the untrained model in place of a policy; no policy has this name
const $ = (id) => document.getElementById(id);
const count = (n) => n.toLocaleString("en");
const share = (part, rows) => (rows ? (100 * part / rows).toFixed(1) + " %" : "–");

// --- the data -------------------------------------------------------------------------------------------------------

let rows = []; // all completions; `pair` is the base model's completion of the same problem, decoding and sample number
const problems = new Map(); // {address: problem}; each base model and test has its own

async function unpack(id) {
  const packed = Uint8Array.from(atob($(id).textContent), (character) => character.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  return JSON.parse(await new Response(stream).text());
}

function arrange({ tests, blocks }) { // blocks of base models come first
  blocks.forEach((block, number) => {
    const own = tests[block.test].map((problem) => {
      const name = [block.base, block.test, problem.id].join("/");
      if (!problems.has(name)) problems.set(name, { ...problem, name, base: block.base, order: problems.size, samples: 0, right: 0, pairs: new Map() });
      return problems.get(name);
    });
    Object.assign(block, { id: "texts-" + number, isBase: block.policy === null, policy: block.policy ?? BASE });
    block.problem.forEach((place, i) => {
      const problem = own[place], row = { block, i, problem };
      for (const key of ["greedy", "sample", "correct", "answered", "truncated", "tokens"]) row[key] = block[key][i];
      const key = row.greedy + "/" + row.sample;
      row.name = [...(block.isBase ? [BASE] : [block.task, block.recipe, block.policy, block.seed]), row.greedy ? "greedy" : "sampled", row.sample].join("/");
      if (block.isBase) {
        problem.pairs.set(key, row);
        if (!row.greedy) { problem.samples++; problem.right += row.correct; }
      } else row.pair = problem.pairs.get(key);
      rows.push(row);
    });
  });
  for (const problem of problems.values()) problem.rate = problem.samples ? problem.right / problem.samples : null;
}

const textsOf = async (block) => (block.texts ??= await unpack(block.id));

// --- untrusted text -------------------------------------------------------------------------------------------------

// Characters that are invisible or rearrange text: controls, formats (bidi, zero width), lone surrogates, private-use and unassigned
// characters, line separators, blank letters, variation selectors.
const UNSEEN = /((?![\n\t])[\p{Cc}\p{Cf}\p{Cs}\p{Co}\p{Cn}\p{Zl}\p{Zp}\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0\ufe00-\ufe0f\u{e0100}-\u{e01ef}])\1*/gu;
const hex = (number, digits) => number.toString(16).toUpperCase().padStart(digits, "0");
const cut = (text, length) => [...text.slice(0, 2 * length)].slice(0, length).join("");

/** Append a text to an element, with a mark in place of each invisible character. */
function show(parent, text) {
  let end = 0;
  for (const match of text.matchAll(UNSEEN)) {
    parent.append(text.slice(end, match.index));
    const code = match[1].codePointAt(0), times = match[0].length / match[1].length;
    const name = code >= 0xdc80 && code <= 0xdcff ? "byte " + hex(code - 0xdc00, 2) : "U+" + hex(code, 4);
    put(parent, "span", "‹" + name + (times > 1 ? " ×" + count(times) : "") + "›", "mark");
    end = match.index + match[0].length;
  }
  parent.append(text.slice(end));
}

function put(parent, tag, text = "", name = "") {
  const element = document.createElement(tag);
  element.className = name;
  show(element, String(text));
  parent.append(element);
  return element;
}

// --- the selection --------------------------------------------------------------------------------------------------

const VALUES = {
  model: ["model", (r) => r.block.model], test: ["test set", (r) => r.block.test], task: ["trained on", (r) => r.block.task],
  recipe: ["recipe", (r) => r.block.recipe], policy: ["policy", (r) => r.block.policy], seed: ["seed", (r) => r.block.seed],
  tier: ["tier", (r) => r.problem.tier],
};
const isUp = (r) => r.pair && !r.pair.correct && r.correct, isDown = (r) => r.pair && r.pair.correct && !r.correct;
const TESTS = {
  p: ["p̂ of the base model", {
    zero: ["0", ({ problem: { rate } }) => rate === 0], low: ["above 0, up to ¼", ({ problem: { rate } }) => rate > 0 && rate <= 0.25],
    middle: ["between ¼ and ¾", ({ problem: { rate } }) => rate > 0.25 && rate < 0.75],
    high: ["¾ and more, below 1", ({ problem: { rate } }) => rate >= 0.75 && rate < 1], one: ["1", ({ problem: { rate } }) => rate === 1],
  }],
  decoding: ["decoding", { greedy: ["greedy", (r) => r.greedy], all: ["sampled and greedy", () => true] }, "sampled"],
  grade: ["grade", {
    correct: ["correct", (r) => r.correct], incorrect: ["not correct", (r) => !r.correct],
    wrong: ["wrong (has an answer)", (r) => !r.correct && r.answered], unanswered: ["no answer", (r) => !r.answered],
    truncated: ["cut off at the limit", (r) => r.truncated === 1],
  }],
  change: ["change from the base model", {
    up: ["wrong → right", isUp], down: ["right → wrong", isDown], either: ["changed either way", (r) => isUp(r) || isDown(r)],
    right: ["right before and after", (r) => r.pair && r.pair.correct && r.correct],
    wrong: ["wrong before and after", (r) => r.pair && !r.pair.correct && !r.correct],
  }],
};
const number = (entry, test) => entry.rows.filter(test).length;

const read = () => Object.fromEntries(new URLSearchParams(location.hash.slice(1)));
const addressOf = (state) => "#" + new URLSearchParams(Object.entries(state).filter(([, value]) => value));
const go = (changes) => { location.hash = addressOf({ ...read(), ...changes }); };

function addControls() {
  const choices = (table) => Object.entries(table).map(([value, [name]]) => [value, name]);
  for (const [key, [name, valueOf]] of Object.entries(VALUES)) {
    const values = [...new Set(rows.map(valueOf))].filter((value) => value !== null);
    if (key === "seed" || key === "tier") values.sort((a, b) => a - b);
    addSelect(key, name, "any", values.map((value) => [value, value === BASE ? "base model (untrained)" : cut(String(value), 60)]), values.length < 2);
  }
  for (const [key, [name, table, unset]] of Object.entries(TESTS)) addSelect(key, name, unset ?? "any", choices(table));
  const search = put(put($("filters"), "label", "search (Enter)"), "input");
  Object.assign(search, { id: "filter-search", type: "search", onchange: () => go({ search: search.value, page: "" }) });
  Object.assign(put($("filters"), "button", "Clear"), { id: "clear", type: "button", onclick: () => { location.hash = ""; } });
  $("filters").onsubmit = (event) => event.preventDefault();
}

function addSelect(key, name, unset, choices, hidden = false) {
  const label = put($("filters"), "label", name), select = put(label, "select");
  Object.assign(select, { id: "filter-" + key, onchange: () => go({ [key]: select.value, page: "" }) });
  for (const [value, text] of [["", unset], ...choices]) put(select, "option", text).value = value;
  label.hidden = hidden;
}

/** The tests that a completion must pass to be shown. */
function testsOf(state) {
  const tests = Object.entries(VALUES).filter(([key]) => state[key]).map(([key, [, valueOf]]) => (r) => String(valueOf(r)) === state[key]);
  for (const [key, [, table]] of Object.entries(TESTS)) if (table[state[key]]) tests.push(table[state[key]][1]);
  // a link to a greedy completion shows both decodings
  if (!state.decoding && !state.row?.includes("/greedy/") && rows.some((r) => !r.greedy)) tests.push((r) => !r.greedy);
  const text = state.search?.toLowerCase(), has = (words) => String(words ?? "").toLowerCase().includes(text);
  if (text) tests.push(({ problem, block, i }) => [problem.id, problem.question, problem.answer, block.texts.completion[i]].some(has));
  return tests;
}

// --- what is shown --------------------------------------------------------------------------------------------------

let shown; // {state, entries: [{problem, rows}], page, pages, detail: rows of the open problem, at: place of the chosen row}
let turn = 0;

async function render() {
  const mine = ++turn, state = read();
  for (const control of $("filters").querySelectorAll("select, input")) control.value = state[control.id.slice("filter-".length)] ?? "";
  if (state.search) {
    $("status").hidden = false;
    $("status").textContent = "Searching …";
    for (const block of new Set(rows.map((r) => r.block))) await textsOf(block);
  }
  const tests = testsOf(state), selected = rows.filter((r) => tests.every((test) => test(r)));
  const entries = [...Map.groupBy(selected, (r) => r.problem)].map(([problem, group]) => ({ problem, rows: group }));
  entries.sort((a, b) => a.problem.order - b.problem.order);
  const open = problems.get(state.open), detail = selected.filter((r) => r.problem === open);
  detail.sort((a, b) => a.block.isBase - b.block.isBase); // the base model's completion is shown beside each of the others
  const at = Math.max(0, detail.findIndex((r) => r.name === state.row));
  for (const row of detail.slice(at, at + 1)) for (const side of [row, row.pair]) if (side) await textsOf(side.block);
  if (mine !== turn) return; // the address has changed
  const pages = Math.max(1, Math.ceil(entries.length / PAGE)), page = Math.min(Math.max(1, parseInt(state.page, 10) || 1), pages);
  shown = { state, entries, page, pages, detail, at };
  showSummary(selected);
  showList(open);
  showDetail(open);
  $("status").hidden = true;
  document.documentElement.dataset.ready = location.hash; // for tests: this address is shown completely
}

function line(parent, cells, tag = "td") {
  const element = put(parent, "tr");
  for (const cell of cells) put(element, tag, cell);
  return element;
}

function table(parent, heads) {
  parent.replaceChildren();
  line(put(parent, "thead"), heads, "th");
  return put(parent, "tbody");
}

function showSummary(selected) {
  const names = ["completions", "correct", "base correct, same samples", "wrong → right", "right → wrong", "no answer", "cut off"];
  const body = table($("summary"), ["policy", ...names]);
  const sums = (group) => {
    const all = (test) => group.filter(test).length, pairs = all((r) => r.pair);
    return [count(group.length), share(all((r) => r.correct), group.length), share(all((r) => r.pair?.correct), pairs),
      pairs ? count(all(isUp)) : "–", pairs ? count(all(isDown)) : "–",
      share(all((r) => !r.answered), group.length), share(all((r) => r.truncated === 1), all((r) => r.truncated >= 0))];
  };
  for (const [policy, group] of Map.groupBy(selected, (r) => r.block.policy)) line(body, [policy === BASE ? "base model" : policy, ...sums(group)]);
  line(body, ["all completions that pass the filters", ...sums(selected)]).className = "total";
}

function putPager(parent, text, at, many, to) {
  const pager = put(parent, "p");
  for (const [label, next] of [["‹ Previous", at - 1], ["Next ›", at + 1]]) {
    Object.assign(put(pager, "button", label), { type: "button", disabled: next < 0 || next >= many, onclick: () => to(next) });
  }
  put(pager, "span", text);
  return pager;
}

/** Append a cell with a link; a click anywhere on its line follows the link. */
function putLink(element, text, changes) {
  const link = put(put(element, "td"), "a", text);
  link.href = addressOf({ ...shown.state, ...changes });
  element.onclick = () => { if (!getSelection().toString()) location.hash = link.getAttribute("href"); };
  return link;
}

function showList(open) {
  const { entries, page, pages } = shown;
  $("pager").replaceChildren();
  put($("pager"), "b", count(entries.length) + (entries.length === 1 ? " problem" : " problems"));
  if (pages > 1) putPager($("pager"), `page ${page} of ${pages}`, page - 1, pages, (to) => go({ page: to ? to + 1 : "" }));
  const models = new Set(rows.map((r) => r.block.base)).size > 1 ? ["model"] : [];
  const body = table($("problems"), ["problem", ...models, "test set", "tier", "p̂", "completions", "correct", "wrong → right", "right → wrong"]);
  for (const entry of entries.slice((page - 1) * PAGE, page * PAGE)) {
    const { problem } = entry, element = put(body, "tr", "", problem === open ? "chosen" : ""), pairs = number(entry, (r) => r.pair);
    const link = putLink(element, cut(problem.id, 120), { open: problem.name, row: "" });
    put(link.parentNode, "small", cut(String(problem.question ?? ""), 220));
    const cells = [entry.rows[0].block.test, problem.tier ?? "–", problem.rate?.toFixed(2) ?? "–", count(entry.rows.length),
      share(number(entry, (r) => r.correct), entry.rows.length), pairs ? count(number(entry, isUp)) : "–", pairs ? count(number(entry, isDown)) : "–"];
    for (const cell of models.length ? [problem.base, ...cells] : cells) put(element, "td", cell);
  }
  if (!entries.length) line(body, ["No completion passes all filters."]);
}

function showDetail(problem) {
  const parent = $("detail"), { detail, at } = shown;
  parent.hidden = !problem;
  parent.replaceChildren();
  if (!problem) return;
  put(parent, "h2", cut(problem.id, 200));
  const samples = problem.samples ? `p̂ ${problem.rate.toFixed(2)} (${problem.right} of ${problem.samples} samples of the base model)` : "p̂ unknown";
  put(parent, "p", [problem.base, problem.tier != null ? "tier " + problem.tier : "", samples].filter(Boolean).join(" · "), "facts");
  put(parent, "pre", problem.question ?? "", "text");
  put(parent, "p", "Reference answer: " + (problem.answer ?? "none"), "facts");
  if (!detail.length) { put(parent, "p", "No completion of this problem passes all filters."); return; }
  const name = `completion ${count(at + 1)} of ${count(detail.length)} of this problem that pass the filters`;
  putPager(parent, name, at, detail.length, (to) => go({ row: detail[to].name })).className = "pager";
  const sides = put(parent, "div", "", "side"), row = detail[at];
  if (!row.block.isBase) {
    if (row.pair) showSide(sides, row.pair);
    else put(sides, "p", `The base model has no sample ${row.sample} to compare with.`);
  }
  showSide(sides, row);
  showCompletions(put(parent, "table", "", "pairs"));
}

const gradeOf = (r) => (r.correct ? "correct" : r.answered ? "wrong" : "no answer");
const nameOf = ({ block }) => (block.isBase ? "base model" :
  [block.policy, ...(block.task === block.test ? [] : ["trained on " + block.task]), ...($("filter-recipe").parentNode.hidden ? [] : [block.recipe]), "seed " + block.seed].join(", "));

function showSide(parent, row) {
  const side = put(parent, "div"), { block } = row, completion = block.texts.completion[row.i], extracted = block.texts.extracted[row.i];
  side.dataset.side = block.isBase ? "base" : "checkpoint";
  put(side, "h3", nameOf(row) + (block.isBase ? "" : `, after ${count(block.step)} updates`));
  const facts = put(side, "p", "", "facts");
  put(facts, "b", gradeOf(row), gradeOf(row));
  put(facts, "bdi", extracted === null ? " · no answer read" : " · answer read: " + cut(extracted, 500));
  put(facts, "span", [" · " + (row.greedy ? "greedy" : "sample " + row.sample), row.tokens < 0 ? "tokens not recorded" : count(row.tokens) + " tokens",
    { "-1": "end not recorded", 0: "ended by itself", 1: "cut off at the limit" }[row.truncated]].join(" · "));
  if (completion) put(side, "pre", completion, "text");
  else put(side, "p", "The completion is empty.");
}

function showCompletions(parent) {
  const body = table(parent, ["completion", "decoding", "sample", "base model's grade", "grade", "cut off", "tokens"]);
  for (const [place, row] of shown.detail.entries()) {
    const element = put(body, "tr", "", place === shown.at ? "chosen" : ""), before = row.block.isBase ? row : row.pair;
    putLink(element, nameOf(row), { row: row.name });
    for (const cell of [row.greedy ? "greedy" : "sampled", row.sample, before ? gradeOf(before) : "–", gradeOf(row),
      row.truncated === 1 ? "cut off" : "", row.tokens < 0 ? "–" : count(row.tokens)]) put(element, "td", cell, cell);
  }
}

// --- keys and start -------------------------------------------------------------------------------------------------

function openProblem(by) {
  const { entries, state, page } = shown, at = entries.findIndex((entry) => entry.problem.name === state.open);
  const to = at < 0 ? (page - 1) * PAGE : at + by;
  if (entries[to]) go({ open: entries[to].problem.name, row: "", page: Math.floor(to / PAGE) ? Math.floor(to / PAGE) + 1 : "" });
}
const openRow = (by) => { const row = shown.detail[shown.at + by]; if (row) go({ row: row.name }); };
const openPage = (by) => { const page = shown.page + by; if (page >= 1 && page <= shown.pages) go({ page: page > 1 ? page : "" }); };
const KEYS = {
  j: () => openProblem(1), k: () => openProblem(-1), n: () => openRow(1), p: () => openRow(-1), "]": () => openPage(1), "[": () => openPage(-1),
  "/": () => $("filter-search").focus(), Escape: () => go({ open: "", row: "" }),
};

function onKey(event) {
  if (event.target.closest("input, select")) { if (event.key === "Escape") event.target.blur(); return; }
  if (event.ctrlKey || event.metaKey || event.altKey || !Object.hasOwn(KEYS, event.key)) return;
  event.preventDefault();
  KEYS[event.key]();
}

async function start() {
  arrange(await unpack("index"));
  addControls();
  addEventListener("hashchange", () => render().catch(fail));
  addEventListener("keydown", onKey);
  $("main").hidden = false;
  await render();
}

function fail(error) {
  $("status").hidden = false;
  $("status").textContent = "The completions cannot be shown (use a browser from 2024 or later): " + error.message;
}

start().catch(fail);
