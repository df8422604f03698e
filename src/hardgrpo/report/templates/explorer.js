"use strict";
// The explorer's page. The address after # is the only state: every control writes it, `render` reads it. Whatever a model or a
// dataset wrote becomes text nodes (`put`, `show`) and never markup.

const PAGE = 100, PAIRS = 100, LONGEST = 20000; // problems a page; rows of a problem and characters of a text shown at first
const CACHED = 4e7; // characters of packed texts whose unpacked form is kept
const BASE = "(base)"; // as a policy: the untrained model; no policy has such a name
const $ = (id) => document.getElementById(id);
const count = (n) => n.toLocaleString("en");
const percent = (part, whole) => (whole ? (100 * part / whole).toFixed(1) + " %" : "–");

// --- the data -------------------------------------------------------------------------------------------------------

let study, blocks, groups; // groups: a model on a test; with its problems and the base model's rows

async function unpack(id) {
  const packed = atob($(id).textContent), bytes = new Uint8Array(packed.length);
  for (let i = 0; i < packed.length; i++) bytes[i] = packed.charCodeAt(i);
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return JSON.parse(await new Response(stream).text());
}

function arrange() {
  blocks = study.blocks;
  groups = new Map();
  blocks.forEach((block, number) => {
    block.number = number;
    const key = block.model + "/" + block.test, problems = study.tests[block.test];
    if (!groups.has(key)) groups.set(key, { key, model: block.model, test: block.test, problems });
    block.group = groups.get(key);
    if (block.policy === null) {
      const group = block.group, size = problems.length;
      Object.assign(group, { base: block, samples: new Int32Array(size), correct: new Int32Array(size), rows: new Map() });
      block.problem.forEach((problem, row) => {
        group.rows.set(pairKey(block, row), row);
        if (block.greedy[row]) return;
        group.samples[problem]++;
        group.correct[problem] += block.correct[row];
      });
    }
  });
  for (const block of blocks) { // the row of the base model with the same problem, decoding and sample; -1: it has none
    block.pair = Int32Array.from(block.problem, (_, row) =>
      block.policy === null ? -1 : block.group.rows.get(pairKey(block, row)) ?? -1);
  }
}

const pairKey = (block, row) => (block.problem[row] * 1e6 + block.sample[row]) * 2 + block.greedy[row];
const passRate = (group, problem) => group.samples[problem] ? group.correct[problem] / group.samples[problem] : null;

const kept = new Map(); // unpacked texts by block, the one used last at the end
function textsOf(block) {
  const texts = kept.get(block) ?? unpack("texts-" + block.number);
  kept.delete(block);
  kept.set(block, texts);
  let size = 0;
  for (const other of kept.keys()) size += $("texts-" + other.number).textContent.length;
  for (const other of [...kept.keys()].slice(0, -2)) {
    if (size <= CACHED) break;
    size -= $("texts-" + other.number).textContent.length;
    kept.delete(other);
  }
  return texts;
}

// --- text that nobody has checked -----------------------------------------------------------------------------------

// Controls, formats (bidi, zero width), lone surrogates, private and unassigned, line separators, blank letters, selectors.
const UNSEEN = /((?![\n\t])[\p{Cc}\p{Cf}\p{Cs}\p{Co}\p{Cn}\p{Zl}\p{Zp}\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0\ufe00-\ufe0f\u{e0100}-\u{e01ef}])\1*/gu;

/** Append a text to an element, with a mark in the place of each character that cannot be seen. */
function show(parent, text) {
  let end = 0;
  for (const found of text.matchAll(UNSEEN)) {
    parent.append(text.slice(end, found.index));
    const code = found[1].codePointAt(0), times = found[0].length / found[1].length;
    const name = code >= 0xdc80 && code <= 0xdcff ? "byte " + hex(code - 0xdc00, 2) : "U+" + hex(code, 4);
    put(parent, "span", "mark", "‹" + name + (times > 1 ? " ×" + count(times) : "") + "›");
    end = found.index + found[0].length;
  }
  parent.append(text.slice(end));
  return parent;
}

const hex = (number, digits) => number.toString(16).toUpperCase().padStart(digits, "0");

