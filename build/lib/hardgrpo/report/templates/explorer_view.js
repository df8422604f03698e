// --- what is shown --------------------------------------------------------------------------------------------------

let shown = { entries: [], rows: [] }, turn = 0;

async function render() {
  const mine = ++turn, state = dropUnknown(read());
  const masks = await search(state, () => mine === turn);
  if (mine !== turn) return;
  for (const key of [...controls.map(([key]) => key), "search", "in"]) {
    const control = $("filter-" + key), value = state[key] ?? "";
    if (control.value !== value && !(key === "search" && document.activeElement === control)) control.value = value;
    control.classList.toggle("set", value !== "");
  }
  const set = document.querySelectorAll("#filters .set").length;
  $("set-filters").textContent = set ? `(${set} set)` : "";
  const chosen = choose(state, masks);
  shown = { ...shown, entries: chosen.entries, state, masks };
  showSummary(chosen.policies);
  showList(state, chosen.entries);
  await showDetail(state, masks, () => mine === turn);
  if (mine !== turn) return;
  $("status").hidden = true;
  document.documentElement.dataset.ready = location.hash; // for tests: this address is shown completely
}

function row(parent, cells, tag = "td") {
  const line = put(parent, "tr");
  for (const [text, name] of cells) show(put(line, tag, name), text);
  return line;
}

/** Call `open` at a click on a line, unless the click is on a link or ends a selection of text. */
function onLine(line, open) {
  line.onclick = (event) => { if (!event.target.closest("a") && !getSelection().toString()) open(); };
}

function showSummary(policies) {
  const table = $("summary"), total = tally();
  table.replaceChildren();
  const names = ["completions", "correct", "base correct, same samples", "wrong → right", "right → wrong", "no answer", "cut off"];
  row(put(table, "thead"), [["policy", "t"], ...names.map((name) => [name])], "th");
  const body = put(table, "tbody");
  const line = (name, sum) => row(body, [
    [name, "t"], [count(sum.rows)], [percent(sum.correct, sum.rows)], [percent(sum.before, sum.pairs)],
    [sum.pairs ? count(sum.up) : "–"], [sum.pairs ? count(sum.down) : "–"],
    [percent(sum.rows - sum.answered, sum.rows)], [percent(sum.cut, sum.limitKnown)],
  ]);
  for (const [policy, sum] of policies) {
    if (!sum.rows) continue;
    line(policy === BASE ? "base model" : policy, sum).dataset.policy = policy;
    for (const key in total) total[key] += sum[key];
  }
  line("all completions that pass the filters", total).className = "total";
}

function showList(state, entries) {
  const pages = Math.max(1, Math.ceil(entries.length / PAGE));
  const page = Math.min(Math.max(1, parseInt(state.page ?? 1, 10) || 1), pages), pager = $("pager");
  shown.page = page;
  shown.pages = pages;
  pager.replaceChildren();
  put(pager, "b", "", count(entries.length) + (entries.length === 1 ? " problem" : " problems"));
  if (pages > 1) {
    putPager(pager, page - 1, pages, (to) => go({ page: to ? to + 1 : "" }));
    put(pager, "span", "", `page ${page} of ${pages}`);
  }
  const table = $("problems"), many = new Set(entries.map((entry) => entry.group.name)).size > 1;
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
    link.href = addressOf({ ...state, open: nameOf(entry), row: "" });
    show(put(link, "bdi"), cut(problem.id, 120));
    if (many || tests) put(name, "span", "narrow", [many && group.name, tests && group.test].filter(Boolean).join(", "));
    show(put(put(name, "small"), "bdi"), cut(String(problem.question ?? ""), 220));
    if (many) put(line, "td", "t wide", group.name);
    put(line, "td", "t wide", group.test);
    show(put(line, "td"), String(problem.tier ?? "–"));
    const rate = put(line, "td", "", entry.rate === null ? "–" : entry.rate.toFixed(2));
    rate.title = `${group.correct[entry.problem]} of ${group.samples[entry.problem]} samples of the base model are correct`;
    put(line, "td", "", count(entry.rows));
    put(line, "td", "", percent(entry.correct, entry.rows));
    put(line, "td", "wide", entry.pairs ? count(entry.up) : "–");
    put(line, "td", "wide", entry.pairs ? count(entry.down) : "–");
    onLine(line, () => { location.hash = link.getAttribute("href"); });
    if (nameOf(entry) === state.open) {
      line.className = "chosen";
      link.setAttribute("aria-current", "true");
    }
  }
  if (!entries.length) put(put(body, "tr"), "td", "t", "No completion passes all filters.").colSpan = heads.length;
}

const nameOf = (entry) => [entry.group.name, entry.group.test, entry.group.problems[entry.problem].id].join("/");

