"""How long a variant should take: a small analytic model, for choosing where nothing was measured.

A launch is waves of blocks. A block waits for its first tile, then makes its steps along k. A step
takes what the SM's blocks together need of it, whose cycles add up, and no less than one block
alone: its warps' own instructions one after the other and its waits, or the latency of a copy over
the steps that are under way. The last wave has fewer blocks, unless workers share the last tiles
evenly: then its waves need not be whole. Whatever the SMs do, the L2 and the DRAM must deliver.
Parts of k travel through the L2, are waited for and added by one block a tile, in groups of about
their root; that the blocks of `tiled` add them together is left to its coefficients. What a tile
takes more or less than all this, whatever the product, is a factor of its own.

Where the longest of several things counts, a root of the sum of their powers does, since those that
take as long hinder one another: the fourth in a step of an SM that is full, the second of SMs, L2
and DRAM.

All tiles of a kind of product are columns of one table, so that a choice is some sixty numpy
operations on a few hundred numbers. The coefficients are those of `cost.json`, which says what they
were fitted to (`benchmarks/fit_cost.py`).
"""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from tilewright.gpus import Gpu
from tilewright.kernels.gemm.kernel import Variant
from tilewright.kernels.gemm.operation import Operation
from tilewright.kernels.gemm.registry import gemm_kernel
from tilewright.kernels.tiles import FLOAT_BYTES, Tile
from tilewright.tuning.features import SHAPE, Column, Features

FILE = Path(__file__).with_name("cost.json")
SCHEMA = 3

# Of choices and sizes: half as many bytes are read, and six digits are more than the model has.
_SHORT = np.float32
_NEVER = np.array(np.inf, _SHORT)

# Of the L2, to each SM. Source: benchmarks/h200_calibration.py, stream-ldg*-l2: 30 to 36 by width.
_L2_BYTES_PER_CYCLE = 34.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Coefficients:
    """What a kernel costs, in units of what the hardware must do at least.

    Units: cycles at the boost clock; seconds for `launch_s`. `fma` multiplies the cycles of the
    multiply-adds, `shared` those of the fragments' loads; `single` and `quad` are cycles an
    instruction that copies, `line` cycles a line that is asked for; `step` is added for each step
    along k (its barrier and addresses). Of a block alone: `alone` multiplies what its step takes of
    one scheduler, `depth_cycles` pass more for each of k that a thread takes, `barrier_cycles`
    for each step, `fill_cycles` before the first, `latency_cycles` from a copy's issue to its use.
    `fold` multiplies what adding a block's sums takes, `bytes_per_cycle` is how fast an SM writes
    results, `read_per_cycle` how fast a block reads parts of k, `sync_cycles` what waiting for the
    last part costs. `l2_share` and `parts_share` (of parts of k) are of 34 bytes a cycle and SM,
    `dram_share` of the datasheet's bandwidth. `rest` and `fill` say by how much, in logarithms,
    what a step takes beside its multiply-adds, and its fill, are longer for each doubling of what
    SHAPE names; `tiles` by how much a tile, by its `label`, takes longer than all that says.
    """

    launch_s: float
    fma: float
    shared: float
    single: float
    quad: float
    line: float
    step: float
    alone: float
    depth_cycles: float
    barrier_cycles: float
    fill_cycles: float
    latency_cycles: float
    fold: float
    bytes_per_cycle: float
    read_per_cycle: float
    sync_cycles: float
    l2_share: float
    parts_share: float
    dram_share: float
    rest: tuple[float, ...] = (0.0,) * len(SHAPE)
    fill: tuple[float, ...] = (0.0,) * len(SHAPE)
    tiles: Mapping[str, float] = field(default_factory=dict)


def label(tile: Tile) -> str:
    """Return a tile's name in `tiled`: sides, step, outputs of a thread, blocks an SM."""
    return f"{tile.bm}x{tile.bn}x{tile.bk} {tile.tm}x{tile.tn} {tile.min_blocks}"


@functools.cache
def coefficients() -> Mapping[str, Coefficients]:
    """Return the coefficients of each kernel, as the package ships them."""
    return read_coefficients(json.loads(FILE.read_text(encoding="utf-8")))


def read_coefficients(data: Mapping[str, Any]) -> Mapping[str, Coefficients]:
    """Return the coefficients of a file's content."""
    if data["schema"] != SCHEMA:
        raise ValueError(f"{FILE.name} has schema {data['schema']}, this code reads {SCHEMA}")
    return {name: _coefficients(values) for name, values in data["kernels"].items()}