/** The first characters of a text, no pair of surrogates torn apart. */
function cut(text, length) {
  const pair = /[\ud800-\udbff]/.test(text.charAt(length - 1)) && /[\udc00-\udfff]/.test(text.charAt(length));
  return text.length <= length ? text : text.slice(0, pair ? length - 1 : length);
}

/** Append an element with a class and a plain text of our own. */
function put(parent, tag, name, text) {
  const element = document.createElement(tag);
  if (name) element.className = name;
  if (text !== undefined) element.textContent = text;
  parent.append(element);
  return element;
}

function putText(parent, text, name = "") {
  const box = show(put(parent, "pre", "text " + name), cut(text, LONGEST));
  if (text.length <= LONGEST) return;
  const button = put(parent, "button", "", "Show all " + count(text.length) + " characters");
  button.type = "button";
  button.onclick = () => { box.replaceChildren(); show(box, text); button.remove(); };
}

// --- the selection --------------------------------------------------------------------------------------------------

const PASS = { // by pass rate
  zero: ["0", (p) => p === 0], low: ["above 0, up to ¼", (p) => p > 0 && p <= 0.25],
  middle: ["between ¼ and ¾", (p) => p > 0.25 && p < 0.75], high: ["¾ and more, below 1", (p) => p >= 0.75 && p < 1],
  one: ["1", (p) => p === 1],
};
const VERDICTS = {
  correct: ["correct", (b, i) => b.correct[i]],
  incorrect: ["not correct", (b, i) => !b.correct[i]],
  wrong: ["wrong (has an answer)", (b, i) => !b.correct[i] && b.answered[i]],
  unanswered: ["no answer", (b, i) => !b.answered[i]],
  truncated: ["cut off at the limit", (b, i) => b.truncated[i] === 1],
};
const before = (b, i) => b.group.base.correct[b.pair[i]];
const CHANGES = {
  up: ["wrong → right", (b, i) => b.pair[i] >= 0 && !before(b, i) && b.correct[i]],
  down: ["right → wrong", (b, i) => b.pair[i] >= 0 && before(b, i) && !b.correct[i]],
  either: ["changed either way", (b, i) => b.pair[i] >= 0 && before(b, i) !== b.correct[i]],
  right: ["right before and after", (b, i) => b.pair[i] >= 0 && before(b, i) && b.correct[i]],
  wrong: ["wrong before and after", (b, i) => b.pair[i] >= 0 && !before(b, i) && !b.correct[i]],
};
const SORTS = {
  hardest: ["p̂, hardest first", (a, b) => a.rate - b.rate],
  easiest: ["p̂, easiest first", (a, b) => b.rate - a.rate],
  up: ["most wrong → right", (a, b) => b.up - a.up],
  down: ["most right → wrong", (a, b) => b.down - a.down],
  lowest: ["lowest share correct", (a, b) => a.correct / a.rows - b.correct / b.rows],
};
const first = (table) => Object.entries(table).map(([value, [name]]) => [value, name]);
const numbersFirst = (a, b) => a - b || (isNaN(a) - isNaN(b)) || (a < b ? -1 : a > b ? 1 : 0);

