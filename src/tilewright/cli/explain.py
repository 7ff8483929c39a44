"""`tilewright explain`: what the profiler would count of a kernel, line by line, without a GPU."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tilewright.cli.output import (
    HtmlOption,
    JsonOption,
    check_html,
    check_json,
    output_json,
    output_text,
    print_note,
    print_table,
)
from tilewright.errors import LaunchError, TilewrightError, UnsupportedError

if TYPE_CHECKING:
    from tilewright.bench.explain import Explained, StaticHalf
    from tilewright.emulator.samples import Sampled
    from tilewright.gpus import Gpu
    from tilewright.launchfile import LaunchSpec

_SOURCES = (".cu", ".cuh", ".ptx")
_DEFAULT_SIZE = 4096


def explain(
    target: Annotated[
        str | None,
        typer.Argument(
            help="A rung (name or number), a .cu, .cuh or .ptx file, or a launch .toml."
        ),
    ] = None,
    kernel: Annotated[
        str | None, typer.Option(help="The kernel: a name, or a template such as 'k<float, 4>'.")
    ] = None,
    grid: Annotated[str | None, typer.Option(help="Blocks: 64 or 64,2 or 64,2,1.")] = None,
    block: Annotated[str | None, typer.Option(help="Threads a block: 256 or 16,16.")] = None,
    arg: Annotated[
        list[str] | None,
        typer.Option(help="An argument, in order: 'f32[1024,64]:normal' or 'i32=1024'."),
    ] = None,
    shared_bytes: Annotated[
        int | None, typer.Option(help="Dynamic shared memory of a block, in bytes.")
    ] = None,
    option: Annotated[list[str] | None, typer.Option(help="An option for the compiler.")] = None,
    include_dir: Annotated[list[str] | None, typer.Option(help="A folder of headers.")] = None,
    launch: Annotated[
        str | None, typer.Option(metavar="FILE", help="A TOML file that says all of the above.")
    ] = None,
    gpu: Annotated[str | None, typer.Option(help="A GPU of `tilewright gpus`.")] = None,
    size: Annotated[int | None, typer.Option(help="For a rung: m = n = k.")] = None,
    m: Annotated[int | None, typer.Option(help="For a rung: rows of A and C.")] = None,
    n: Annotated[int | None, typer.Option(help="For a rung: columns of B and C.")] = None,
    k: Annotated[int | None, typer.Option(help="For a rung: columns of A, rows of B.")] = None,
    tries: Annotated[
        int | None,
        typer.Option(
            min=0, help="For a rung: what else to try, the next rung, then other tiles; 1 if unset."
        ),
    ] = None,
    full: Annotated[
        bool, typer.Option("--full", help="Run every block, not up to 256 spread over the grid.")
    ] = False,
    json: JsonOption = None,
    html: HtmlOption = None,
) -> None:
    """Explain a kernel: what Nsight Compute would count, by line, loop and opcode. Needs no GPU.

    The kernel is compiled, run on this machine's CPU and counted, for an H200 or --gpu. A file
    may have host code in it, which is left out. Of a kernel with instructions that cannot be run
    here, a note says which, and its machine code is explained without running it.

    Example: tilewright explain examples/saxpy_program.cu --kernel 'saxpy<float>' --grid 4096
    --block 256 --arg f32=2 --arg f32[1048576]:normal --arg f32[1048576]:normal --arg i32=1048576

    Example: tilewright explain 03_shared_tile --size 1024 --gpu "RTX A6000"
    """
    check_json(json)
    check_html(html)
    sizes: dict[str, int | None] = {"size": size, "m": m, "n": n, "k": k}
    flags: dict[str, object] = {
        "kernel": kernel,
        "shared_bytes": shared_bytes,
        "options": option,
        "include_dirs": include_dir,
        "gpu": gpu,
    }
    if _is_rung(target):
        stray: dict[str, object] = {
            **flags,
            "grid": grid,
            "block": block,
            "arg": arg,
            "launch": launch,
            "gpu": None,
        }
        _refuse(stray, f"{target} is a rung, which launches itself")
        told: Explained | StaticHalf = _rung(str(target), sizes, gpu, tries)
        samples = () if html is None else _samples_of_rung(str(target), sizes, told.gpu)
    else:
        _refuse(sizes | {"tries": tries}, "those are for rungs: a kernel of a file takes --arg")
        spec = _spec(target, launch, grid, block, arg, flags)
        told = _file(spec, full=full)
        samples = () if html is None else _samples_of_file(spec, told)
    if html is not None:
        output_text(_page(told, samples), "--html", html)
    if json is not None:
        output_json(told.to_json(), json)
    if json != "-":
        _print(told)


def _is_rung(target: str | None) -> bool:
    if target is None or Path(target).suffix in (*_SOURCES, ".toml"):
        return False
    if "." in target or "/" in target:
        raise TilewrightError(
            f"{target}: expected a rung, such as 03 or 03_shared_tile, or a file that ends in "
            f"{', '.join(_SOURCES)} or .toml"
        )
    return True


def _refuse(given: Mapping[str, object], why: str) -> None:
    from tilewright.launchfile import flag_of

    names = [flag_of(name) for name, value in given.items() if value is not None]
    if names:
        raise TilewrightError(f"{', '.join(names)}: {why}")


def _rung(name: str, sizes: dict[str, int | None], gpu: str | None, tries: int | None) -> Explained:
    from tilewright.bench.explain import explain_rung
    from tilewright.bench.trials import MOST_TRIED
    from tilewright.cli.sizes import problem_named
    from tilewright.gpus import gpu as find_gpu
    from tilewright.kernels import rung
    from tilewright.launchfile import DEFAULT_GPU

    chosen, many = find_gpu(gpu or DEFAULT_GPU), MOST_TRIED if tries is None else tries
    return explain_rung(rung(name), problem_named(sizes, _DEFAULT_SIZE), chosen, tries=many)


def _spec(
    target: str | None,
    launch: str | None,
    grid: str | None,
    block: str | None,
    arg: list[str] | None,
    flags: dict[str, object],
) -> LaunchSpec:
    """Return the launch that a TOML file or the flags describe."""
    from tilewright.launchfile import launch_from_flags, read_launch_file, with_overrides

    if target is not None and Path(target).suffix == ".toml":
        if launch is not None:
            raise LaunchError(f"{target} and --launch {launch} are two launch files: give one")
        target, launch = None, target
    if launch is None:
        if target is None:
            raise LaunchError("name what to explain: a rung, a .cu or .ptx file, or --launch FILE")
        beside = Path(target).with_suffix(".toml")
        if grid is None and block is None and not arg and beside.is_file():
            raise LaunchError(f"say how to launch {target}: {beside} is beside it, so --launch it")
        if (grid is None or block is None) and not Path(target).is_file():
            raise LaunchError(f"no such source file: {target}")
        return launch_from_flags(target, grid=grid, block=block, args=arg or (), rest=flags)
    _refuse({"grid": grid, "block": block, "arg": arg}, f"{launch} says how to launch")
    rest = {"source": target, "kernel": flags["kernel"], "gpu": flags["gpu"]}
    others = {name: value for name, value in flags.items() if name not in rest}
    _refuse(others, f"{launch} says how to launch")
    return with_overrides(read_launch_file(launch), rest)


def _file(spec: LaunchSpec, *, full: bool) -> Explained | StaticHalf:
    """Explain a launch; what the emulator lacks instructions for, from its machine code alone."""
    from tilewright.bench.explain import SAMPLED_BLOCKS, explain_kernel, static_half
    from tilewright.emulator.prepare import prepare_launch

    ready = prepare_launch(spec)
    folders: list[str | Path] = [Path(spec.source).parent, *spec.include_dirs]
    try:
        return explain_kernel(
            ready,
            spec.make_arguments(),
            blocks=None if full else SAMPLED_BLOCKS,
            folders=folders,
        )
    except UnsupportedError as error:
        half = static_half(ready, error)
        typer.echo(f"note: {error}", err=True)
        return half


def _samples_of_rung(name: str, sizes: dict[str, int | None], gpu: Gpu) -> tuple[Sampled, ...]:
    from tilewright.bench.access_samples import sample_rung
    from tilewright.cli.sizes import problem_named
    from tilewright.kernels import rung

    return sample_rung(rung(name), problem_named(sizes, _DEFAULT_SIZE), gpu)


def _samples_of_file(spec: LaunchSpec, told: Explained | StaticHalf) -> tuple[Sampled, ...]:
    """Return accesses of a launch, on fresh arguments; none of one that cannot be run."""
    from tilewright.bench.access_samples import sample_launch
    from tilewright.bench.explain import StaticHalf, assembled
    from tilewright.emulator.prepare import prepare_launch

    if isinstance(told, StaticHalf):
        return ()
    ready = prepare_launch(spec)
    return sample_launch(assembled(ready), ready.launch, spec.make_arguments())


def _page(told: Explained | StaticHalf, samples: Sequence[Sampled]) -> str:
    from tilewright.bench.explain import StaticHalf
    from tilewright.report.explain_page import explain_page, static_page

    if isinstance(told, StaticHalf):
        return static_page(told)
    return explain_page(told, samples)


def _print_static(half: StaticHalf) -> None:
    """Print what is known of a kernel that cannot be run: what its machine code says."""
    from tilewright.report.explain import occupancy_table
    from tilewright.report.static import machine_code_table

    print_note(
        f"{half.code.kernel} on {half.gpu.name}: not run, so nothing is counted or timed. What its "
        "machine code says:"
    )
    for table in (occupancy_table(half.occupancy), machine_code_table(half.code)):
        if table.rows:
            print_table(table.columns, table.rows, title=table.title)
        for note in table.notes:
            print_note(note)


def _print(explained: Explained | StaticHalf) -> None:
    from tilewright.bench.explain import StaticHalf

    if isinstance(explained, StaticHalf):
        _print_static(explained)
        return
    from tilewright.report.advice import roofline_text, suggestion_texts
    from tilewright.report.explain import (
        counters_table,
        loops_table,
        occupancy_table,
        source_text,
        verdict,
    )
    from tilewright.report.time import time_table

    print_note(verdict(explained))
    tables = [
        *([] if explained.estimate is None else [time_table(explained.estimate)]),
        counters_table(explained),
        occupancy_table(explained.occupancy),
        loops_table(explained),
    ]
    for table in tables:
        if table.rows:
            print_table(table.columns, table.rows, title=table.title)
        for note in table.notes:
            print_note(note)
    if explained.roofline is not None:
        print_note(roofline_text(explained.roofline, explained.gpu.name))
    for line in source_text(explained):
        typer.echo(line)
    if explained.suggestions:
        typer.echo("\nWhat to change first:")
    for text in suggestion_texts(explained.suggestions):
        print_note(text)
