// The page of an explained kernel: tables that sort, accesses to choose, sliders.
"use strict";

const data = (id) => JSON.parse(document.getElementById(id).textContent);

// A click on a header sorts by it, largest first; another turns it around.
document.querySelectorAll("table.sortable").forEach((table) => {
  const body = table.tBodies[0], heads = [...table.tHead.rows[0].cells];
  heads.forEach((head, column) => {
    const button = head.querySelector("button");
    if (!button) return;
    button.addEventListener("click", () => {
      const falls = head.getAttribute("aria-sort") !== "descending";
      heads.forEach((other) => other.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", falls ? "descending" : "ascending");
      const key = (row) => {
        const text = row.cells[column].dataset.key;
        return Number.isNaN(Number(text)) ? text : Number(text);
      };
      const rows = [...body.rows].sort((a, b) => (key(a) < key(b) ? -1 : key(a) > key(b) ? 1 : 0));
      body.append(...(falls ? rows.reverse() : rows));
    });
  });
});

const accesses = data("accesses"), heat = document.getElementById("heat");
if (accesses.length) {
  const choice = heat.querySelector("select");
  accesses.forEach((access, number) => {
    const place = `${access.file ?? "PTX"}:${access.line || access.ptx_line}`;
    choice.append(new Option(`${place}, ${named(access)}`, number));
  });
  const show = () => heatMap(heat.querySelector("table"), heat.querySelector("p"),
    accesses[choice.value]);
  choice.addEventListener("change", show);
  choice.value = document.querySelector("button[data-access]")?.dataset.access ?? 0;
  show();
  document.querySelectorAll("button[data-access]").forEach((button) => {
    button.addEventListener("click", () => {
      choice.value = button.dataset.access;
      show();
      heat.scrollIntoView({ block: "nearest" });
    });
  });
}

whatIf(document.getElementById("occupancy"), data("limits"));
