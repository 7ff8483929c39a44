"""Launching kernels that go wrong: the source line marked `// HERE` is where the fault must be."""

from collections.abc import Sequence

import numpy as np
import pytest

from tilewright.emulator import run
from tilewright.errors import EmulationError
from tilewright.launch import Argument, Launch
from tilewright.toolchain import compile_cuda

HEAD = 'extern "C" __global__ void k'


def launch(
    code: str,
    args: Sequence[Argument],
    grid: object = 1,
    block: object = 32,
    shared_bytes: int = 0,
    arch: str = "sm_90",
    **rest: object,
) -> None:
    shape = Launch(grid=grid, block=block, shared_bytes=shared_bytes)
    run(compile_cuda(code, "k", arch=arch), shape, args, workers=rest.pop("workers", 1), **rest)


def line_of(code: str) -> int:
    """The line that is marked `// HERE`."""
    return next(n for n, text in enumerate(code.splitlines(), 1) if "// HERE" in text)


def fault(kind: type[EmulationError], code: str, *args: object, **rest: object) -> EmulationError:
    """Launch, and return the error of this kind at the marked line."""
    with pytest.raises(kind) as caught:
        launch(code, *args, **rest)
    assert type(caught.value) is kind
    assert caught.value.site.kernel == "k"
    assert caught.value.site.source_file == "kernel.cu"
    assert caught.value.site.source_line == line_of(code)
    return caught.value


def address_of_first() -> int:
    """The address that a kernel gets for its first argument."""
    out = np.zeros(1, np.uint64)
    launch(
        HEAD + "(void* x, unsigned long long* out) { *out = (unsigned long long)x; }",
        [np.zeros(64, np.float32), out],
        block=1,
    )
    return int(out[0])