/** The problem that a link opens, even if it does not pass the filters: {group, problem}. */
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
  // Rows of checkpoints come first, because the base model's completion is shown beside each of them.
  rows.sort(([a], [b]) => (a.policy === null) - (b.policy === null));
  const at = Math.max(0, rows.findIndex(([block, i]) => rowName(block, i) === state.row));
  const sides = rows.length ? await sidesOf(...rows[at]) : [];
  if (!current()) return;

  const same = detail.dataset.open === state.open, scrolled = detail.scrollTop;
  detail.dataset.open = state.open;
  detail.replaceChildren();
  const top = put(detail, "div", "top"), title = put(top, "h2");
  show(put(title, "bdi"), cut(facts.id, 200));
  putButton(top, "Close", () => go({ open: "", row: "" }));
  const rate = passRate(group, problem);
  const parts = [["model ", group.name], ["test set ", group.test], ["tier ", facts.tier]].filter(([, value]) => value !== null && value !== undefined);
  const line = put(detail, "p", "facts");
  for (const [name, value] of parts) { line.append(name); show(put(line, "bdi"), String(value)); line.append(" · "); }
  line.append(rate === null ? "p̂ unknown" : `p̂ ${rate.toFixed(2)} (${group.correct[problem]} of ${group.samples[problem]} samples of the base model)`);
  put(detail, "h3", "", "Question");
  putText(detail, String(facts.question ?? ""), "question");
  const answer = put(detail, "p", "extracted", "Reference answer: ");
  show(put(answer, "bdi"), String(facts.answer ?? "none"));

  if (rows.length) {
    const walk = put(detail, "div", "pager");
    putPager(walk, at, rows.length, (to) => go({ row: rowName(...rows[to]) }, true));
    put(walk, "span", "", `completion ${count(at + 1)} of ${count(rows.length)} of this problem that pass the filters`);
    const side = put(detail, "div", "side");
    for (const each of sides) showSide(side, each);
    showPairs(detail, rows, at, state);
  } else {
    put(detail, "p", "", "No completion of this problem passes all filters.");
  }
  detail.hidden = false;
  $("panes").classList.add("open");
  detail.scrollTop = same ? scrolled : 0;
  shown.rows = rows;
  shown.at = at;
}

/** The completions to show side by side: of the base model and of the checkpoint, or only of the base model. */
async function sidesOf(block, i) {
  const sides = [];
  if (block.policy !== null) {
    const base = block.group.base, pair = block.pair[i];
    sides.push(pair < 0 ? { base: true, missing: block.sample[i] } : await sideOf(base, pair));
  }
  sides.push(await sideOf(block, i));
  if (sides.length === 2 && sides[0].completion) {
    const words = compare(sides[0].completion, sides[1].completion);
    sides.forEach((side, number) => { side.words = words[number]; });
  }
  return sides;
}

async function sideOf(block, i) {
  const texts = await textsOf(block);
  return { block, i, completion: texts.completion[i], extracted: texts.extracted[i] };
}

function gradeOf(block, i) {
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
    put(box, "p", "facts", `The base model has no sample ${side.missing} to compare with.`);
    return;
  }
  const { block, i } = side, [name, text] = gradeOf(block, i);
  box.dataset.side = block.policy === null ? "base" : "checkpoint";
  show(title, block.policy === null ? "Base model" : describe(block) + ", after " + count(block.step) + " updates");
  const line = put(box, "p", "extracted");
  put(line, "span", "grade " + name, text);
  line.append(" · ");
  if (side.extracted === null) line.append("no answer read");
  else { line.append("answer read: "); show(put(line, "bdi"), cut(side.extracted, 500)); }
  line.append(" · " + (block.greedy[i] ? "greedy" : "sample " + block.sample[i]));
  line.append(" · " + (block.tokens[i] < 0 ? "tokens not recorded" : count(block.tokens[i]) + " tokens"));
  line.append(" · ");
  put(line, "span", block.truncated[i] === 1 ? "cut grade" : "", { "-1": "end not recorded", 0: "ended by itself", 1: "cut off at the limit" }[block.truncated[i]]);
  if (side.completion === "") put(box, "p", "facts", "The completion is empty.");
  else putText(box, side.completion, "", side.words);
}

function showPairs(parent, rows, at, state) {
  const scroll = put(parent, "div", "scroll"), table = put(scroll, "table", "pairs");
  row(put(table, "thead"), [["completion", "t"], ["decoding", "t"], ["sample"], ["base model's grade", "t"], ["grade", "t"], ["cut off", "t"], ["tokens"]], "th");
  const body = put(table, "tbody");
  let drawn = 0;
  const more = putButton(parent, "", () => draw(drawn + PAIRS * 5));
  const draw = (until) => {
    for (const [block, i] of rows.slice(drawn, until)) {
      const line = put(body, "tr", drawn++ === at ? "chosen" : ""), cell = put(line, "td", "t"), link = put(cell, "a");
      link.href = addressOf({ ...state, row: rowName(block, i) });
      show(link, block.policy === null ? "base model" : describe(block));
      put(line, "td", "t", block.greedy[i] ? "greedy" : "sampled");
      put(line, "td", "", block.sample[i]);
      for (const [of, number] of [[block.group.base, block.policy === null ? i : block.pair[i]], [block, i]]) {
        const [name, text] = number < 0 ? ["none", "–"] : gradeOf(of, number);
        put(line, "td", "t grade " + name, text);
      }
      put(line, "td", "t cut", { "-1": "–", 0: "", 1: "cut off" }[block.truncated[i]]);
      put(line, "td", "", block.tokens[i] < 0 ? "–" : count(block.tokens[i]));
      onLine(line, () => go({ row: rowName(block, i) }));
    }
    more.hidden = drawn >= rows.length;
    more.textContent = `Show ${count(Math.min(PAIRS * 5, rows.length - drawn))} more`;
  };
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
  if (typeof DecompressionStream === "undefined") throw new Error("this browser cannot unpack the file's data; use a browser from 2023 or later");
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