let controls; // [key, name, [[value, text], ...]] in the order they are shown
function arrangeControls() {
  const distinct = (values) => [...new Set(values)].filter((value) => value !== null).map(String);
  const same = (values) => values.map((value) => [value, value]);
  const tiers = Object.values(study.tests).flatMap((problems) => problems.map((problem) => problem.tier));
  controls = [
    ["model", "model", same(distinct(blocks.map((b) => b.model)))],
    ["test", "test set", same(distinct(blocks.map((b) => b.test)))],
    ["task", "trained on", same(distinct(blocks.map((b) => b.task)))],
    ["recipe", "recipe", same(distinct(blocks.map((b) => b.recipe)))],
    ["policy", "policy", [[BASE, "base model (untrained)"], ...same(distinct(blocks.map((b) => b.policy)))]],
    ["seed", "seed", same(distinct(blocks.map((b) => b.seed)).sort(numbersFirst))],
    ["tier", "tier", same(distinct(tiers).sort(numbersFirst))],
    ["p", "p̂ of the base", first(PASS)],
    ["decoding", "decoding", same(["sampled", "greedy"])],
    ["verdict", "verdict", first(VERDICTS)],
    ["change", "against the base", first(CHANGES)],
    ["sort", "order", first(SORTS)],
  ];
  const form = $("filters");
  for (const [key, name, options] of controls) {
    const label = put(form, "label", "", name), select = put(label, "select");
    select.id = "filter-" + key;
    put(select, "option", "", key === "sort" ? "as in the test set" : "any").value = "";
    for (const [value, text] of options) show(put(select, "option"), cut(text, 60)).value = value;
    label.hidden = options.length < 2 && !["policy", "p", "tier"].includes(key) || !options.length;
    select.onchange = () => go({ [key]: select.value, page: "" });
  }
  const label = put(form, "label", "", "search"), search = put(label, "input");
  Object.assign(search, { id: "filter-search", type: "search", placeholder: "text", spellcheck: false });
  let waiting;
  search.oninput = () => {
    clearTimeout(waiting);
    waiting = setTimeout(() => go({ search: search.value, page: "" }, true), 250);
  };
  const where = put(put(form, "label", "", "in"), "select");
  where.id = "filter-in";
  put(where, "option", "", "questions and answers").value = "";
  put(where, "option", "", "completions").value = "completions";
  where.onchange = () => go({ in: where.value, page: "" });
  const clear = put(form, "button", "", "Clear");
  Object.assign(clear, { id: "clear", type: "button", onclick: () => { clearTimeout(waiting); location.hash = ""; } });
  form.onsubmit = (event) => event.preventDefault();
}

const read = () => Object.fromEntries(new URLSearchParams(location.hash.slice(1)));

function written(state) {
  const kept = Object.entries(state).filter(([, value]) => value !== "" && value !== undefined && value !== null);
  return "#" + new URLSearchParams(kept).toString();
}

/** Change the selection; `quietly` without a step for the back button. */
function go(changes, quietly = false) {
  const address = written({ ...read(), ...changes });
  if (quietly) location.replace(address);
  else location.hash = address;
}

/** What of the link this study does not have is said and left out. */
function known(state) {
  const unknown = controls.filter(([key, , options]) => state[key] && !options.some(([value]) => value === state[key]));
  $("notice").hidden = !unknown.length;
  $("notice").replaceChildren();
  for (const [key, name] of unknown) {
    show(put($("notice"), "bdi"), "The link asks for " + name + " “" + cut(state[key], 100) + "”, which is not here. ");
    delete state[key];
  }
  return state;
}

/** Masks of the rows whose completion holds the text sought, by block; null where nothing is sought in completions. */
let found = { text: "", masks: new Map() };
async function search(state, current) {
  if (!state.search || state.in !== "completions") return null;
  const text = state.search.toLowerCase();
  if (found.text !== text) found = { text, masks: new Map() };
  const { masks } = found, wanted = blocks.filter((block) => passes(block, state) && !masks.has(block));
  for (const [i, block] of wanted.entries()) {
    $("status").hidden = false;
    $("status").textContent = `Searching the completions: ${i} of ${wanted.length} files …`;
    const { completion } = await textsOf(block);
    if (!current()) return null;
    masks.set(block, Uint8Array.from(completion, (written) => written.toLowerCase().includes(text)));
  }
  return masks;
}

const passes = (block, state) =>
  ["model", "test", "task", "recipe", "seed"].every((key) => !state[key] || state[key] === String(block[key])) &&
  (!state.policy || state.policy === (block.policy ?? BASE));

/** Which problems of a group the filters on problems leave. */
function problemMask(group, state) {
  const text = state.search && state.in !== "completions" ? state.search.toLowerCase() : "";
  return group.problems.map((problem, number) =>
    (!state.tier || state.tier === String(problem.tier)) && (!state.p || PASS[state.p][1](passRate(group, number))) &&
    (!text || [problem.id, problem.question, problem.answer].some((part) => String(part ?? "").toLowerCase().includes(text))));
}

/** The rows of a block that the filters leave, given to `each`. */
function eachRow(block, state, mask, masks, each) {
  const greedy = state.decoding && Number(state.decoding === "greedy"), sought = masks?.get(block);
  const verdict = VERDICTS[state.verdict]?.[1], change = CHANGES[state.change]?.[1];
  for (let i = 0; i < block.problem.length; i++) {
    if (!mask[block.problem[i]] || (greedy !== undefined && greedy !== block.greedy[i]) || (sought && !sought[i])) continue;
    if ((verdict && !verdict(block, i)) || (change && !change(block, i))) continue;
    each(i);
  }
}

