// How many blocks of a kernel fit on an SM: the rules of gpus/occupancy.py, which a test compares.
"use strict";

const up = (value, unit) => Math.ceil(value / unit) * unit;
const down = (value, unit) => Math.floor(value / unit) * unit;

// The most registers a thread with which one block of so many threads fits.
function mostRegisters(limits, threads) {
  const warps = Math.ceil(threads / 32);
  let each;
  if (limits.registers_to === "block") {
    const budget = down(limits.registers, limits.register_unit);
    each = Math.floor(budget / (32 * up(warps, limits.warp_unit)));
  } else {
    const file = Math.floor(limits.registers / limits.partitions);
    const budget = Math.floor(file / Math.ceil(warps / limits.partitions));
    each = Math.floor(down(budget, limits.register_unit) / 32);
  }
  return Math.min(each, limits.max_registers_per_thread);
}

function blocksByRegisters(limits, warps, registers) {
  if (limits.registers_to === "block") {
    const taken = up(up(warps, limits.warp_unit) * 32 * registers, limits.register_unit);
    return Math.floor(limits.registers / taken);
  }
  const ofWarp = up(32 * registers, limits.register_unit);
  const resident = Math.floor(Math.floor(limits.registers / limits.partitions) / ofWarp);
  return Math.floor((resident * limits.partitions) / warps);
}

// Returns { limits, limiters, active_blocks, active_warps, fraction }, or { refused } with a reason.
// `shared` is a block's, static and dynamic; the SM prefers the most shared memory that it has.
function occupancy(limits, { threads, registers, shared }) {
  if (threads > limits.max_threads_per_block) {
    return { refused: `a block has at most ${limits.max_threads_per_block} threads` };
  }
  if (shared > limits.shared_bytes_per_block_max) {
    return { refused: `a block has at most ${limits.shared_bytes_per_block_max} bytes of shared memory` };
  }
  const most = mostRegisters(limits, threads);
  if (registers > most) {
    return { refused: `with ${threads} threads a block has at most ${most} registers a thread` };
  }
  const warps = Math.ceil(threads / 32);
  const taken = up(shared + limits.shared_bytes_reserved, limits.shared_unit);
  const configured = limits.carveouts.find((size) => size >= Math.max(limits.shared_bytes, taken));
  const fit = {
    warps: Math.floor(limits.max_warps / warps),
    blocks: limits.max_blocks,
    registers: blocksByRegisters(limits, warps, registers),
    shared: taken ? Math.floor(configured / taken) : null,
  };
  const active = Math.min(...Object.values(fit).filter((blocks) => blocks !== null));
  return {
    limits: fit,
    limiters: Object.keys(fit).filter((name) => fit[name] === active),
    active_blocks: active,
    active_warps: active * warps,
    fraction: (active * warps) / limits.max_warps,
  };
}

// The sliders of the page: each recomputes, and says what limits.
function whatIf(root, data) {
  const names = ["threads", "registers", "shared"];
  const inputs = Object.fromEntries(names.map((name) => [name, root.querySelector(`[name=${name}]`)]));
  const says = root.querySelector("output"), bar = root.querySelector(".fill");
  const rows = root.querySelector("tbody"), back = root.querySelector("button");
  const takes = { warps: "threads", blocks: "blocks", registers: "registers", shared: "shared memory" };
  const show = () => {
    const asked = Object.fromEntries(names.map((name) => [name, Number(inputs[name].value)]));
    names.forEach((name) => { inputs[name].nextElementSibling.textContent = asked[name]; });
    const found = occupancy(data.limits, asked);
    bar.style.width = `${100 * (found.fraction ?? 0)}%`;
    rows.replaceChildren();
    if (found.refused) {
      says.textContent = `It would not launch: ${found.refused}.`;
      return;
    }
    says.textContent = `${Math.round(100 * found.fraction)}% occupancy: ${found.active_blocks} `
      + `block${found.active_blocks === 1 ? "" : "s"}, ${found.active_warps} of `
      + `${data.limits.max_warps} warps an SM, limited by `
      + `${found.limiters.map((name) => takes[name]).join(" and ")}.`;
    for (const [name, blocks] of Object.entries(found.limits)) {
      const row = rows.insertRow();
      row.insertCell().textContent = takes[name];
      row.insertCell().textContent = blocks === null ? "any" : blocks;
      row.insertCell().textContent = found.limiters.includes(name) ? "limits" : "";
    }
  };
  names.forEach((name) => inputs[name].addEventListener("input", show));
  back.addEventListener("click", () => {
    names.forEach((name) => { inputs[name].value = data[name]; });
    show();
  });
  show();
}
