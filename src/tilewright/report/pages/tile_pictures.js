// What a tile figure draws: A, B and C with who touches what, the threads, the banks.
//
// A base of TileView in tile_figure.js, which has the data, the moment and the thread; colours are
// custom properties of tile_figure.css.
"use strict";

const HUES = { A: "--tf-a", B: "--tf-b", C: "--tf-c" };

// A canvas of `wide` x `high` px, sharp on any screen; what is drawn is cleared.
function prepared(canvas, wide, high) {
  const sharp = window.devicePixelRatio || 1;
  canvas.width = Math.round(wide * sharp);
  canvas.height = Math.round(high * sharp);
  canvas.style.width = `${wide}px`;
  canvas.style.height = `${high}px`;
  const context = canvas.getContext("2d");
  context.scale(sharp, sharp);
  return context;
}

// A length on a whole pixel of the screen, so that neighbours leave no seam.
function snapped(length) {
  const sharp = window.devicePixelRatio || 1;
  return Math.round(length * sharp) / sharp;
}

// Eight colours, the warps in turn.
const warpColour = (thread) => `--q${(thread >> 5) % 8}`;

class TilePictures {
  // --- the matrices -----------------------------------------------------------------------------

  // Where A (left), B (above) and C lie, and how many px an element takes; k may be drawn wider.
  fit() {
    const { m, n, k } = this.data, gap = 10, label = 16;
    const room = Math.min(this.canvas.parentElement.clientWidth, 640) - gap - label;
    const wider = Math.max(1, Math.min(8, (0.3 * n) / k));
    const px = Math.min(room / (n + k * wider), 560 / (m + k * wider), 10);
    const along = px * wider, left = label, top = label;
    const right = left + k * along + gap, below = top + k * along + gap;
    return {
      A: { x: left, y: below, w: along, h: px },
      B: { x: right, y: top, w: px, h: along },
      C: { x: right, y: below, w: px, h: px },
      wide: right + n * px + 2, high: below + m * px + 2, gap,
    };
  }

  under(event) {
    const box = this.canvas.getBoundingClientRect(), fit = this.fit();
    const x = event.clientX - box.left, y = event.clientY - box.top;
    for (const operand of "ABC") {
      const f = fit[operand];
      const column = Math.floor((x - f.x) / f.w), row = Math.floor((y - f.y) / f.h);
      const inside = row >= 0 && column >= 0 && row < this.model.rows[operand]
        && column < this.model.cols[operand];
      if (!inside) continue;
      const element = row * this.data.ld[operand] + column;
      if (operand === "C") return this.model.owner[element] < 0 ? null : this.model.owner[element];
      return this.model.touched(this.moment, operand, this.chosen).get(element)?.thread ?? null;
    }
    return null;
  }

  drawMatrices() {
    const { data, model } = this, fit = this.fit(), moment = data.moments[this.moment];
    const context = prepared(this.canvas, fit.wide, fit.high);
    const style = getComputedStyle(this.root);
    const ink = style.getPropertyValue("--tf-ink"), quiet = style.getPropertyValue("--tf-quiet");
    const fill = (operand, row, column, rows, columns, alpha, colour = HUES[operand]) => {
      const f = fit[operand];
      context.globalAlpha = alpha;
      context.fillStyle = style.getPropertyValue(colour);
      const x = snapped(f.x + column * f.w), y = snapped(f.y + row * f.h);
      context.fillRect(x, y, snapped(f.x + (column + columns) * f.w) - x,
        snapped(f.y + (row + rows) * f.h) - y);
    };
    const frame = (operand, row, column, rows, columns, width, dash = []) => {
      const f = fit[operand];
      context.globalAlpha = 1;
      context.strokeStyle = ink;
      context.lineWidth = width;
      context.setLineDash(dash);
      context.strokeRect(f.x + column * f.w, f.y + row * f.h, columns * f.w, rows * f.h);
    };
    const deep = moment.depth || data.depth;
    const first = Math.floor(moment.k / data.depth) * data.depth;
    const tile = {
      A: [data.row, first, data.bm, Math.min(data.depth, data.k - first)],
      B: [first, data.column, Math.min(data.depth, data.k - first), data.bn],
      C: [data.row, data.column, data.bm, data.bn],
    };
    const band = { A: [data.row, 0, data.bm, data.k], B: [0, data.column, data.k, data.bn] };
    for (const operand of "ABC") {
      fill(operand, 0, 0, model.rows[operand], model.cols[operand], 0.12);
      if (band[operand]) fill(operand, ...band[operand], 0.18);
      if (operand === "C" || deep) fill(operand, ...tile[operand], 0.25);
      this.drawTouched(operand, fill);
      frame(operand, ...tile[operand], 1.5);
      context.fillStyle = quiet;
      context.font = "600 12px system-ui, sans-serif";
      context.fillText(operand, fit[operand].x - 13, fit[operand].y + 10);
    }
    const owned = model.owned.slice((this.thread >> 5) * WARP, ((this.thread >> 5) + 1) * WARP).flat();
    if (owned.length) frame("C", ...this.bounds(owned), 1.5, [4, 3]);
  }

