// The heat map of one access: for each execution kept, what each bank serves or each sector gives.
"use strict";

const BANKS = 32, WORD = 4, SECTOR = 32;

// How many parts a warp goes in, one after the other: a quarter at a time with 16 bytes a lane; half
// as many of a load in which neighbours agree (emulator/rules.py, wavefronts).
function phases(access, execution) {
  const parts = Math.max(1, access.size / WORD);
  const agree = (step) => execution.lanes.every((byte, lane) => {
    const other = execution.lanes[lane ^ step];
    return byte === other || byte === null || other === null;
  });
  return parts > 1 && access.way === "load" && (agree(1) || agree(2)) ? parts / 2 : parts;
}

// The words that each bank serves, [32]: distinct ones of each part, added up.
function bankWords(access, execution) {
  const parts = phases(access, execution), wide = execution.lanes.length / parts;
  const sums = new Array(BANKS).fill(0);
  for (let part = 0; part < parts; part++) {
    const words = new Set();
    for (const byte of execution.lanes.slice(part * wide, (part + 1) * wide)) {
      if (byte === null) continue;
      for (let word = Math.floor(byte / WORD); word * WORD < byte + access.size; word++) {
        words.add(word);
      }
    }
    words.forEach((word) => { sums[word % BANKS] += 1; });
  }
  return sums;
}

// Bytes used of each sector that is touched: [number, bytes], in order.
function sectorBytes(access, execution) {
  const used = new Map();
  for (const byte of execution.lanes) {
    if (byte === null) continue;
    for (let at = byte; at < byte + access.size; at++) {
      const sector = Math.floor(at / SECTOR);
      if (!used.has(sector)) used.set(sector, new Set());
      used.get(sector).add(at);
    }
  }
  return [...used].map(([sector, bytes]) => [sector, bytes.size]).sort((a, b) => a[0] - b[0]);
}

const named = (access) => `${access.size} B ${access.array ? `global ${access.way}, array `
  + `argument ${access.array}` : `shared ${access.way}`}`;

// Fills `table` with an access; `says` gets its sentence.
function heatMap(table, says, access) {
  const cell = (row, text, shade, title) => {
    const made = row.insertCell();
    made.textContent = text;
    made.className = `heat-${shade}`;
    made.title = title;
  };
  const head = document.createElement("tr"), body = document.createElement("tbody");
  const heading = (text) => {
    const made = document.createElement("th");
    made.scope = "col";
    made.textContent = text;
    head.append(made);
  };
  const shared = access.array === 0, unit = shared ? "wavefronts" : "sectors";
  heading("warp");
  heading(unit);
  const rows = access.executions.map((execution) =>
    (shared ? bankWords(access, execution) : sectorBytes(access, execution)));
  const wide = shared ? BANKS : Math.max(...rows.map((row) => row.length));
  for (let column = 0; column < wide; column++) heading(shared ? column : `+${column}`);
  const most = Math.max(...(shared ? rows.flat() : [SECTOR]));
  access.executions.forEach((execution, number) => {
    const row = body.insertRow();
    cell(row, execution.warp, "none", "");
    cell(row, execution.cost > execution.least ? `${execution.cost} (least ${execution.least})`
      : execution.cost, "none", "");
    rows[number].forEach((found, column) => {
      const [value, title] = shared
        ? [found, `bank ${column}: ${found} words`]
        : [found[1], `sector ${found[0]}: ${found[1]} of 32 bytes used`];
      cell(row, value || "", value ? Math.min(7, Math.ceil((8 * value) / most) - 1) : "none", title);
    });
  });
  const top = document.createElement("thead");
  top.append(head);
  table.replaceChildren(top, body);
  const sum = (name) => access.executions.reduce((total, each) => total + each[name], 0);
  const each = (sum("cost") / access.executions.length).toPrecision(3) * 1;
  const least = (sum("least") / access.executions.length).toPrecision(3) * 1;
  says.textContent = `${named(access)} at ${access.file ?? "PTX"}:${access.line || access.ptx_line}: `
    + `${each} ${unit} a request${each > least ? `, where ${least} would do` : ", the fewest there can be"}. `
    + (shared ? "A cell is the words that one bank serves, one a wavefront: while it is at work, idle ones wait."
      : "A cell is the bytes used of a sector of 32: all of it is moved.");
}
