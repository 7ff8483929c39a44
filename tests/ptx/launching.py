"""A whole kernel from the text of its body, for the tests of what threads do together."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from tilewright.launch import Launch
from tilewright.toolchain import artifact_from_ptx

Executor = Callable[..., object]

# Registers that a body may use: predicates, 16, 32 and 64 bits, and floats.
_REGISTERS = """
.reg .pred %p<32>; .reg .b16 %h<64>; .reg .b32 %r<256>; .reg .b64 %d<128>; .reg .f32 %f<64>;
.reg .f64 %g<32>; .reg .b32 %thread, %lane, %cta;"""


def launch(
    executor: Executor,
    body: str,
    *args: npt.NDArray[Any] | np.generic,
    grid: int = 1,
    block: int = 64,
    shared: int = 0,
    head: str = "",
    target: str = "sm_90",
    version: str = "8.6",
) -> None:
    """Run a kernel of this body: argument i is %a<i>, a global address or a 32 or 64-bit value.

    %thread, %lane and %cta hold the thread's, lane's and block's number; `head` declares variables.
    """
    declared = ", ".join(f".param .b{_bits_of(a)} p{i}" for i, a in enumerate(args))
    lines = [
        f".reg .b{_bits_of(a)} %a{i}; ld.param.b{_bits_of(a)} %a{i}, [p{i}];"
        for i, a in enumerate(args)
    ]
    lines += [
        f"cvta.to.global.u64 %a{i}, %a{i};" for i, a in enumerate(args) if isinstance(a, np.ndarray)
    ]
    text = (
        f".version {version}\n.target {target}\n.address_size 64\n{head}\n"
        f".visible .entry kernel({declared})\n{{{_REGISTERS}\n"
        + "\n".join(lines)
        + "\nmov.u32 %thread, %tid.x; mov.u32 %cta, %ctaid.x; mov.u32 %lane, %laneid;\n"
        f"{body}\n}}\n"
    )
    shape = Launch(grid=(grid, 1, 1), block=(block, 1, 1), shared_bytes=shared)
    executor(artifact_from_ptx(text, "kernel"), shape, list(args))


def _bits_of(arg: npt.NDArray[Any] | np.generic) -> int:
    return 64 if isinstance(arg, np.ndarray) else 8 * arg.dtype.itemsize
