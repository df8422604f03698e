// --- the selection --------------------------------------------------------------------------------------------------

const PASS = { // by pass rate
  zero: ["0", (p) => p === 0], low: ["above 0, up to ¼", (p) => p > 0 && p <= 0.25],
  middle: ["between ¼ and ¾", (p) => p > 0.25 && p < 0.75], high: ["¾ and more, below 1", (p) => p >= 0.75 && p < 1],
  one: ["1", (p) => p === 1],
};
const GRADES = {
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
const optionsOf = (table) => Object.entries(table).map(([value, [name]]) => [value, name]);
const numbersFirst = (a, b) => a - b || (isNaN(a) - isNaN(b)) || (a < b ? -1 : a > b ? 1 : 0);

let isSampled; // whether any completion is sampled; if so, the default is to show only sampled completions
function decodings() {
  isSampled = blocks.some((block) => block.greedy.some((greedy) => !greedy));
  return [["greedy", "greedy"], ...(isSampled ? [["all", "sampled and greedy"]] : [])];
}

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
    ["p", "p̂ of the base model", optionsOf(PASS)],
    ["decoding", "decoding", decodings()],
    ["grade", "grade", optionsOf(GRADES)],
    ["change", "change from the base model", optionsOf(CHANGES)],
    ["sort", "order", optionsOf(SORTS)],
  ];
  const form = $("filters"), narrow = matchMedia("(max-width: 700px)");
  const fold = () => { $("fold").open = !narrow.matches; };
  narrow.addEventListener("change", fold);
  fold();
  for (const [key, name, options] of controls) {
    const label = put(form, "label", "", name), select = put(label, "select");
    select.id = "filter-" + key;
    const unset = { sort: "as in the test set", decoding: isSampled ? "sampled" : "sampled and greedy" };
    put(select, "option", "", unset[key] ?? "any").value = "";
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
  for (const [value, text] of [["", "questions and answers"], ["completions", "completions"]]) put(where, "option", "", text).value = value;
  Object.assign(where, { id: "filter-in", onchange: () => go({ in: where.value, page: "" }) });
  putButton(form, "Clear", () => { clearTimeout(waiting); location.hash = ""; }, { id: "clear" });
  form.onsubmit = (event) => event.preventDefault();
}

const read = () => Object.fromEntries(new URLSearchParams(location.hash.slice(1)));

function addressOf(state) {
  const parts = Object.entries(state).filter(([, value]) => value !== "" && value !== undefined && value !== null);
  return "#" + new URLSearchParams(parts).toString();
}

/** Change the selection; `quietly` adds no entry to the history of the browser. */
function go(changes, quietly = false) {
  const address = addressOf({ ...read(), ...changes });
  if (quietly) location.replace(address);
  else location.hash = address;
}

/** The decoding to show: 0 sampled, 1 greedy, undefined both. A link to a greedy completion shows both. */
function decodingOf(state) {
  if (state.decoding === "greedy") return 1;
  const both = state.decoding === "all" || !isSampled || (state.row ?? "").includes("/greedy/");
  return both ? undefined : 0;
}

/** Remove from the state the parts of a link that this study does not have, and report them. */
function dropUnknown(state) {
  if (state.decoding === "sampled" && isSampled) delete state.decoding; // the default
  const unknown = controls.filter(([key, , options]) => state[key] && !options.some(([value]) => value === state[key]));
  $("notice").hidden = !unknown.length;
  $("notice").replaceChildren();
  for (const [key, name] of unknown) {
    show(put($("notice"), "bdi"), "The link asks for " + name + " “" + cut(state[key], 100) + "”, which this study does not have. ");
    delete state[key];
  }
  return state;
}

let lastSearch = { text: "", masks: new Map() };
/** {block: whether each completion contains the searched text}; null without a search in completions. */
async function search(state, current) {
  if (!state.search || state.in !== "completions") return null;
  const text = state.search.toLowerCase();
  if (lastSearch.text !== text) lastSearch = { text, masks: new Map() };
  const { masks } = lastSearch, unsearched = blocks.filter((block) => passes(block, state) && !masks.has(block));
  for (const [i, block] of unsearched.entries()) {
    $("status").hidden = false;
    $("status").textContent = `Searching the completions: ${i} of ${unsearched.length} files …`;
    const { completion } = await textsOf(block);
    if (!current()) return null;
    masks.set(block, Uint8Array.from(completion, (words) => words.toLowerCase().includes(text)));
  }
  return masks;
}

const passes = (block, state) =>
  ["model", "test", "task", "recipe", "seed"].every((key) => !state[key] || state[key] === String(block[key])) &&
  (!state.policy || state.policy === (block.policy ?? BASE));

/** Whether each problem of a group passes the filters on problems. */
function problemMask(group, state) {
  const text = state.search && state.in !== "completions" ? state.search.toLowerCase() : "";
  return group.problems.map((problem, number) =>
    (!state.tier || state.tier === String(problem.tier)) && (!state.p || PASS[state.p][1](passRate(group, number))) &&
    (!text || [problem.id, problem.question, problem.answer].some((part) => String(part ?? "").toLowerCase().includes(text))));
}

/** Call `each` with the index of each of the block's rows that pass the filters. */
function eachRow(block, state, mask, masks, each) {
  const greedy = decodingOf(state), matches = masks?.get(block);
  const grade = GRADES[state.grade]?.[1], change = CHANGES[state.change]?.[1];
  for (let i = 0; i < block.problem.length; i++) {
    if (!mask[block.problem[i]] || (greedy !== undefined && greedy !== block.greedy[i]) || (matches && !matches[i])) continue;
    if ((grade && !grade(block, i)) || (change && !change(block, i))) continue;
    each(i);
  }
}

const tally = () => ({ rows: 0, correct: 0, answered: 0, cut: 0, limitKnown: 0, pairs: 0, before: 0, up: 0, down: 0 });

/** {entries: problems with rows that pass the filters, policies: sums of these rows by policy}. */
function choose(state, masks) {
  const entries = [], policies = new Map();
  for (const group of groups.values()) {
    const mask = problemMask(group, state), groupEntries = new Map(); // by problem
    for (const block of blocks.filter((block) => block.group === group && passes(block, state))) {
      const policy = block.policy ?? BASE;
      if (!policies.has(policy)) policies.set(policy, tally());
      const sum = policies.get(policy);
      eachRow(block, state, mask, masks, (i) => {
        const problem = block.problem[i];
        let entry = groupEntries.get(problem);
        if (!entry) groupEntries.set(problem, entry = { group, problem, rate: passRate(group, problem), ...tally() });
        for (const total of [sum, entry]) {
          total.rows++;
          total.correct += block.correct[i];
          total.answered += block.answered[i];
          total.cut += block.truncated[i] === 1;
          total.limitKnown += block.truncated[i] >= 0;
          if (block.pair[i] < 0) continue;
          total.pairs++;
          total.before += before(block, i);
          total.up += !before(block, i) && block.correct[i] ? 1 : 0;
          total.down += before(block, i) && !block.correct[i] ? 1 : 0;
        }
      });
    }
    entries.push(...[...groupEntries.values()].sort((a, b) => a.problem - b.problem));
  }
  if (state.sort) entries.sort(SORTS[state.sort][1]);
  return { entries, policies };
}