  // The elements of an operand by who touches them, from the block to the thread, which is last;
  // of C those that are owned too. By warp: all in the colours of their warps.
  drawTouched(operand, fill) {
    const ld = this.data.ld[operand], alphas = [0, 0.4, 0.9, 1];
    const dot = (element, level, thread) => {
      const colour = level === 3 ? "--tf-ink" : this.byWarp ? warpColour(thread) : undefined;
      fill(operand, Math.floor(element / ld), element % ld, 1, 1,
        this.byWarp ? 1 : alphas[level], colour);
    };
    if (operand === "C") {
      this.model.owned.forEach((elements, thread) => {
        const own = thread >> 5 === this.thread >> 5;
        if (own || this.byWarp) elements.forEach((element) => dot(element, 1, thread));
      });
      this.model.owned[this.thread].forEach((element) => dot(element, 3, this.thread));
    }
    const found = [...this.model.touched(this.moment, operand, this.thread)];
    for (const level of [1, 2, 3]) {
      for (const [element, touch] of found) {
        if (touch.level === level) dot(element, level, touch.thread);
      }
    }
  }

  bounds(elements) {
    const ld = this.data.ld.C;
    let [top, left, bottom, right] = [Infinity, Infinity, 0, 0];
    for (const element of elements) {
      const row = Math.floor(element / ld), column = element % ld;
      top = Math.min(top, row); bottom = Math.max(bottom, row);
      left = Math.min(left, column); right = Math.max(right, column);
    }
    return [top, left, bottom - top + 1, right - left + 1];
  }

  // --- threads, shared memory -------------------------------------------------------------------

  mapCell() {
    const wide = Math.min(this.map.parentElement.clientWidth - 24, 12 * WARP);
    return { left: 22, w: wide / WARP, h: Math.max(4, Math.min(10, 160 / this.model.warps)) };
  }

  cell(event) {
    const box = this.map.getBoundingClientRect(), { left, w, h } = this.mapCell();
    const lane = Math.floor((event.clientX - box.left - left) / w);
    const warp = Math.floor((event.clientY - box.top) / h);
    const thread = warp * WARP + lane;
    return lane >= 0 && lane < WARP && thread >= 0 && thread < this.data.threads ? thread : null;
  }

  drawMap() {
    const { left, w, h } = this.mapCell(), style = getComputedStyle(this.root);
    const context = prepared(this.map, left + WARP * w + 2, this.model.warps * h + 2);
    const taking = new Set();
    for (const access of this.data.moments[this.moment].accesses) {
      lanes(this.data, access, (thread) => taking.add(thread));
    }
    context.font = "9px system-ui, sans-serif";
    for (let thread = 0; thread < this.data.threads; thread++) {
      const x = left + (thread % WARP) * w, y = (thread >> 5) * h;
      context.globalAlpha = this.byWarp || thread >> 5 === this.thread >> 5 ? 1 : 0.45;
      const colour = this.byWarp ? warpColour(thread) : "--tf-t";
      context.fillStyle = style.getPropertyValue(
        thread === this.thread ? "--tf-ink" : taking.has(thread) ? colour : "--tf-idle");
      context.fillRect(x, y, w - 1, h - 1);
      context.fillStyle = style.getPropertyValue("--tf-quiet");
      const every = Math.ceil(9 / h);
      if (thread % (WARP * every) === 0) context.fillText(`w${thread >> 5}`, 0, y + 8);
    }
  }

  drawShared() {
    if (!this.data.shared_bytes) return;
    const words = this.model.shared(this.moment), style = getComputedStyle(this.root);
    const touched = this.model.words(this.moment, this.thread);
    const rows = Math.ceil(words.length / BANKS), top = 12;
    const wide = Math.min(this.bank.parentElement.clientWidth, 400), w = wide / BANKS;
    const h = Math.max(1, Math.min(5, 260 / rows));
    const context = prepared(this.bank, wide, top + rows * h);
    context.font = "9px system-ui, sans-serif";
    context.fillStyle = style.getPropertyValue("--tf-quiet");
    for (const bank of [0, 8, 16, 24, 31]) context.fillText(`${bank}`, bank * w, 9);
    const alphas = [0.3, 0.6, 1, 1];
    for (let word = 0; word < words.length; word++) {
      const level = touched.get(word) ?? 0, held = words[word];
      context.globalAlpha = held ? alphas[level] : 0.5;
      context.fillStyle = style.getPropertyValue(
        level === 3 ? "--tf-ink" : held ? HUES[held[0]] : "--tf-idle");
      context.fillRect((word % BANKS) * w, top + Math.floor(word / BANKS) * h,
        w - (w > 4 ? 0.5 : 0), h - (h > 3 ? 0.5 : 0));
    }
    const held = ["A", "B"].map((operand) => {
      const some = words.filter((word) => word && word[0] === operand).length;
      return `${some} floats of ${operand}`;
    });
    this.bank.setAttribute("aria-label", `Shared memory holds ${held.join(" and ")}.`);
  }
}
