"""The import direction of the design, held by reading every import statement of the package.

A module imports its own package and rows above its own, never a row below. Frameworks come in
inside functions, in three places. `import tilewright` is free of all of them, and quick.
"""

import ast
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

import tilewright

PACKAGE = Path(tilewright.__file__).parent
SOURCES = sorted(PACKAGE.rglob("*.py"))

# Top to bottom: a row imports the ones before it. Names in one row may import one another.
ROWS = (
    ("errors", "dtypes", "problem", "counters", "accesses", "trace", "records", "settings"),
    ("launch", "launchargs", "launchfile", "arguments"),
    ("gpus",),
    ("layouts",),
    ("toolchain",),
    ("kernels",),
    ("emulator",),
    ("device",),
    ("model",),
    ("bench",),
    ("tuning",),
    ("study",),
    ("report",),
    ("api", "frameworks"),
    ("cli", "__main__"),
)
RANK = {name: rank for rank, row in enumerate(ROWS) for name in row}
STRANGERS = {"emulator", "device", "model"}  # they meet in tests alone

FRAMEWORKS = ("torch", "jax", "cupy", "triton", "nvmath", "cuda.core")
FRAMEWORK_PLACES = ("device/", "frameworks/", "bench/baselines.py")


class Import(NamedTuple):
    """One imported module, where it is imported, and whether only a function runs it."""

    module: str
    line: int
    lazy: bool


def imports(source: str, module: str) -> Iterator[Import]:
    """Yield what `source`, the text of `module`, imports anywhere; names count as submodules."""

    def visit(node: ast.AST, lazy: bool) -> Iterator[Import]:
        match node:
            case ast.Import():
                yield from (Import(a.name, node.lineno, lazy) for a in node.names)
            case ast.ImportFrom():
                base = node.module or ""
                if node.level:
                    above = module.split(".")[: -node.level]
                    base = ".".join([*above, base] if base else above)
                yield from (Import(f"{base}.{a.name}", node.lineno, lazy) for a in node.names)
            case ast.Call(
                func=ast.Name(id="import_module" | "__import__")
                | ast.Attribute(attr="import_module" | "__import__"),
                args=[ast.Constant(value=str(name)), *_],
            ):
                yield Import(name, node.lineno, lazy)
        inside = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        for child in ast.iter_child_nodes(node):
            yield from visit(child, lazy or inside)

    yield from visit(ast.parse(source), lazy=False)


def dotted(path: Path) -> str:
    """Return the module name of a file; a package is its `__init__`, so that `.` resolves."""
    return ".".join(("tilewright", *path.relative_to(PACKAGE).with_suffix("").parts))


def home(module: str) -> str | None:
    """Return the row member that `module` belongs to, None outside the package and its root."""
    parts = module.split(".")
    if parts[0] != "tilewright" or len(parts) < 2 or parts[1] == "__init__":
        return None
    return parts[1]


def upward(source: str, module: str) -> list[str]:
    """Return the imports of `module` that go against the rows."""
    own = home(module)
    if own is None:
        return []  # the package's root names its public functions and loads them on use
    found = []
    for imported in imports(source, module):
        other = home(imported.module)
        if other is None or other == own or other not in RANK:
            continue
        if RANK[other] > RANK[own] or {own, other} <= STRANGERS:
            found.append(f"{module}:{imported.line} imports {imported.module}")
    return found


def misplaced(source: str, path: str) -> list[str]:
    """Return the framework imports of `path` at its top, or in a place that may have none."""
    found = []
    for imported in imports(source, "tilewright." + path.removesuffix(".py").replace("/", ".")):
        framework = any(f"{imported.module}.".startswith(f"{f}.") for f in FRAMEWORKS)
        if framework and not (imported.lazy and path.startswith(FRAMEWORK_PLACES)):
            found.append(f"{path}:{imported.line} imports {imported.module}")
    return found


@pytest.mark.parametrize("path", SOURCES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_no_module_imports_a_row_below(path: Path) -> None:
    own = home(dotted(path))
    assert own is None or own in RANK, f"{own} has no row yet: give it one in ROWS, and in design"
    assert upward(path.read_text(encoding="utf-8"), dotted(path)) == []


@pytest.mark.parametrize("path", SOURCES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_frameworks_are_imported_in_functions_and_in_their_places(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert misplaced(text, path.relative_to(PACKAGE).as_posix()) == []


@pytest.mark.parametrize(
    ("module", "source", "bad"),
    [
        ("tilewright.gpus.occupancy", "from tilewright.errors import LaunchError", 0),
        ("tilewright.gpus.occupancy", "from tilewright.gpus.table import gpu", 0),
        ("tilewright.gpus.occupancy", "from tilewright.toolchain import nvrtc", 1),
        ("tilewright.gpus.occupancy", "import tilewright.cli.output", 1),
        ("tilewright.gpus.occupancy", "from tilewright import model", 1),
        ("tilewright.gpus.occupancy", "def f():\n    from tilewright.cli import app", 1),
        ("tilewright.gpus.occupancy", "from ..cli import app", 1),
        ("tilewright.gpus.occupancy", "from . import table", 0),
        ("tilewright.gpus.__init__", "from .table import gpu", 0),
        ("tilewright.gpus.__init__", "from ..bench import timing", 1),
        ("tilewright.errors", "from tilewright.counters import Counters", 0),
        ("tilewright.errors", "importlib.import_module('tilewright.api')", 1),
        ("tilewright.device.executor", "from tilewright.emulator import run", 1),
        ("tilewright.model.time", "from tilewright.device import probe", 1),
        ("tilewright.cli.ladder", "from tilewright import api, emulator, device", 0),
        ("tilewright.__init__", "from tilewright.api import emulate", 0),
    ],
)
def test_the_direction_check_sees_what_it_should(module: str, source: str, bad: int) -> None:
    assert len(upward(source, module)) == bad


@pytest.mark.parametrize(
    ("path", "source", "bad"),
    [
        ("device/session.py", "def f():\n    import torch", 0),
        ("device/session.py", "import torch", 1),
        ("device/session.py", "class A:\n    import cupy", 1),
        ("device/session.py", "def f():\n    from cuda.core import Device", 0),
        ("device/session.py", "from cuda import core", 1),
        ("toolchain/nvrtc.py", "from cuda.bindings import nvrtc", 0),
        ("toolchain/nvrtc.py", "def f():\n    from cuda.core import Program", 1),
        ("bench/timing.py", "def f():\n    import torch.utils", 1),
        ("bench/baselines.py", "def f():\n    import nvmath.linalg", 0),
        ("cli/doctor.py", "def f():\n    importlib.import_module('torch')", 1),
        ("cli/doctor.py", "def f():\n    importlib.util.find_spec('torch')", 0),
        ("gpus/table.py", "import torchlike", 0),
    ],
)
def test_the_framework_check_sees_what_it_should(path: str, source: str, bad: int) -> None:
    assert len(misplaced(source, path)) == bad


def test_import_tilewright_pulls_in_no_framework_and_no_cuda() -> None:
    heavy = {"torch", "cupy", "jax", "triton", "nvmath", "cuda", "llvmlite", "numpy", "typer"}
    code = f"import sys, tilewright; print(sorted({heavy!r} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_import_tilewright_takes_under_three_tenths_of_a_second() -> None:
    def seconds(code: str) -> float:
        start = time.perf_counter()
        subprocess.run([sys.executable, "-c", code], check=True)
        return time.perf_counter() - start

    seconds("import tilewright")  # the first one may compile bytecode
    extra = [seconds("import tilewright") - seconds("pass") for _ in range(5)]
    assert statistics.median(extra) < 0.3