def _coefficients(values: Mapping[str, Any]) -> Coefficients:
    shapes = {name: tuple(value) for name, value in values.items() if isinstance(value, list)}
    return Coefficients(**{**values, **shapes})


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Variants as columns, one number each, all of one length: features, and what they cost.

    Where the model is to choose the parts of k, `splits` is None, and every tile stands in the
    table once for each number of blocks that the GPU is to be filled with: `slots`. `own` is 1, and
    0 for workers: their last wave is a part of one like all others, so `step`, `floor` and
    `output`, which are of last waves, are 0. `one` and `sms` are the same for all. `fixed` is the
    launch, and where k is cut waiting for parts of it. No tile has too long a sum where k is at
    most `shortest`; `is_grouped` says whether any block takes several products of a batch, or a
    part of one.

    Units: seconds, except the tile's sides (elements), `products` of a batch in a block, the parts
    of k and their steps, and `room`: blocks that the GPU holds.
    """

    variants: tuple[Variant, ...]
    splits: Column | None
    slots: Column
    least_splits: Column
    bm: Column
    bn: Column
    bk: Column
    one: Column
    sms: Column
    products: Column
    most_splits: Column
    least_steps: Column
    most_steps: Column
    shortest: float
    is_grouped: bool
    room: Column
    workers: Column
    own: Column
    fill: Column
    step: Column
    full_step: Column
    floor: Column
    output: Column
    full_output: Column
    fixed: Column
    part: Column
    moved: Column
    l2_byte: Column
    dram_byte: Column
    inputs: Column


# What is time: a tile's factor multiplies them.
_TIMES = ("fill", "step", "full_step", "floor", "output", "full_output", "fixed", "part", "moved",
          "l2_byte", "dram_byte")  # fmt: skip
_AS_THEY_ARE = ("variants", "splits", "slots", "least_splits", "shortest", "is_grouped")
_SHORTENED = tuple(f.name for f in fields(Table) if f.name not in _AS_THEY_ARE)


class Parts(NamedTuple):
    """What the times of variants consist of, in seconds: the longest of three, and the rest.

    Beside them what they were made from: output tiles, parts of k of each with their steps, and
    waves of blocks.
    """

    tiles: Column
    splits: Column
    each: Column
    waves: Column
    busy: Column
    l2: Column
    dram: Column
    rest: Column
    total: Column


def tabulate(found: Features, gpu: Gpu, using: Mapping[str, Coefficients] | None = None) -> Table:
    """Return the table of variants by their features."""
    known = using or coefficients()
    c = _columns([v.kernel for v in found.variants], known)
    return priced(found, gpu, c, np.exp([_offset(variant, known) for variant in found.variants]))


def priced(found: Features, gpu: Gpu, c: Mapping[str, Any], factor: Column) -> Table:
    """Return the table of variants with coefficients `c`, each a column or the same for all."""
    cycle = 1 / gpu.boost_clock_hz
    copies = c["single"] * found.single + c["quad"] * found.quad + c["line"] * found.lines
    rest = c["shared"] * found.load + copies + c["step"]
    step = c["fma"] * found.multiply + rest * _shaped(found, c["rest"])
    alone = c["alone"] * step / found.warps + c["depth_cycles"] * found.run + c["barrier_cycles"]
    floor = (alone**4 + (c["latency_cycles"] / found.ahead) ** 4) ** 0.25
    fill = cycle * c["fill_cycles"] * _shaped(found, c["fill"])
    output = cycle * (found.output_bytes / c["bytes_per_cycle"] + c["fold"] * found.fold)
    l2_bytes_per_s = _L2_BYTES_PER_CYCLE * gpu.sm_count * gpu.boost_clock_hz
    moved = 2 * found.output_bytes / (c["parts_share"] * l2_bytes_per_s)
    # Each worker begins and ends within a tile, and so writes two parts.
    waiting = cycle * c["sync_cycles"] * found.cut + 2 * found.workers * moved
    ends = np.where(found.workers > 0, 0.0, 1.0)
    columns = {
        "bm": found.bm,
        "bn": found.bn,
        "bk": found.bk,
        "one": np.ones(len(found.variants)),
        "sms": np.full(len(found.variants), float(gpu.sm_count)),
        "products": found.products,
        "most_splits": found.most_splits,
        "least_steps": found.least_steps,
        "most_steps": found.most_steps,
        "room": np.where(found.workers > 0, found.workers, found.resident * gpu.sm_count),
        "workers": found.workers,
        "own": ends,
        "fill": fill,
        "step": cycle * step * ends,
        "full_step": cycle * ((found.resident * step) ** 4 + floor**4) ** 0.25,
        "floor": cycle * floor * ends,
        "output": output * ends,
        # The next block waits for its first tile while the others on its SM compute.
        "full_output": found.resident * output + fill / found.resident,
        "fixed": c["launch_s"] + waiting,
        "part": cycle * found.cut * found.part_bytes / c["read_per_cycle"],
        "moved": moved,
        "l2_byte": FLOAT_BYTES / (c["l2_share"] * l2_bytes_per_s),
        "dram_byte": 1 / (c["dram_share"] * gpu.dram_bytes_per_s),
        "inputs": found.inputs,
    }
    columns |= {name: columns[name] * factor for name in _TIMES}
    return Table(
        variants=found.variants,
        is_grouped=bool((found.products != 1).any()),
        shortest=float((found.most_steps * found.bk).min(initial=np.inf)),
        splits=np.array([float(v.splits) for v in found.variants]),
        slots=np.zeros(len(found.variants)),
        least_splits=np.ones(len(found.variants)),
        **columns,
    )


def _offset(variant: Variant, known: Mapping[str, Coefficients]) -> float:
    kernel = known.get(variant.kernel)
    return kernel.tiles.get(label(variant.tile), 0.0) if kernel else 0.0


def _shaped(found: Features, slopes: Sequence[Column]) -> Column:
    """Return by how much more a tile takes for its shape."""
    factors: Column = np.exp(
        sum(at * slope for at, slope in zip(found.shape.T, slopes, strict=True))
    )
    return factors


def _columns(kernels: Sequence[str], known: Mapping[str, Coefficients]) -> dict[str, Any]:
    """Return each coefficient for each row, of several a column each."""
    names = {name: index for index, name in enumerate(dict.fromkeys(kernels))}
    of = np.array([names[kernel] for kernel in kernels], int)
    rows = [known.get(name) or known["tiled"] for name in names]
    return {
        f.name: np.array([getattr(row, f.name) for row in rows])[of].T if rows else np.empty(0)
        for f in fields(Coefficients)
        if f.name != "tiles"
    }


def with_free_splits(found: Features, gpu: Gpu) -> Table:
    """Return the table of variants for the model to choose the parts of k in: none may cut it."""
    slots = [
        (i, waves)
        for i, v in enumerate(found.variants)
        for waves in (0, *(() if v.workers else gemm_kernel(v.kernel).waves(v.tile)))
    ]
    rows = np.array([i for i, _ in slots])
    filled = np.array([waves * gpu.sm_count for _, waves in slots])
    columns = {f.name: getattr(found, f.name)[rows] for f in fields(found) if f.name != "variants"}
    columns["cut"] = np.maximum(columns["cut"], filled > 0)
    variants = tuple(found.variants[i] for i in rows)
    table = tabulate(Features(variants=variants, **columns), gpu)
    return replace(
        table,
        splits=None,
        slots=filled.astype(_SHORT),
        least_splits=np.where(filled > 0, 2, 1).astype(_SHORT),
        **{name: getattr(table, name).astype(_SHORT) for name in _SHORTENED},
    )


class Sizes(NamedTuple):
    """What a time depends on of an operation, or of one a row.

    m, n and k (at least 1), the batch, the floats of B and of A, and the bytes that must be read
    and written at least once. Arrays without axes: numpy is slower with a number.
    """

    m: Column
    n: Column
    k: Column
    batch: Column
    b_floats: Column
    a_floats: Column
    bytes: Column


def sizes(operation: Operation) -> Sizes:
    """Return the sizes of an operation."""
    o = operation
    floats = float(o.batch * o.k)
    found = (o.m, o.n, o.k or 1, o.batch, floats * o.n, floats * o.m, _compulsory_bytes(o))
    return Sizes(*[np.array(each, _SHORT) for each in found])


def parts(table: Table, of: Sizes) -> Parts:
    """Return the parts of every variant's time."""
    t = table
    # Flat columns of one length throughout: numpy is slow at anything else this small.
    down, across, depth = np.ceil(of.m / t.bm), np.ceil(of.n / t.bn), np.ceil(of.k / t.bk)
    tiles = down * across * of.batch
    if t.is_grouped:
        tiles = np.ceil(tiles / t.products)
    splits = np.floor(np.minimum(np.minimum(t.slots / tiles, depth / t.least_steps), t.most_splits))
    splits = np.maximum(splits, t.one if t.splits is None else t.splits)
    each = np.ceil(depth / splits)
    splits = np.ceil(depth / each)
    blocks = tiles * splits
    waves = blocks / t.room
    # Workers' last wave is a part of one like all others.
    full = np.minimum(np.ceil(waves) - t.own, waves)
    left = np.ceil((blocks - full * t.room) / t.sms)
    last = each * np.maximum(left * t.step, t.floor) + left * t.output
    busy = t.fill + full * (each * t.full_step + t.full_output) + last
    floats = down * of.b_floats + across * of.a_floats
    l2, dram = floats * t.l2_byte, t.dram_byte * of.bytes
    # Workers cut a shared tile anywhere. Parts are read in groups of about their root (splits.cuh);
    # what a tile's own block adds is not written.
    adding = t.part * np.sqrt(splits + t.workers / tiles) + t.moved * (blocks - tiles)
    rest = t.fixed + adding
    total = np.sqrt(busy * busy + l2 * l2 + dram * dram) + rest
    # What is asked about is told, what is chosen is there once and has short sums.
    if t.splits is None:
        never = splits < t.least_splits
        if of.k.item() > t.shortest:
            longest = each * np.minimum(waves + t.own, t.one)  # workers have a part of a tile
            never |= longest > t.most_steps
        np.copyto(total, _NEVER, where=never)
    return Parts(tiles, splits, each, waves, busy, l2, dram, rest, total)


def _compulsory_bytes(o: Operation) -> int:
    """Return what must be read and written at least once; a repeated operand is read once."""
    a = o.m * o.k * (o.batch if o.a.batch else 1)
    b = o.k * o.n * (o.batch if o.b.batch else 1)
    return FLOAT_BYTES * (a + b + o.batch * o.m * o.n * (2 if o.c else 1))
