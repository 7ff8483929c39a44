"""How long a variant should take: a small analytic model, for choosing where nothing was measured.

A launch is waves of blocks. A block waits for its first tile, then makes its steps along k; an SM's
blocks share its arithmetic, its shared memory and its copies, whose cycles add up, but no step is
shorter than the latency of a copy over the stages that are under way. The last wave has fewer
blocks, unless workers share the last tiles evenly: then its waves need not be whole. Whatever the
SMs do, the L2 and the DRAM must deliver. Parts of k are written, waited for and added by one block
a tile.

All tiles of a kind of product are columns of one table, so that a choice is some forty numpy
operations on a few hundred numbers. The coefficients are those of `cost.json`, which says what they
were fitted to (`benchmarks/fit_cost.py`).
"""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np

from tilewright.gpus import Gpu
from tilewright.kernels.gemm.candidates import WAVES
from tilewright.kernels.gemm.kernel import Variant
from tilewright.kernels.gemm.operation import Operation
from tilewright.kernels.tiles import FLOAT_BYTES
from tilewright.tuning.features import Column, Features, features

FILE = Path(__file__).with_name("cost.json")
SCHEMA = 1

# Of the L2, to each SM. Source: benchmarks/h200_calibration.py, stream-ldg*-l2: 30 to 36 by width.
_L2_BYTES_PER_CYCLE = 34.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Coefficients:
    """What a kernel costs, in units of what the hardware must do at least.

    Units: cycles at the boost clock, a block; seconds for `launch_s`. `fma` multiplies the cycles
    of the multiply-adds, `shared` those of the fragments' loads, `copy` those of the copies; `step`
    is added for each step along k (its barrier and addresses). `fill_cycles` pass before the first
    step, `latency_cycles` from a copy's issue to its use, `depth_cycles` at least for each of k
    that a thread takes. `bytes_per_cycle` is how fast an SM writes results and reads parts of k,
    `sync_cycles` what waiting for the last part costs. `l2_share` and `dram_share` are of 34 bytes
    a cycle and SM, and of the datasheet's bandwidth.
    """

    launch_s: float
    fma: float
    shared: float
    copy: float
    step: float
    fill_cycles: float
    latency_cycles: float
    depth_cycles: float
    bytes_per_cycle: float
    sync_cycles: float
    l2_share: float
    dram_share: float


@functools.cache
def coefficients() -> Mapping[str, Coefficients]:
    """Return the coefficients of each kernel, as the package ships them."""
    return read_coefficients(json.loads(FILE.read_text(encoding="utf-8")))


