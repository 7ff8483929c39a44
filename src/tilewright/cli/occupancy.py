"""`tilewright occupancy`: how many blocks of a kernel fit on an SM, and what limits them."""

from __future__ import annotations

from typing import Annotated

import typer

from tilewright.cli.output import (
    JsonOption,
    Justify,
    check_json,
    output_json,
    print_note,
    print_table,
)
from tilewright.gpus import Gpu, Occupancy, Resource, hint
from tilewright.gpus import gpu as find_gpu
from tilewright.gpus import occupancy as count


def occupancy(
    gpu: Annotated[str, typer.Option(help="A GPU of `tilewright gpus`.")],
    threads: Annotated[int, typer.Option(help="Threads a block.")],
    registers: Annotated[int, typer.Option(help="Registers a thread, as the compiler reports.")],
    shared: Annotated[int, typer.Option(help="Static shared memory a block, in bytes.")] = 0,
    dynamic: Annotated[int, typer.Option(help="Dynamic shared memory a block, in bytes.")] = 0,
    carveout: Annotated[
        int | None,
        typer.Option(help="Preferred shared memory, in percent of the most; default: the most."),
    ] = None,
    json: JsonOption = None,
) -> None:
    """Count the blocks of a kernel that fit on an SM, and say why.

    Example: tilewright occupancy --gpu a6000 --threads 256 --registers 128
    """
    check_json(json)
    chosen = find_gpu(gpu)
    found = count(
        gpu=chosen,
        threads=threads,
        registers=registers,
        shared_bytes=shared,
        dynamic_shared_bytes=dynamic,
        carveout=carveout,
    )
    advice = hint(chosen, found)
    if json is not None:
        output_json(found.to_json() | {"hint": advice}, json)
    if json != "-":
        _print(chosen, found, advice)


def _print(gpu: Gpu, found: Occupancy, advice: str) -> None:
    print_note(
        f"{gpu.name}: {found.active_blocks} blocks an SM, {found.active_warps} of "
        f"{found.max_warps} warps, {found.fraction:.1%} occupancy; "
        f"limited by {' and '.join(found.limiters)}"
    )
    rows = [_row(gpu, found, resource) for resource in found.limits]
    columns: dict[str, Justify] = {
        "resource": "left",
        "a block takes": "left",
        "an SM has": "left",
        "blocks that fit": "right",
        "": "left",
    }
    print_table(columns, rows)
    print_note(f"hint: {advice}")


def _row(gpu: Gpu, found: Occupancy, resource: Resource) -> tuple[str, ...]:
    own = gpu.limits
    takes, has = {
        "warps": (f"{found.warps_per_block} ({found.threads} threads)", str(own.max_warps)),
        "blocks": ("1", str(own.max_blocks)),
        "registers": (
            f"{found.registers_per_block} ({found.registers} a thread)",
            str(own.registers),
        ),
        "shared": (_shared(gpu, found), f"{found.carveout_bytes} bytes"),
    }[resource]
    fit = found.limits[resource]
    limiter = "<- limits" if resource in found.limiters else ""
    return resource, takes, has, "any" if fit is None else str(fit), limiter


def _shared(gpu: Gpu, found: Occupancy) -> str:
    taken = f"{found.shared_bytes_per_block} bytes"
    used = found.shared_bytes + found.dynamic_shared_bytes
    if used == found.shared_bytes_per_block:
        return taken
    reserved = gpu.limits.shared_bytes_reserved
    share = f" + {reserved} the driver's" if reserved else ""
    return f"{taken} ({used}{share})"
