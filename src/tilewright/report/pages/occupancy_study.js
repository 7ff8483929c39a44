// One point of the curve at a time: a slider chooses it, the table marks it.
"use strict";
{
  const points = JSON.parse(document.getElementById("points").textContent);
  const slider = document.getElementById("which");
  const list = document.querySelector("#point dl");
  const rows = document.querySelectorAll("table.plain tbody tr");

  function show() {
    const at = Number(slider.value);
    slider.setAttribute("aria-valuetext", `${points[at].warps} warps`);
    list.replaceChildren();
    for (const [name, text] of Object.entries(points[at].lines)) {
      const term = document.createElement("dt");
      const told = document.createElement("dd");
      term.textContent = name;
      told.textContent = text;
      list.append(term, told);
    }
    rows.forEach((row, place) => row.classList.toggle("chosen", place === at));
  }

  slider.addEventListener("input", show);
  show();
}