/** {entries: problems with rows left, policies: what is left by policy}. */
function choose(state, masks) {
  const entries = [], policies = new Map();
  const tally = () => ({ rows: 0, correct: 0, answered: 0, cut: 0, told: 0, pairs: 0, before: 0, up: 0, down: 0 });
  for (const group of groups.values()) {
    const mask = problemMask(group, state), found = new Map();
    for (const block of blocks.filter((block) => block.group === group && passes(block, state))) {
      const policy = block.policy ?? BASE;
      if (!policies.has(policy)) policies.set(policy, tally());
      const sum = policies.get(policy);
      eachRow(block, state, mask, masks, (i) => {
        const problem = block.problem[i];
        let entry = found.get(problem);
        if (!entry) found.set(problem, entry = { group, problem, rate: passRate(group, problem), ...tally() });
        for (const total of [sum, entry]) {
          total.rows++;
          total.correct += block.correct[i];
          total.answered += block.answered[i];
          total.cut += block.truncated[i] === 1;
          total.told += block.truncated[i] >= 0;
          if (block.pair[i] < 0) continue;
          total.pairs++;
          total.before += before(block, i);
          total.up += !before(block, i) && block.correct[i] ? 1 : 0;
          total.down += before(block, i) && !block.correct[i] ? 1 : 0;
        }
      });
    }
    entries.push(...[...found.values()].sort((a, b) => a.problem - b.problem));
  }
  if (state.sort) entries.sort(SORTS[state.sort][1]);
  return { entries, policies };
}

// --- what is shown --------------------------------------------------------------------------------------------------

let shown = { entries: [], rows: [] }, turn = 0;

async function render() {
  const mine = ++turn, state = known(read());
  const masks = await search(state, () => mine === turn);
  if (mine !== turn) return;
  for (const key of [...controls.map(([key]) => key), "search", "in"]) {
    const control = $("filter-" + key), value = state[key] ?? "";
    if (control.value !== value && !(key === "search" && document.activeElement === control)) control.value = value;
    control.classList.toggle("set", value !== "");
  }
  const chosen = choose(state, masks);
  shown = { ...shown, entries: chosen.entries, state, masks };
  showSummary(chosen.policies);
  showList(state, chosen.entries);
  await showDetail(state, masks, () => mine === turn);
  if (mine !== turn) return;
  $("status").hidden = true;
  document.documentElement.dataset.ready = location.hash; // for tests: what is shown belongs to this address
}

function row(parent, cells, tag = "td") {
  const line = put(parent, "tr");
  for (const [text, name] of cells) show(put(line, tag, name), text);
  return line;
}

function showSummary(policies) {
  const table = $("summary"), total = { rows: 0, correct: 0, answered: 0, cut: 0, told: 0, pairs: 0, before: 0, up: 0, down: 0 };
  table.replaceChildren();
  const names = ["completions", "correct", "base, same samples", "wrong → right", "right → wrong", "no answer", "cut off"];
  row(put(table, "thead"), [["policy", "t"], ...names.map((name) => [name])], "th");
  const body = put(table, "tbody");
  const line = (name, sum) => row(body, [
    [name, "t"], [count(sum.rows)], [percent(sum.correct, sum.rows)], [percent(sum.before, sum.pairs)],
    [sum.pairs ? count(sum.up) : "–"], [sum.pairs ? count(sum.down) : "–"],
    [percent(sum.rows - sum.answered, sum.rows)], [percent(sum.cut, sum.told)],
  ]);
  for (const [policy, sum] of policies) {
    if (!sum.rows) continue;
    line(policy === BASE ? "base model" : policy, sum).dataset.policy = policy;
    for (const key in total) total[key] += sum[key];
  }
  line("all that the filters leave", total).className = "total";
}

