"use strict";
// Sort a table by the column whose header is clicked; a second click reverses the order.
const number = (text) => {
  const match = text.replaceAll("\u2212", "-").replaceAll("\u202f", "").match(/^[^\d-]*(-?[\d,]*\.?\d+)/);
  return match ? Number(match[1].replaceAll(",", "")) : NaN;
};
for (const table of document.querySelectorAll("table")) {
  const heads = [...table.tHead.rows[0].cells], body = table.tBodies[0];
  heads.forEach((head, column) => {
    const button = head.querySelector("button");
    button.onclick = () => {
      const down = head.ariaSort === "ascending", sign = down ? -1 : 1;
      heads.forEach((cell) => cell.removeAttribute("aria-sort"));
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
