"use strict";
// Tables marked data-sort can be ordered by any column: a button in each heading, aria-sort beside it.
for (const table of document.querySelectorAll("table[data-sort]")) {
  const body = table.tBodies[0];
  const heads = [...table.tHead.rows[0].cells];
  const value = (row, column) => {
    const cell = row.cells[column];
    const given = cell.dataset.v;
    if (given === undefined) return cell.textContent.trim().toLowerCase();
    return given === "" ? null : Number(given);
  };
  heads.forEach((head, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = head.textContent;
    head.replaceChildren(button);
    button.addEventListener("click", () => {
      const numeric = head.classList.contains("num") && head.textContent !== "#";
      const before = head.getAttribute("aria-sort");
      const down = before ? before === "ascending" : numeric;
      heads.forEach((other) => other.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      const rows = [...body.rows].map((row) => [value(row, column), row]);
      rows.sort(([a], [b]) => {
        if (a === null || b === null) return (a === null) - (b === null); // unknown is last either way
        const order = typeof a === "number" ? a - b : a < b ? -1 : a > b ? 1 : 0;
        return down ? -order : order;
      });
      body.replaceChildren(...rows.map(([, row]) => row));
    });
  });
}
