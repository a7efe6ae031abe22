/* Sorts a table by the column whose head is chosen, and copies it or saves it as CSV: numbers in the unit of their head,
   each with the ends of its interval where it has one. */
(function () {
  const cells = (row) => Array.from(row.cells);
  const value = (cell) => cell?.dataset.value === undefined ? NaN : Number(cell.dataset.value);

  function sort(head) {
    const place = head.cellIndex;
    const down = head.getAttribute("aria-sort") === "ascending";
    const body = head.closest("table").tBodies[0];
    const order = (one, other) => {
      const [a, b] = [one.cells[place], other.cells[place]];
      const gap = value(a) - value(b);
      if (!Number.isNaN(gap)) return gap;
      const known = Number.isNaN(value(b)) - Number.isNaN(value(a)); // numbers stand before words
      return known ? -known * (down ? -1 : 1) : a.textContent.localeCompare(b.textContent, undefined, { numeric: true });
    };
    body.append(...Array.from(body.rows).sort((one, other) => (down ? -1 : 1) * order(one, other)));
    for (const one of cells(head.parentNode)) one.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", down ? "descending" : "ascending");
  }

  /** Rows of strings, with the columns that only some cells have. */
  function rows(table) {
    const [body, heads] = [Array.from(table.tBodies[0].rows), cells(table.tHead.rows[0])];
    const ends = heads.map((_, place) => body.some((row) => row.cells[place]?.dataset.low !== undefined));
    const named = heads.flatMap((head, place) => {
      const name = head.textContent.trim() + (head.dataset.unit ? ` (${head.dataset.unit})` : "");
      return ends[place] ? [name, "low", "high"] : [name];
    });
    const filled = body.map((row) => cells(row).flatMap((cell, place) => {
      const shown = cell.dataset.value ?? (cell.firstChild?.textContent.trim() || "").replace(/^–$/, "");
      return ends[place] ? [shown, cell.dataset.low ?? "", cell.dataset.high ?? ""] : [shown];
    }));
    return [named, ...filled];
  }

  const quoted = (text) => /[",\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;

  function save(table) {
    const link = document.createElement("a");
    const text = rows(table).map((row) => row.map(quoted).join(",")).join("\r\n") + "\r\n";
    link.href = URL.createObjectURL(new Blob([text], { type: "text/csv" }));
    link.download = `${document.title.replace(/[^\w-]+/g, "-")}.csv`;
    link.click();
    URL.revokeObjectURL(link.href);
  }

  async function copy(button, table) {
    await navigator.clipboard.writeText(rows(table).map((row) => row.join("\t")).join("\n"));
    button.textContent = "copied";
    setTimeout(() => { button.textContent = "copy"; }, 1500);
  }

  document.addEventListener("click", ({ target }) => {
    const head = target.closest(".sortable thead th");
    if (head) sort(head);
    const button = target.closest("button[data-table]");
    if (!button) return;
    const table = button.closest(".tabled").querySelector("table");
    if (button.dataset.table === "csv") save(table);
    else copy(button, table);
  });
  document.addEventListener("keydown", (event) => {
    const head = event.key === "Enter" && event.target.closest(".sortable thead th");
    if (head) sort(head);
  });
})();
