// What can be asked of a tile figure's data (TileFigure.to_json() of bench/tile_figure.py).
//
// All follows from its accesses: which thread owns an output is who stores it, and what a word of
// shared memory holds is what was last copied there.
"use strict";

const WARP = 32, WORD = 4, SECTOR = 32, BANKS = 32;

// A column of an access: JSON has one number where all warps have the same.
const at = (column, place) => (Array.isArray(column) ? column[place] : column);

// Calls visit(thread, firstByte, firstElement) for the lanes of an access that take part.
function lanes(data, access, visit, onlyWarp) {
  access.warps.forEach((warp, place) => {
    if (onlyWarp !== undefined && warp !== onlyWarp) return;
    const bytes = data.patterns[at(access.pattern, place)];
    const elements = data.patterns[at(access.places, place)];
    for (let lane = 0; lane < WARP; lane++) {
      if (bytes[lane] === null || elements[lane] === null) continue;
      visit(warp * WARP + lane, at(access.base, place) + bytes[lane],
        at(access.element, place) + elements[lane]);
    }
  });
}

// The elements that one lane moves, from its first.
function* floats(site, first) {
  for (let n = 0; n < site.bytes / WORD; n++) yield first + n * site.step;
}

class TileModel {
  constructor(data) {
    this.data = data;
    this.warps = Math.ceil(data.threads / WARP);
    this.rows = { A: data.m, B: data.k, C: data.m };
    this.cols = { A: data.k, B: data.n, C: data.n };
    this.owner = new Int32Array(data.m * data.ld.C).fill(-1);
    this.owned = Array.from({ length: data.threads }, () => []);
    for (const moment of data.moments) {
      for (const access of moment.accesses) {
        const site = data.sites[access.site];
        if (site.operand !== "C") continue;
        lanes(data, access, (thread, byte, first) => {
          for (const element of floats(site, first)) {
            this.owner[element] = thread;
            this.owned[thread].push(element);
          }
        });
      }
    }
    this.barriers = data.moments.map((m, n) => n === 0 || m.phase !== data.moments[n - 1].phase);
  }

  // The threads that touch each element of an operand in a moment: element -> the last of them,
  // by how near it is to the chosen thread (3: it, 2: its warp, 1: the block).
  touched(number, operand, chosen) {
    const found = new Map();
    for (const access of this.data.moments[number].accesses) {
      const site = this.data.sites[access.site];
      if (site.operand !== operand) continue;
      lanes(this.data, access, (thread, byte, first) => {
        const level = thread === chosen ? 3 : thread >> 5 === chosen >> 5 ? 2 : 1;
        for (const element of floats(site, first)) {
          if (!(found.get(element)?.level >= level)) found.set(element, { level, thread });
        }
      });
    }
    return found;
  }

  // What each word of shared memory holds when a moment is over: [operand, element] or undefined.
  shared(number) {
    const words = new Array(this.data.shared_bytes / WORD);
    for (const moment of this.data.moments.slice(0, number + 1)) {
      for (const access of moment.accesses) {
        const site = this.data.sites[access.site];
        if (site.space !== "shared" || site.way === "load") continue;
        lanes(this.data, access, (thread, byte, first) => {
          let word = byte / WORD;
          for (const element of floats(site, first)) words[word++] = [site.operand, element];
        });
      }
    }
    return words;
  }

  // The words of shared memory that a moment touches: word -> level, as in `touched`.
  words(number, chosen) {
    const found = new Map();
    for (const access of this.data.moments[number].accesses) {
      const site = this.data.sites[access.site];
      if (site.space !== "shared") continue;
      lanes(this.data, access, (thread, byte) => {
        const level = thread === chosen ? 3 : thread >> 5 === chosen >> 5 ? 2 : 1;
        for (let n = 0; n < site.bytes / WORD; n++) {
          const word = byte / WORD + n;
          found.set(word, Math.max(found.get(word) ?? 0, level));
        }
      });
    }
    return found;
  }

  // How many products each sum has when a moment is over.
  products(number) {
    const past = this.data.moments.slice(0, number + 1);
    return past.filter((moment) => moment.kind === "read" || moment.kind === "direct").length;
  }

  // Requests, bytes and sectors or wavefronts of a moment, by space and way.
  traffic(number) {
    const sums = {};
    for (const access of this.data.moments[number].accesses) {
      const site = this.data.sites[access.site];
      const sum = (sums[`${site.space} ${site.way}`] ??=
        { requests: 0, bytes: 0, cost: 0, least: 0 });
      lanes(this.data, access, () => { sum.bytes += site.bytes; });
      access.warps.forEach((_, place) => {
        sum.requests += 1;
        sum.cost += at(access.cost, place);
        sum.least += at(access.least, place);
      });
    }
    return sums;
  }

  // The accesses of one warp in a moment, each with its lanes' addresses.
  of(number, warp) {
    const found = [];
    for (const access of this.data.moments[number].accesses) {
      const site = this.data.sites[access.site];
      const taking = new Map();
      lanes(this.data, access, (thread, byte, first) => {
        taking.set(thread, { byte, first });
      }, warp);
      const place = access.warps.indexOf(warp);
      if (taking.size) {
        found.push({ site, taking, cost: at(access.cost, place), least: at(access.least, place) });
      }
    }
    return found;
  }

  place(operand, element) {
    const ld = this.data.ld[operand];
    return `${operand}[${Math.floor(element / ld)}, ${element % ld}]`;
  }
}

const span = (numbers) => {
  const sorted = [...new Set(numbers)].sort((a, b) => a - b), parts = [];
  for (let n = 0; n < sorted.length; n++) {
    const first = sorted[n];
    while (sorted[n + 1] === sorted[n] + 1) n++;
    parts.push(first === sorted[n] ? `${first}` : `${first}–${sorted[n]}`);
  }
  return parts.length > 6 ? `${parts.slice(0, 5).join(", ")}, … ${parts.at(-1)}` : parts.join(", ");
};

const many = (count, noun) => `${count.toLocaleString("en")} ${noun}${count === 1 ? "" : "s"}`;
