"use strict";
// Sort the table by a column: a click on its header, a second click for the other direction.
const number = (text) => {
  const found = text.replaceAll("\u2212", "-").replaceAll("\u202f", "").match(/^[^\d-]*(-?[\d,]*\.?\d+)/);
  return found ? Number(found[1].replaceAll(",", "")) : NaN;
};
for (const table of document.querySelectorAll("table")) {
  const heads = [...table.tHead.rows[0].cells], body = table.tBodies[0];
  heads.forEach((head, column) => {
    const button = head.querySelector("button");
    button.onclick = () => {
      const down = head.ariaSort === "ascending", sign = down ? -1 : 1;
      heads.forEach((other) => other.removeAttribute("aria-sort"));
      head.ariaSort = down ? "descending" : "ascending";
      const rows = [...body.rows].map((row) => [row.cells[column].textContent.trim(), row]);
      const numeric = rows.some(([text]) => /^[+\u2212-]?\d/.test(text));
      rows.sort(([a], [b]) => {
        if (!numeric) return sign * a.localeCompare(b);
        const [x, y] = [number(a), number(b)];
        return isNaN(x) || isNaN(y) ? isNaN(x) - isNaN(y) : sign * (x - y); // unknown values last
      });
      body.append(...rows.map(([, row]) => row));
    };
  });
}