def read_coefficients(data: Mapping[str, Any]) -> Mapping[str, Coefficients]:
    """Return the coefficients of a file's content."""
    if data["schema"] != SCHEMA:
        raise ValueError(f"{FILE.name} has schema {data['schema']}, this code reads {SCHEMA}")
    return {name: Coefficients(**values) for name, values in data["kernels"].items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Variants as columns, one number each, all of one length: features, and what they cost.

    Where the model is to choose the parts of k, `splits` is None, and every tile stands in the
    table once for each number of blocks that the GPU is to be filled with: `slots`. Workers fill
    it once. `grain` is what numbers of waves are multiples of: 1 without workers.

    Units: seconds, except the tile's sides (elements), `products` of a batch in a block, the parts
    of k and their steps, and `room`: blocks that the GPU holds.
    """

    variants: tuple[Variant, ...]
    sm_count: int
    splits: Column | None
    slots: Column
    bm: Column
    bn: Column
    bk: Column
    products: Column
    most_splits: Column
    least_steps: Column
    room: Column
    grain: Column
    ends: Column
    launch: Column
    fill: Column
    step: Column
    full_step: Column
    least_step: Column
    output: Column
    full_output: Column
    sync: Column
    sharing: Column
    l2_byte: Column
    dram_byte: Column


_PER_ROW = tuple(
    f.name for f in fields(Table) if f.name not in ("variants", "sm_count", "splits", "slots")
)
# Workers stop anywhere in a tile; a 64th of a wave is fine enough.
_GRAIN = 1 / 64


@dataclass(frozen=True, slots=True)
class Parts:
    """What the times of variants consist of, in seconds: the longest of three, and the rest."""

    splits: Column
    launch: Column
    busy: Column
    l2: Column
    dram: Column
    adding: Column

    @property
    def total(self) -> Column:
        """The predicted times."""
        longest = np.maximum(np.maximum(self.busy, self.l2), self.dram)
        total: Column = longest + self.adding + self.launch
        return total


def tabulate(found: Features, gpu: Gpu, using: Mapping[str, Coefficients] | None = None) -> Table:
    """Return the table of variants by their features."""
    known = using or coefficients()
    rows = [known.get(v.kernel) or known["tiled"] for v in found.variants]
    c = {f.name: np.array([getattr(row, f.name) for row in rows]) for f in fields(Coefficients)}
    cycle = 1 / gpu.boost_clock_hz
    step = cycle * (
        c["fma"] * found.multiply + c["shared"] * found.load + c["copy"] * found.copy + c["step"]
    )
    waiting = np.maximum(c["latency_cycles"] / found.ahead, c["depth_cycles"] * found.run)
    least_step = cycle * waiting
    output = cycle * found.output_bytes / c["bytes_per_cycle"]
    fill = cycle * c["fill_cycles"]
    l2_bytes_per_s = c["l2_share"] * _L2_BYTES_PER_CYCLE * gpu.sm_count * gpu.boost_clock_hz
    columns = {
        "bm": found.bm,
        "bn": found.bn,
        "bk": found.bk,
        "products": found.products,
        "most_splits": found.most_splits,
        "least_steps": found.least_steps,
        "room": np.where(found.workers > 0, found.workers, found.resident * gpu.sm_count),
        "grain": np.where(found.workers > 0, _GRAIN, 1.0),
        # The last wave of workers is a part of a wave like all others.
        "ends": np.where(found.workers > 0, 0.0, 1.0),
        "launch": c["launch_s"],
        "fill": fill,
        "step": step,
        "full_step": np.maximum(found.resident * step, least_step),
        "least_step": least_step,
        "output": output,
        # The next block waits for its first tile while the others on its SM compute.
        "full_output": found.resident * output + fill / found.resident,
        "sync": cycle * c["sync_cycles"],
        "sharing": np.where(found.workers > 0, cycle * c["sync_cycles"] + 2 * output, 0.0),
        "l2_byte": FLOAT_BYTES / l2_bytes_per_s,
        "dram_byte": 1 / (c["dram_share"] * gpu.dram_bytes_per_s),
    }
    return Table(
        variants=found.variants,
        sm_count=gpu.sm_count,
        splits=np.array([float(v.splits) for v in found.variants]),
        slots=found.workers,
        **columns,
    )


def with_free_splits(table: Table) -> Table:
    """Return the table for the model to choose the parts of k in: no variant may cut it."""
    free = [i for i, v in enumerate(table.variants) if not v.workers]
    shared = [i for i, v in enumerate(table.variants) if v.workers]
    rows = np.array(free * (1 + len(WAVES)) + shared)
    slots = [float(waves * table.sm_count) for waves in (0, *WAVES)]
    return replace(
        table,
        variants=tuple(table.variants[i] for i in rows),
        splits=None,
        slots=np.concatenate([np.repeat(slots, len(free)), table.slots[shared]]),
        **{name: getattr(table, name)[rows] for name in _PER_ROW},
    )


def parts(table: Table, operation: Operation) -> Parts:
    """Return the parts of every variant's time."""
    t, o = table, operation
    # Flat columns of one length throughout: numpy is slow at anything else this small.
    down, across = np.ceil(o.m / t.bm), np.ceil(o.n / t.bn)
    tiles = np.ceil(down * across * o.batch / t.products)
    depth = np.ceil(max(o.k, 1) / t.bk)
    most = np.minimum(np.floor(depth / t.least_steps), t.most_splits)
    splits = np.maximum(np.minimum(np.floor(t.slots / tiles), most), 1.0)
    if t.splits is not None:
        splits = np.maximum(splits, t.splits)
    each = np.ceil(depth / splits)
    splits = np.ceil(depth / each)
    blocks = tiles * splits
    full = (np.ceil(blocks / t.room / t.grain) - 1.0) * t.grain
    left = np.ceil((blocks - full * t.room) / t.sm_count)
    last = each * np.maximum(left * t.step, t.least_step) + left * t.output
    busy = t.fill + full * (each * t.full_step + t.full_output) + last * t.ends
    floats = down * (o.batch * o.k * o.n) + across * (o.batch * o.k * o.m)
    adding = (splits > 1.0) * t.sync + (splits - 1.0) * t.output + t.sharing
    return Parts(
        splits, t.launch, busy, floats * t.l2_byte, t.dram_byte * _compulsory_bytes(o), adding
    )


def predict(operation: Operation, variants: Sequence[Variant], gpu: Gpu) -> list[float]:
    """Return the predicted seconds of variants; infinite where no SM holds a block of it."""
    table = tabulate(features(variants, operation, gpu), gpu)
    times = dict(zip(table.variants, parts(table, operation).total.tolist(), strict=True))
    return [times.get(variant, float("inf")) for variant in variants]


def _compulsory_bytes(o: Operation) -> int:
    """Return what must be read and written at least once; a repeated operand is read once."""
    a = o.m * o.k * (o.batch if o.a.batch else 1)
    b = o.k * o.n * (o.batch if o.b.batch else 1)
    return FLOAT_BYTES * (a + b + o.batch * o.m * o.n * (2 if o.c else 1))