function showList(state, entries) {
  const pages = Math.max(1, Math.ceil(entries.length / PAGE));
  const page = Math.min(Math.max(1, parseInt(state.page ?? 1, 10) || 1), pages), pager = $("pager");
  shown.page = page;
  shown.pages = pages;
  pager.replaceChildren();
  put(pager, "b", "", count(entries.length) + (entries.length === 1 ? " problem" : " problems"));
  for (const [text, to] of [["‹ Previous", page - 1], ["Next ›", page + 1]]) {
    if (pages < 2) break;
    const button = put(pager, "button", "", text);
    Object.assign(button, { type: "button", disabled: to < 1 || to > pages, onclick: () => go({ page: to > 1 ? to : "" }) });
  }
  if (pages > 1) put(pager, "span", "", `page ${page} of ${pages}`);
  const table = $("problems"), many = new Set(entries.map((entry) => entry.group.model)).size > 1;
  const tests = new Set(entries.map((entry) => entry.group.test)).size > 1;
  table.replaceChildren();
  const heads = [["problem", "t"], ["test set", "t wide"], ["tier"], ["p̂"], ["completions"], ["correct"], ["wrong → right", "wide"], ["right → wrong", "wide"]];
  if (many) heads.splice(1, 0, ["model", "t wide"]);
  row(put(table, "thead"), heads, "th");
  const body = put(table, "tbody");
  for (const entry of entries.slice((page - 1) * PAGE, page * PAGE)) {
    const { group } = entry, problem = group.problems[entry.problem], line = put(body, "tr");
    const name = put(line, "td", "question"), link = put(name, "a");
    line.dataset.open = nameOf(entry);
    link.href = written({ ...state, open: nameOf(entry), row: "" });
    show(put(link, "bdi"), cut(problem.id, 120));
    if (many || tests) put(name, "span", "narrow", [many && group.model, tests && group.test].filter(Boolean).join(", "));
    show(put(put(name, "small"), "bdi"), cut(String(problem.question ?? ""), 220));
    if (many) put(line, "td", "t wide", group.model);
    put(line, "td", "t wide", group.test);
    show(put(line, "td"), String(problem.tier ?? "–"));
    const rate = put(line, "td", "", entry.rate === null ? "–" : entry.rate.toFixed(2));
    rate.title = `${group.correct[entry.problem]} of ${group.samples[entry.problem]} samples of the base model are correct`;
    put(line, "td", "", count(entry.rows));
    put(line, "td", "", percent(entry.correct, entry.rows));
    put(line, "td", "wide", entry.pairs ? count(entry.up) : "–");
    put(line, "td", "wide", entry.pairs ? count(entry.down) : "–");
    line.onclick = (event) => { if (!event.target.closest("a") && !getSelection().toString()) location.hash = link.getAttribute("href"); };
    if (nameOf(entry) === state.open) {
      line.className = "chosen";
      link.setAttribute("aria-current", "true");
    }
  }
  if (!entries.length) put(put(body, "tr"), "td", "t", "No completion passes all filters.").colSpan = heads.length;
}

const nameOf = (entry) => [entry.group.model, entry.group.test, entry.group.problems[entry.problem].id].join("/");

/** The problem that a link opens, whether or not the filters leave it: {group, problem}. */
function opened(name) {
  const [model, test, ...id] = (name ?? "").split("/"), group = groups.get(model + "/" + test);
  const problem = group ? group.problems.findIndex((problem) => problem.id === id.join("/")) : -1;
  return problem < 0 ? null : { group, problem };
}

const rowName = (block, i) => [
  ...(block.policy === null ? [BASE] : [block.task, block.recipe, block.policy, block.seed]),
  block.greedy[i] ? "greedy" : "sampled", block.sample[i],
].join("/");

