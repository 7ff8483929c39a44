"""The ladder's table: one row a rung, made from records alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from tilewright.records import LadderRecord

Justify = Literal["left", "right"]
SECTOR_BYTES = 32
WARP = 32


@dataclass(frozen=True, slots=True)
class Table:
    """Headers with their justification, rows of text, and the notes that belong below."""

    title: str
    columns: Mapping[str, Justify]
    rows: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...]


def per_fma(r: LadderRecord) -> tuple[float, float, float] | None:
    """Return what a multiply-add takes: bytes, wavefronts and instructions; None uncounted.

    Bytes of global memory (in whole sectors) are for one of a thread; the others for one of a warp.
    """
    c = r.counters
    if c is None or not c.ffma_thread_instructions:
        return None
    fma = c.ffma_thread_instructions
    sectors = c.global_load_sectors + c.global_store_sectors
    wavefronts = c.shared_load_wavefronts + c.shared_store_wavefronts
    return sectors * SECTOR_BYTES / fma, wavefronts * WARP / fma, c.warp_instructions * WARP / fma


def ladder_table(records: Sequence[LadderRecord], published_cublas: Mapping[str, float]) -> Table:
    """Lay out the records of one problem on one GPU.

    `published_cublas` are GFLOP/s by GPU; published figures stand only beside their own GPU.
    """
    first = records[0]
    device = first.backend == "device"
    published = any(r.published_gflops is not None for r in records)
    columns: dict[str, Justify] = {"rung": "left"}
    heads = ["error/\nbound", "regs", "occu-\npancy", "sectors/\nrequest", "bytes/\nFMA"]
    heads += ["waves/\nFMA", "instr/\nFMA"]
    if device:
        heads += ["\nGFLOP/s", "\nspread", "of\ncuBLAS"]
    modelled = any(r.predicted_gflops is not None for r in records)
    if modelled:
        heads += ["model\nGFLOP/s"]
    if published:
        heads += ["publ.\nGFLOP/s", "of\ncuBLAS "]
    columns |= dict.fromkeys(heads, "right")
    rows = tuple(
        (
            *_counts(r),
            *(_timed(r) if device else ()),
            *(_modelled(r) if modelled else ()),
            *(_published(r, published_cublas) if published else ()),
        )
        for r in records
    )
    return Table(
        ladder_title(first), columns, rows, _notes(records, device=device, published=published)
    )


def ladder_title(record: LadderRecord) -> str:
    """Return the problem, and where it was climbed."""
    p = record.problem
    where = "measured on" if record.backend == "device" else "emulated for"
    return f"C = A·B in {p.dtype}, {p.m} x {p.n} x {p.k}, {where} {record.gpu}"


def _counts(r: LadderRecord) -> tuple[str, ...]:
    error = "right" if r.verified else "WRONG"
    if r.verified and r.max_error is not None and r.error_bound:
        error = f"{r.max_error / r.error_bound:.4f}"
    head = (
        r.rung,
        error,
        "-" if r.registers is None else str(r.registers),
        "-" if r.occupancy is None else f"{r.occupancy:.0%}",
    )
    each = per_fma(r)
    if each is None:
        return (*head, "-", "-", "-", "-")
    moved, wavefronts, instructions = each
    return (
        *head,
        "-" if r.sectors_per_request is None else f"{r.sectors_per_request:.4g}",
        mark(r, f"{moved:.3g}", "global_load_sectors"),
        mark(r, f"{wavefronts:.3g}", "shared_load_wavefronts") if wavefronts else "-",
        mark(r, f"{instructions:.3g}", "warp_instructions"),
    )


def mark(r: LadderRecord, text: str, counter: str) -> str:
    """Mark a figure that is not exact with a ~."""
    return text if r.provenance.get(f"counters.{counter}") == "exact" else f"~{text}"


def _timed(r: LadderRecord) -> tuple[str, str, str]:
    if r.measured_gflops is None or r.timing is None:
        return "-", "-", "-"
    share = f"{r.measured_gflops / r.baseline_gflops:.1%}" if r.baseline_gflops else "-"
    return f"{r.measured_gflops:.0f}", f"{r.timing.spread:.1%}", share


def _modelled(r: LadderRecord) -> tuple[str]:
    return ("-" if r.predicted_gflops is None else f"{r.predicted_gflops:.0f}",)


def _published(r: LadderRecord, cublas: Mapping[str, float]) -> tuple[str, str]:
    if r.published_gflops is None:
        return "-", "-"
    share = f"{r.published_gflops / cublas[r.gpu]:.1%}" if r.gpu in cublas else "-"
    return f"{r.published_gflops:.0f}", share


def _notes(records: Sequence[LadderRecord], *, device: bool, published: bool) -> tuple[str, ...]:
    notes = [
        "error/bound: the largest error of the elements checked, against a float64 result, as a "
        "share of what float32 may err; at most 1 is right.",
        "Bytes of global memory (in whole sectors) are for a multiply-add of one thread; waves "
        "(passes through the banks of shared memory) and instructions for one of a warp.",
        "~ derived from the PTX: ptxas may join accesses, and its instructions are its own. "
        "Counts without it are exact.",
    ]
    if device:
        baseline = next((r for r in records if r.baseline_gflops is not None), None)
        if baseline is not None:
            notes.append(
                f"{baseline.baseline}: {baseline.baseline_gflops:.0f} GFLOP/s beside the first "
                "rung. Median of launches with a cold L2; spread is the interquartile range."
            )
    else:
        notes.append(
            "model: what the time model says (docs/model.md has its errors); no figure here is "
            "measured. On a GPU the same command measures."
        )
    if published:
        notes.append(
            f"publ.: what others measured on a {records[0].gpu} with kernels of their own at "
            "4096 x 4096 x 4096, and its share of cuBLAS (siboehm.com/articles/22/CUDA-MMM)."
        )
    return tuple(notes)
