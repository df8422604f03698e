"use strict";
// Shows the completions that have all chosen values, and the problems that have such completions. Completions of base models are always
// shown beside them.
const filters = [...document.querySelectorAll("select")];

function show() {
  let problems = 0;
  const chosen = filters.filter((filter) => filter.value);
  for (const problem of document.querySelectorAll("details")) {
    const completions = [...problem.querySelectorAll("[data-change]")];
    for (const completion of completions)
      completion.hidden = !chosen.every(({ name, value }) => completion.dataset[name] === value);
    problem.hidden = chosen.length > 0 && completions.every((completion) => completion.hidden);
    problems += !problem.hidden;
  }
  document.querySelector("output").textContent = `${problems} problems`;
}

for (const filter of filters) filter.onchange = show;
show(); // a browser may restore the filters of an earlier visit
