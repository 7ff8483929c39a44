// Where a matmul tile lives: one block of a rung, stepped along k and between barriers.
//
//   tileFigure(element, data)    data: TileFigure.to_json() of bench/tile_figure.py
//
// It goes with tile_model.js, tile_pictures.js and tile_figure.css.
"use strict";

function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name in element && typeof value !== "string") element[name] = value;
    else element.setAttribute(name, value);
  }
  element.append(...children);
  return element;
}

// A frame that scrolls what is wider than it, by keyboard too.
function scroller(label, child) {
  return make("div", { class: "tf-scroll", tabindex: "0", role: "region", "aria-label": label }, child);
}

class TileView extends TilePictures {
  constructor(root, data) {
    super();
    this.root = root;
    this.model = new TileModel(data);
    this.data = data;
    this.moment = 0;
    this.chosen = 0;  // the thread that stays
    this.pointed = null;  // the thread under the pointer
    this.byWarp = false;  // colours tell warps apart, not operands
    this.build();
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.draw());
    new ResizeObserver(() => this.resized()).observe(root);
  }

  get thread() { return this.pointed ?? this.chosen; }

  // --- what is on the page ----------------------------------------------------------------------

  build() {
    const last = this.data.moments.length - 1;
    const button = (text, label, act) => {
      const made = make("button", { type: "button", "aria-label": label, title: label }, text);
      made.addEventListener("click", act);
      return made;
    };
    this.slider = make("input", { type: "range", min: "0", max: `${last}`, value: "0",
      "aria-label": "Moment" });
    this.slider.addEventListener("input", () => this.go(Number(this.slider.value)));
    this.number = make("input", { type: "number", min: "0", max: `${this.data.threads - 1}`,
      value: "0", "aria-label": "Thread" });
    this.number.addEventListener("input", () => this.choose(Number(this.number.value)));
    this.warps = make("input", { type: "checkbox" });
    this.warps.addEventListener("change", () => {
      this.byWarp = this.warps.checked;
      this.draw();
    });
    this.title = make("p", { class: "tf-title" });
    this.says = make("p", { class: "tf-says", role: "status", "aria-live": "polite" });
    this.who = make("span", { class: "tf-who" });
    this.canvas = make("canvas", { tabindex: "0", role: "img" });
    this.map = make("canvas", { tabindex: "0", role: "img" });
    this.bank = make("canvas", { role: "img" });
    this.places = make("table", { class: "tf-places" });
    this.sums = make("div", { class: "tf-sums" });
    this.list = make("table", { class: "tf-list", "aria-label": "Accesses of the warp" });
    this.sumsSay = make("p", { class: "tf-head" });
    this.listSay = make("p", { class: "tf-head" });
    const bar = make("div", { class: "tf-bar" },
      button("|◀", "Previous barrier", () => this.go(this.barrier(-1))),
      button("◀", "Previous step", () => this.go(this.moment - 1)),
      this.slider,
      button("▶", "Next step", () => this.go(this.moment + 1)),
      button("▶|", "Next barrier", () => this.go(this.barrier(1))));
    const shared = make("section", { class: "tf-shared" },
      make("h4", {}, "Shared memory, by bank"), this.bank);
    shared.hidden = !this.data.shared_bytes;
    this.root.classList.add("tf");
    this.root.replaceChildren(bar, this.title,
      make("div", { class: "tf-main" },
        make("section", { class: "tf-matrices" }, this.canvas, this.legend(), this.sumsSay,
          scroller("Sums", this.sums)),
        make("section", { class: "tf-side" },
          make("p", { class: "tf-pick" }, make("label", {}, "Thread ", this.number), " ", this.who,
            make("label", { class: "tf-by" }, this.warps, " a colour a warp: who moves, who owns")),
          this.map, this.says, this.places, shared)),
      this.listSay, scroller("Accesses", this.list));
    this.listen();
  }

  legend() {
    const item = (level, text) => make("li", {}, make("span", { class: `tf-key tf-${level}` }), text);
    return make("ul", { class: "tf-legend" },
      item("band", "needed by the block"), item("tile", "its tile now"),
      item("block", "touched now by the block"), item("warp", "by the warp"),
      item("thread", "by the thread"), item("frame", "what the warp owns"));
  }

  listen() {
    this.root.addEventListener("keydown", (event) => this.key(event));
    this.canvas.addEventListener("pointermove", (event) => this.point(this.under(event)));
    this.map.addEventListener("pointermove", (event) => this.point(this.cell(event)));
    for (const canvas of [this.canvas, this.map]) {
      canvas.addEventListener("pointerleave", () => this.point(null));
      canvas.addEventListener("click", () => {
        if (this.pointed !== null) this.choose(this.pointed);
      });
    }
  }

  key(event) {
    const { target } = event, wide = target.classList.contains("tf-scroll")
      && target.scrollWidth > target.clientWidth && /Left|Right/.test(event.key);
    const itself = target === this.slider || wide;
    if (itself && event.key.startsWith("Arrow") && !event.shiftKey) return;
    if (event.target === this.number && !event.key.startsWith("Page")) return;
    const last = this.data.moments.length - 1, across = event.shiftKey ? WARP : 1;
    const act = {
      ArrowRight: () => this.go(event.shiftKey ? this.barrier(1) : this.moment + 1),
      ArrowLeft: () => this.go(event.shiftKey ? this.barrier(-1) : this.moment - 1),
      PageDown: () => this.go(this.barrier(1)),
      PageUp: () => this.go(this.barrier(-1)),
      Home: () => this.go(0),
      End: () => this.go(last),
      ArrowDown: () => this.choose(this.chosen + across),
      ArrowUp: () => this.choose(this.chosen - across),
    }[event.key];
    if (!act || event.ctrlKey || event.altKey || event.metaKey) return;
    event.preventDefault();
    act();
  }

  // The moment after the next barrier, or the one after the barrier before.
  barrier(way) {
    let found = this.moment + way;
    while (this.model.barriers[found] === false) found += way;
    return found;
  }

  go(moment) {
    this.moment = Math.min(Math.max(moment, 0), this.data.moments.length - 1);
    this.slider.value = `${this.moment}`;
    this.draw();
  }

  choose(thread) {
    if (!Number.isInteger(thread)) return;
    this.chosen = Math.min(Math.max(thread, 0), this.data.threads - 1);
    this.pointed = null;
    this.number.value = `${this.chosen}`;
    this.draw();
  }

  point(thread) {
    if (thread === this.pointed) return;
    this.pointed = thread;
    this.draw();
  }

  // --- words ------------------------------------------------------------------------------------

  where() {
    const moment = this.data.moments[this.moment];
    const barriers = moment.phase === 1 ? "1 barrier" : `${moment.phase} barriers`;
    return `Moment ${this.moment + 1} of ${this.data.moments.length}, after ${barriers}: ${moment.title}`;
  }

  sentence() {
    const { data, model, thread } = this;
    const parts = model.of(this.moment, thread >> 5).filter((access) => access.taking.has(thread));
    const moved = parts.map(({ site, taking }) => {
      const { byte, first } = taking.get(thread);
      const verb = { load: "loads", store: "stores", copy: "copies" }[site.way];
      const what = model.place(site.operand, first);
      const rest = site.bytes > WORD ? ` and ${site.bytes / WORD - 1} more` : "";
      const from = site.space === "shared" ? `shared byte ${byte}, bank ${(byte / WORD) % BANKS}`
        : `byte ${byte} of ${site.operand}, sector ${Math.floor(byte / SECTOR)}`;
      return `${verb} ${what}${rest} (${from})`;
    });
    const who = `Thread ${thread} (warp ${thread >> 5}, lane ${thread % WARP})`;
    if (!moved.length) return `${who} moves nothing now.`;
    const left = moved.length > 4 ? `, and ${moved.length - 4} more` : "";
    return `${who} ${moved.slice(0, 4).join("; ")}${left}.`;
  }

  writePlaces() {
    const { data, model } = this, traffic = model.traffic(this.moment), thread = this.thread;
    const moved = (space) => Object.entries(traffic)
      .filter(([name]) => name.startsWith(space))
      .map(([name, t]) => `${name.split(" ")[1]}: ${many(t.requests, "request")}, `
        + `${t.bytes.toLocaleString("en")} bytes, ${t.cost.toLocaleString("en")} `
        + `${space === "global" ? "sectors" : "wavefronts"} (least ${t.least.toLocaleString("en")})`)
      .join("; ") || "nothing";
    const words = data.shared_bytes ? model.shared(this.moment).filter(Boolean).length : 0;
    const own = model.owned[thread].length, sums = model.products(this.moment);
    const row = (name, holds, moves) => make("tr", {}, make("th", { scope: "row" }, name),
      make("td", {}, holds), make("td", { class: "tf-moves" }, moves));
    this.places.replaceChildren(
      make("thead", {}, make("tr", {}, ...["memory", "holds", "moves now, the whole block"]
        .map((head) => make("th", { scope: "col" }, head)))),
      make("tbody", {},
        row("global", `A ${data.m}×${data.k}, B ${data.k}×${data.n}, C ${data.m}×${data.n}`,
          moved("global")),
        ...(data.shared_bytes ? [row("shared",
          `${(words * WORD).toLocaleString("en")} of ${data.shared_bytes.toLocaleString("en")} bytes`,
          moved("shared"))] : []),
        row("registers", `${many(own, "sum")} a thread, each of ${sums} of ${data.k} products`,
          "—")));
  }

  // The thread's sums as an outer product: what it read of A beside it, of B above.
  writeSums() {
    const { data, model, thread } = this, ld = data.ld.C, moment = data.moments[this.moment];
    const own = model.owned[thread];
    const rows = [...new Set(own.map((e) => Math.floor(e / ld)))].sort((a, b) => a - b);
    const columns = [...new Set(own.map((e) => e % ld))].sort((a, b) => a - b);
    const read = { A: new Set(), B: new Set() };
    if (moment.kind === "read" || moment.kind === "direct") {
      for (const operand of ["A", "B"]) {
        for (const [element, touch] of model.touched(this.moment, operand, thread)) {
          if (touch.level < 3) continue;
          const its = data.ld[operand];
          read[operand].add(operand === "A" ? Math.floor(element / its) : element % its);
        }
      }
    }
    const sums = model.products(this.moment);
    const head = make("tr", {}, make("td", {}), ...columns.map((column) =>
      make("th", { scope: "col", class: read.B.has(column) ? "tf-b" : "" }, `${column}`)));
    const body = rows.map((row) => make("tr", {},
      make("th", { scope: "row", class: read.A.has(row) ? "tf-a" : "" }, `${row}`),
      ...columns.map((column) => make("td", {
        class: read.A.has(row) && read.B.has(column) ? "tf-c" : "" }, `${sums}`))));
    const k = moment.depth === 1 ? `, A[row, ${moment.k}] and B[${moment.k}, column] are in registers` : "";
    this.sumsSay.textContent = `Registers of thread ${thread}: its sums by row and column of C, `
      + `and the products in each${k}`;
    this.sums.replaceChildren(make("table", { class: "tf-outer", "aria-label": "Sums of the thread" },
      make("thead", {}, head), make("tbody", {}, ...body)));
  }

  // The banks, or the sectors, that a lane's bytes lie in.
  pieces(site, byte) {
    const shared = site.space === "shared", size = shared ? WORD : SECTOR, found = [];
    for (let n = Math.floor(byte / size); n * size < byte + site.bytes; n++) {
      found.push(shared ? n % BANKS : n);
    }
    return found;
  }

  // A mark a lane, coloured by its bank or sector, in the order that they are met.
  strip(site, taking) {
    const strip = make("td", { class: "tf-strip" });
    const shared = site.space === "shared", warp = this.thread >> 5, met = new Map();
    for (let lane = 0; lane < WARP; lane++) {
      const its = taking.get(warp * WARP + lane);
      const [piece] = its === undefined ? [null] : this.pieces(site, its.byte);
      if (!met.has(piece)) met.set(piece, met.size % 8);
      const colour = piece === null ? "none" : `q${met.get(piece)}`;
      strip.append(make("i", {
        class: `tf-${colour}${lane === this.thread % WARP ? " tf-mine" : ""}`,
        title: `lane ${lane}: ${piece === null ? "none" : `${shared ? "bank" : "sector"} ${piece}`}`,
      }));
    }
    return strip;
  }

  writeAccesses() {
    const { model, thread } = this;
    const rows = model.of(this.moment, thread >> 5).map(({ site, taking, cost, least }) => {
      const shared = site.space === "shared", mine = taking.get(thread);
      const all = [...taking.values()].flatMap(({ byte }) => this.pieces(site, byte));
      return make("tr", {},
        make("td", {}, `${site.bytes} B ${site.space} ${site.way} of ${site.operand}`),
        make("td", { class: "tf-code" }, make("code", {}, site.code || "(no source)"),
          ` ${site.file}:${site.line}`),
        make("td", { class: "tf-number" }, mine ? `${mine.byte}` : "—"),
        make("td", { class: "tf-number" }, mine ? span(this.pieces(site, mine.byte)) : "—"),
        this.strip(site, taking),
        make("td", { class: "tf-where" }, `${shared ? "banks" : "sectors"} ${span(all)}`),
        make("td", { class: cost > least ? "tf-number tf-dear" : "tf-number" },
          `${cost} ${shared ? "wavefront" : "sector"}${cost === 1 ? "" : "s"}${cost > least ? ` (least ${least})` : ""}`));
    });
    const heads = ["access", "source", "its byte", "its banks or sector",
      "lanes 0 to 31, coloured by where they go", "the warp's", "cost of the request"];
    this.listSay.textContent = `What warp ${thread >> 5} moves now, and thread ${thread} of it`;
    this.list.replaceChildren(
      make("thead", {}, make("tr", {}, ...heads.map((h) => make("th", { scope: "col" }, h)))),
      make("tbody", {}, ...rows));
  }

  // --- all of it --------------------------------------------------------------------------------

  draw() {
    const { thread } = this;
    this.title.textContent = this.where();
    this.slider.setAttribute("aria-valuetext", this.where());
    this.who.textContent = `warp ${thread >> 5}, lane ${thread % WARP}`;
    this.says.textContent = this.sentence();
    this.canvas.setAttribute("aria-label", `A, B and C. ${this.where()}. ${this.sentence()}`);
    this.map.setAttribute("aria-label",
      `Threads, a row a warp. Up and down arrows choose one: thread ${thread} is chosen.`);
    this.drawMatrices();
    this.drawMap();
    this.drawShared();
    this.writePlaces();
    this.writeSums();
    this.writeAccesses();
  }

  resized() {
    const wide = this.root.clientWidth;
    if (wide && wide !== this.wide) {
      this.wide = wide;
      this.draw();
    }
  }
}

function tileFigure(root, data) {
  const view = new TileView(root, data);
  view.resized();
  return view;
}
