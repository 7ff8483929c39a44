// How fast Volkov and Demmel's kernel is with other numbers: study/speed_2008.py once more, for the
// sliders. A test compares them. What fits comes from occupancy.js.

function oldShare(data, blocks, memory, ahead) {
  const { cycles, kernel } = data;
  const { mix } = kernel;
  const slow = cycles.shared - cycles.issue;
  const warps = kernel.threads / 32;
  const issue = warps * (mix.instructions * cycles.issue + mix.shared_multiply_adds * slow);
  const waits = (mix.staged_loads > 0 ? 1 : 0) + Math.ceil(mix.streamed_loads / ahead);
  const each = cycles.issue + (slow * mix.shared_multiply_adds) / mix.multiply_adds;
  const idle = Math.max(0, cycles.arithmetic - warps * kernel.sums * each);
  const wait = waits * memory + (mix.multiply_adds / kernel.sums) * idle;
  let rate = 0;
  let queued = 0;
  for (let count = 1; count <= blocks; count += 1) {
    const stay = issue * (1 + queued);
    rate = count / (stay + wait);
    queued = rate * stay;
  }
  const flops = 64 * warps * mix.multiply_adds;
  const moved = (data.bytes_a_cycle * flops) / kernel.turn_bytes / (2 * data.lanes);
  return Math.min(rate * warps * mix.multiply_adds * cycles.issue, moved);
}

{
  const data = JSON.parse(document.getElementById("whatif-data").textContent);
  const form = document.getElementById("whatif");
  const { threads, registers, shared_bytes: shared } = data.kernel;
  const start = { registers, ahead: data.ahead, memory: data.cycles.memory, blocks: data.limits.max_blocks };
  const percent = (part) => `${(100 * part).toFixed(1)} %`;
  const show = () => {
    const asked = {};
    for (const input of form.querySelectorAll("input")) {
      asked[input.name] = Number(input.value);
      input.nextElementSibling.textContent = input.value;
    }
    const fits = occupancy(data.limits, { threads, registers: asked.registers, shared });
    const blocks = Math.min(fits.active_blocks, asked.blocks);
    const held = (blocks * threads) / 32 / data.limits.max_warps;
    const share = oldShare(data, blocks, asked.memory, asked.ahead);
    form.querySelector(".found").textContent =
      `Room for ${fits.active_blocks} ${fits.active_blocks === 1 ? "block" : "blocks"} ` +
      `(${fits.limiters.join(", ")}). With ${blocks}, ${percent(held)} occupancy: ` +
      `${percent(share)} of the peak.`;
  };
  for (const [name, value] of Object.entries(start)) form.elements[name].value = value;
  form.addEventListener("input", show);
  form.addEventListener("submit", (event) => event.preventDefault());
  show();
}