async function showDetail(state, masks, current) {
  const open = opened(state.open), detail = $("detail");
  if (!open) {
    detail.hidden = true;
    $("panes").classList.remove("open");
    shown.rows = [];
    return;
  }
  const { group, problem } = open, facts = group.problems[problem], mask = problemMask(group, state), rows = [];
  for (const block of blocks.filter((block) => block.group === group && passes(block, state))) {
    eachRow(block, state, group.problems.map((_, number) => number === problem && mask[number]), masks, (i) => rows.push([block, i]));
  }
  // Trained rows first: the comparison is what people come for.
  rows.sort(([a], [b]) => (a.policy === null) - (b.policy === null));
  const at = Math.max(0, rows.findIndex(([block, i]) => rowName(block, i) === state.row));
  const sides = rows.length ? await sidesOf(...rows[at]) : [];
  if (!current()) return;

  const same = detail.dataset.open === state.open, scrolled = detail.scrollTop;
  detail.dataset.open = state.open;
  detail.replaceChildren();
  const top = put(detail, "div", "top"), title = put(top, "h2");
  show(put(title, "bdi"), cut(facts.id, 200));
  const close = put(top, "button", "", "Close");
  Object.assign(close, { type: "button", onclick: () => go({ open: "", row: "" }) });
  const rate = passRate(group, problem);
  const parts = [["model ", group.model], ["test set ", group.test], ["tier ", facts.tier]].filter(([, value]) => value !== null && value !== undefined);
  const line = put(detail, "p", "facts");
  for (const [name, value] of parts) { line.append(name); show(put(line, "bdi"), String(value)); line.append(" · "); }
  line.append(rate === null ? "p̂ unknown" : `p̂ ${rate.toFixed(2)} (${group.correct[problem]} of ${group.samples[problem]} samples of the base model)`);
  put(detail, "h3", "", "Question");
  putText(detail, String(facts.question ?? ""), "question");
  const answer = put(detail, "p", "extracted", "Reference answer: ");
  show(put(answer, "bdi"), String(facts.answer ?? "none"));

  if (rows.length) {
    const walk = put(detail, "div", "pager");
    for (const [text, to] of [["‹ Previous", at - 1], ["Next ›", at + 1]]) {
      const button = put(walk, "button", "", text);
      Object.assign(button, { type: "button", disabled: to < 0 || to >= rows.length, onclick: () => go({ row: rowName(...rows[to]) }, true) });
    }
    put(walk, "span", "", `completion ${count(at + 1)} of ${count(rows.length)} that the filters leave of this problem`);
    const side = put(detail, "div", "side");
    for (const each of sides) showSide(side, each);
    showPairs(detail, rows, at, state);
  } else {
    put(detail, "p", "", "None of its completions passes all filters.");
  }
  detail.hidden = false;
  $("panes").classList.add("open");
  detail.scrollTop = same ? scrolled : 0;
  shown.rows = rows;
  shown.at = at;
}

/** What is shown side by side: the base model's completion and the checkpoint's; the one alone where there is no other. */
async function sidesOf(block, i) {
  const sides = [];
  if (block.policy !== null) {
    const base = block.group.base, pair = block.pair[i];
    sides.push(pair < 0 ? { base: true, missing: block.sample[i] } : await sideOf(base, pair));
  }
  return [...sides, await sideOf(block, i)];
}

async function sideOf(block, i) {
  const texts = await textsOf(block);
  return { block, i, completion: texts.completion[i], extracted: texts.extracted[i] };
}

function verdictOf(block, i) {
  const name = block.correct[i] ? "right" : block.answered[i] ? "wrong" : "none";
  return [name, { right: "correct", wrong: "wrong", none: "no answer" }[name]];
}

function describe(block) {
  const several = (key) => controls.find(([name]) => name === key)[2].length > 1;
  const recipe = several("recipe") ? ", " + block.recipe : "", task = block.task === block.test ? "" : ", trained on " + block.task;
  return block.policy + recipe + task + ", seed " + block.seed;
}

function showSide(parent, side) {
  const box = put(parent, "div"), title = put(box, "h3");
  if (side.missing !== undefined) {
    title.textContent = "Base model";
    put(box, "p", "facts", `There is no sample ${side.missing} of the base model to set beside it.`);
    return;
  }
  const { block, i } = side, [name, text] = verdictOf(block, i);
  box.dataset.side = block.policy === null ? "base" : "checkpoint";
  show(title, block.policy === null ? "Base model" : describe(block) + ", after " + count(block.step) + " updates");
  const line = put(box, "p", "extracted");
  put(line, "span", "verdict " + name, text);
  line.append(" · ");
  if (side.extracted === null) line.append("no answer read");
  else { line.append("answer read: "); show(put(line, "bdi"), cut(side.extracted, 500)); }
  line.append(" · " + (block.greedy[i] ? "greedy" : "sample " + block.sample[i]));
  line.append(" · " + (block.tokens[i] < 0 ? "tokens not recorded" : count(block.tokens[i]) + " tokens"));
  line.append(" · ");
  put(line, "span", block.truncated[i] === 1 ? "cut verdict" : "", { "-1": "end not recorded", 0: "ended by itself", 1: "cut off at the limit" }[block.truncated[i]]);
  if (side.completion === "") put(box, "p", "facts", "The completion is empty.");
  else putText(box, side.completion);
}

