"use strict";
// The explorer's script, in three files (data, selection, view) that are joined. The address after # is the only state: controls
// write the address, and `render` reads it. Texts of models and datasets become text nodes (`put`, `show`), never markup.

const PAGE = 100, PAIRS = 100, LONGEST = 20000; // problems on a page; rows of a problem shown at first; characters of a text shown at first
const CACHED = 4e7; // blocks are cached unpacked up to this sum of packed characters; the last two blocks are always cached
const MOST_COMPARED = 4e6; // pairs of words; if there are more, all words between the equal beginning and the equal end are marked
const BASE = "(base)"; // the untrained model in place of a policy; no policy has this name
const $ = (id) => document.getElementById(id);
const count = (n) => n.toLocaleString("en");
const percent = (part, whole) => (whole ? (100 * part / whole).toFixed(1) + " %" : "–");

// --- the data -------------------------------------------------------------------------------------------------------

let study, blocks, groups; // a group: a base model and a test, with the test's problems and the base model's rows

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
    const key = block.base + "/" + block.test, problems = study.tests[block.test];
    if (!groups.has(key)) groups.set(key, { key, model: block.model, name: block.base, test: block.test, problems });
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
  for (const block of blocks) { // the base model's row with the same problem, decoding and sample; -1 if there is none
    block.pair = Int32Array.from(block.problem, (_, row) =>
      block.policy === null ? -1 : block.group.rows.get(pairKey(block, row)) ?? -1);
  }
}

const pairKey = (block, row) => (block.problem[row] * 1e6 + block.sample[row]) * 2 + block.greedy[row];
const passRate = (group, problem) => group.samples[problem] ? group.correct[problem] / group.samples[problem] : null;

const cache = new Map(); // {block: unpacked texts}, in the order of their last use
function textsOf(block) {
  const texts = cache.get(block) ?? unpack("texts-" + block.number);
  cache.delete(block);
  cache.set(block, texts);
  const sizeOf = (cached) => $("texts-" + cached.number).textContent.length;
  let size = 0;
  for (const cached of cache.keys()) size += sizeOf(cached);
  for (const cached of [...cache.keys()].slice(0, -2)) {
    if (size <= CACHED) break;
    size -= sizeOf(cached);
    cache.delete(cached);
  }
  return texts;
}

// --- untrusted text -------------------------------------------------------------------------------------------------

// Characters that are invisible or rearrange text: controls, formats (bidi, zero width), lone surrogates, private-use and unassigned
// characters, line separators, blank letters, variation selectors.
const UNSEEN = /((?![\n\t])[\p{Cc}\p{Cf}\p{Cs}\p{Co}\p{Cn}\p{Zl}\p{Zp}\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0\ufe00-\ufe0f\u{e0100}-\u{e01ef}])\1*/gu;

/** Append a text to an element, with a mark in place of each invisible character. */
function show(parent, text) {
  let end = 0;
  for (const match of text.matchAll(UNSEEN)) {
    parent.append(text.slice(end, match.index));
    const code = match[1].codePointAt(0), times = match[0].length / match[1].length;
    const name = code >= 0xdc80 && code <= 0xdcff ? "byte " + hex(code - 0xdc00, 2) : "U+" + hex(code, 4);
    put(parent, "span", "mark", "‹" + name + (times > 1 ? " ×" + count(times) : "") + "›");
    end = match.index + match[0].length;
  }
  parent.append(text.slice(end));
  return parent;
}

const hex = (number, digits) => number.toString(16).toUpperCase().padStart(digits, "0");

/** The first characters of a text; a pair of surrogates is never split. */
function cut(text, length) {
  const pair = /[\ud800-\udbff]/.test(text.charAt(length - 1)) && /[\udc00-\udfff]/.test(text.charAt(length));
  return text.length <= length ? text : text.slice(0, pair ? length - 1 : length);
}

/** Append an element with a class and a text that this script wrote; `show` appends other texts. */
function put(parent, tag, name, text) {
  const element = document.createElement(tag);
  if (name) element.className = name;
  if (text !== undefined) element.textContent = text;
  parent.append(element);
  return element;
}

function putButton(parent, text, onclick, more = {}) {
  return Object.assign(put(parent, "button", "", text), { type: "button", onclick, ...more });
}

/** Append the buttons ‹ Previous and Next › for entry `at` (from 0) of `many`; `to(i)` opens entry i. */
function putPager(parent, at, many, to) {
  for (const [text, next] of [["‹ Previous", at - 1], ["Next ›", at + 1]]) {
    putButton(parent, text, () => to(next), { disabled: next < 0 || next >= many });
  }
}

function putText(parent, text, name = "", words = null) {
  const box = put(parent, "pre", "text " + name);
  if (words && text.length <= LONGEST) {
    for (const [word, differs] of words) show(differs ? put(box, "mark", "differs") : box, word);
    return;
  }
  show(box, cut(text, LONGEST));
  if (text.length <= LONGEST) return;
  const button = putButton(parent, "Show all " + count(text.length) + " characters", () => {
    box.replaceChildren();
    show(box, text);
    button.remove();
  });
}

/** Two texts as lists of [word, whether the word differs]. A word differs if it is not in a longest common subsequence. */
function compare(first, second) {
  const texts = [first, second].map((text) => text.match(/\s+|\S+/g) ?? []), [a, b] = texts;
  let begin = 0, end = 0;
  while (begin < Math.min(a.length, b.length) && a[begin] === b[begin]) begin++;
  while (end < Math.min(a.length, b.length) - begin && a[a.length - 1 - end] === b[b.length - 1 - end]) end++;
  const n = a.length - begin - end, m = b.length - begin - end, common = [new Set(), new Set()];
  if (n * m <= MOST_COMPARED) {
    const longest = Array.from({ length: n + 1 }, () => new Uint32Array(m + 1));
    for (let i = n - 1; i >= 0; i--) {
      for (let j = m - 1; j >= 0; j--) {
        longest[i][j] = a[begin + i] === b[begin + j] ? longest[i + 1][j + 1] + 1 : Math.max(longest[i + 1][j], longest[i][j + 1]);
      }
    }
    for (let i = 0, j = 0; i < n && j < m;) {
      if (a[begin + i] === b[begin + j]) { common[0].add(begin + i++); common[1].add(begin + j++); }
      else if (longest[i + 1][j] >= longest[i][j + 1]) i++;
      else j++;
    }
  }
  return texts.map((words, side) => words.map((word, place) =>
    [word, place >= begin && place < words.length - end && !common[side].has(place) && /\S/.test(word)]));
}
