"""`tilewright gpus`: the GPUs that tilewright knows, and where every figure comes from."""

from __future__ import annotations

from typing import Annotated

import typer

from tilewright.cli.output import (
    JsonOption,
    Justify,
    binary,
    check_json,
    output_json,
    print_note,
    print_table,
    si,
)
from tilewright.gpus import GPUS, Figure, Gpu
from tilewright.gpus import gpu as find_gpu


def gpus(
    name: Annotated[
        str | None, typer.Argument(help="One GPU, to see each figure with its source.")
    ] = None,
    json: JsonOption = None,
) -> None:
    """List the known GPUs, or one with the source of every figure.

    Example: tilewright gpus "RTX A6000"
    """
    check_json(json)
    chosen = GPUS if name is None else (find_gpu(name),)
    if json is not None:
        output_json({"gpus": [g.to_json() for g in chosen]}, json)
    if json == "-":
        return
    if name is None:
        _print_all(chosen)
    else:
        _print_one(chosen[0])


def _print_all(gpus: tuple[Gpu, ...]) -> None:
    columns: dict[str, Justify] = {
        "GPU": "left",
        "arch": "left",
        "SMs": "right",
        "boost MHz": "right",
        "fp32 TFLOP/s": "right",
        "fp16 TFLOP/s": "right",
        "L2 MiB": "right",
        "DRAM GiB": "right",
        "DRAM GB/s": "right",
    }
    rows = [
        (
            g.name,
            g.arch if g.compilable else f"{g.arch} *",
            str(g.sm_count),
            f"{g.boost_clock_hz / 1e6:.0f}",
            f"{g.fp32_flops_per_s / 1e12:.3g}",
            _scaled(g.fp16_tensor_flops_per_s, 1e12),
            _scaled(g.l2_bytes, 2**20),
            _scaled(g.dram_bytes, 2**30),
            _scaled(g.dram_bytes_per_s, 1e9),
        )
        for g in gpus
    ]
    print_table(columns, rows)
    typer.echo("fp32: peak at the boost clock. fp16: dense, by tensor cores, float32 accumulated.")
    typer.echo("* no compiler for it here: occupancy and specifications only.")
    typer.echo("tilewright gpus NAME shows every figure with its source.")


def _scaled(value: float | None, unit: float) -> str:
    return "-" if value is None else f"{value / unit:.4g}"


def _print_one(gpu: Gpu) -> None:
    typer.echo(
        f"{gpu.name}: {gpu.arch}"
        + ("" if gpu.compilable else ", no compiler for it here: occupancy and specifications only")
    )
    if gpu.aliases:
        typer.echo(f"also called: {', '.join(gpu.aliases)}")
    rows = [(f.name, _value(f), f.source.grade, f.source.text) for f in gpu.figures()]
    print_table({"figure": "left", "value": "left", "grade": "left", "source": "left"}, rows)
    print_note(
        "grade: vendor (NVIDIA's own document), reading (from a card), reported (a third party), "
        "derived (arithmetic), recalled (from memory: check before quoting)."
    )


def _value(figure: Figure) -> str:
    value, unit = figure.value, figure.unit
    if value is None:
        return "none"
    if isinstance(value, tuple):
        return f"{len(value)} sizes to {binary(value[-1])}" if value[1:] else "fixed"
    if unit in ("Hz", "FLOP/s", "bytes/s"):
        return si(value, unit.replace("bytes", "B"))
    if unit.startswith("bytes") and isinstance(value, int):
        return binary(value) + unit.removeprefix("bytes")
    return f"{value} {unit}"