function showPairs(parent, rows, at, state) {
  const scroll = put(parent, "div", "scroll"), table = put(scroll, "table", "pairs");
  row(put(table, "thead"), [["completion", "t"], ["decoding", "t"], ["sample"], ["base model", "t"], ["this one", "t"], ["cut off", "t"], ["tokens"]], "th");
  const body = put(table, "tbody");
  let drawn = 0;
  const more = put(parent, "button");
  more.type = "button";
  const draw = (until) => {
    for (const [block, i] of rows.slice(drawn, until)) {
      const line = put(body, "tr", drawn++ === at ? "chosen" : ""), cell = put(line, "td", "t"), link = put(cell, "a");
      link.href = written({ ...state, row: rowName(block, i) });
      show(link, block.policy === null ? "base model" : describe(block));
      put(line, "td", "t", block.greedy[i] ? "greedy" : "sampled");
      put(line, "td", "", block.sample[i]);
      for (const [of, number] of [[block.group.base, block.policy === null ? i : block.pair[i]], [block, i]]) {
        const [name, text] = number < 0 ? ["none", "–"] : verdictOf(of, number);
        put(line, "td", "t verdict " + name, text);
      }
      put(line, "td", "t cut", { "-1": "–", 0: "", 1: "cut off" }[block.truncated[i]]);
      put(line, "td", "", block.tokens[i] < 0 ? "–" : count(block.tokens[i]));
      line.onclick = (event) => { if (!event.target.closest("a") && !getSelection().toString()) go({ row: rowName(block, i) }); };
    }
    more.hidden = drawn >= rows.length;
    more.textContent = `Show ${count(Math.min(PAIRS * 5, rows.length - drawn))} more`;
  };
  more.onclick = () => draw(drawn + PAIRS * 5);
  draw(Math.max(PAIRS, at + 10));
}

// --- keys and start -------------------------------------------------------------------------------------------------

function step(by) {
  const { entries, state } = shown, at = entries.findIndex((entry) => nameOf(entry) === state.open);
  const to = at < 0 ? (shown.page - 1) * PAGE : at + by;
  if (to < 0 || to >= entries.length) return;
  const page = Math.floor(to / PAGE) + 1;
  go({ open: nameOf(entries[to]), row: "", page: page > 1 ? page : "" }, at >= 0);
}

const KEYS = {
  j: () => step(1), k: () => step(-1),
  n: () => shown.at + 1 < shown.rows.length && go({ row: rowName(...shown.rows[shown.at + 1]) }, true),
  p: () => shown.rows.length && shown.at > 0 && go({ row: rowName(...shown.rows[shown.at - 1]) }, true),
  "]": () => shown.page < shown.pages && go({ page: shown.page + 1 }),
  "[": () => shown.page > 1 && go({ page: shown.page > 2 ? shown.page - 1 : "" }),
  "/": () => $("filter-search").focus(),
  "?": () => $("help-button").click(),
  Escape: () => shown.state.open && go({ open: "", row: "" }),
};

function onKey(event) {
  const typing = event.target.closest("input, select, textarea");
  if (typing && event.key === "Escape") { typing.blur(); return; }
  if (typing || event.ctrlKey || event.metaKey || event.altKey || !Object.hasOwn(KEYS, event.key)) return;
  event.preventDefault();
  KEYS[event.key]();
}

async function start() {
  if (typeof DecompressionStream === "undefined") throw new Error("this browser is too old (it cannot unpack the file's data); one from 2023 or later can");
  study = await unpack("index");
  arrange();
  arrangeControls();
  $("help-button").onclick = () => {
    $("help").hidden = !$("help").hidden;
    $("help-button").setAttribute("aria-expanded", String(!$("help").hidden));
  };
  addEventListener("hashchange", () => render().catch(fail));
  addEventListener("keydown", onKey);
  $("main").hidden = false;
  await render();
}

function fail(error) {
  $("status").hidden = false;
  $("status").textContent = "The completions cannot be shown: " + error.message;
}

start().catch(fail);
