"""One run of NVRTC through its binding: text in, everything it made out."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, cast

from tilewright.errors import CompileError
from tilewright.toolchain.apart import changes_later_compiles, run_apart
from tilewright.toolchain.toolkit import Nvrtc


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What one run gave.

    `verdict` is `compiled`, `refused` (the source) or `bad option`. `ptx` is there without
    `cubin` where ptxas refused it; `symbol` is the lowered name of the expression.
    """

    verdict: Literal["compiled", "refused", "bad option"]
    log: str
    ptx: str = ""
    cubin: bytes = b""
    symbol: str = ""


def run_nvrtc(
    nvrtc: Nvrtc,
    *,
    text: str,
    path: str,
    expression: str,
    options: Sequence[str],
    headers: Mapping[str, str] | None = None,
) -> Outcome:
    """Compile `text`, which NVRTC knows as the file `path`, and lower the name `expression`.

    `headers` are texts by the name that an `#include` gives; they come before files of that name.

    Options that NVRTC remembers are compiled with in a process of its own (apart.py).

    Raises:
        CompileError: NVRTC failed in a way that is not about the source or the options.
    """
    run: Callable[..., Outcome] = functools.partial(run_nvrtc_here, nvrtc)
    if changes_later_compiles(options):
        run = run_apart
    return run(text=text, path=path, expression=expression, options=options, headers=headers)


def run_nvrtc_here(
    nvrtc: Nvrtc,
    *,
    text: str,
    path: str,
    expression: str,
    options: Sequence[str],
    headers: Mapping[str, str] | None,
) -> Outcome:
    """Do what `run_nvrtc` does, in this process whatever the options are."""
    api = nvrtc.api
    names = [name.encode() for name in headers or {}]
    texts = [header.encode() for header in (headers or {}).values()]
    program = _value(
        nvrtc,
        api.nvrtcCreateProgram(text.encode(), path.encode(), len(names), texts, names),
    )
    try:
        name = expression.encode()
        _value(nvrtc, api.nvrtcAddNameExpression(program, name))
        (status,) = api.nvrtcCompileProgram(program, len(options), [o.encode() for o in options])
        log = _text(nvrtc, program, "ProgramLog")
        if status == api.nvrtcResult.NVRTC_ERROR_INVALID_OPTION:
            return Outcome(verdict="bad option", log=log)
        if status == api.nvrtcResult.NVRTC_ERROR_COMPILATION:
            made = api.nvrtcGetPTXSize(program)[0] == api.nvrtcResult.NVRTC_SUCCESS
            ptx = _text(nvrtc, program, "PTX") if made else ""
            return Outcome(verdict="refused", log=log, ptx=ptx)
        _value(nvrtc, (status,))
        symbol = cast("bytes", _value(nvrtc, api.nvrtcGetLoweredName(program, name)))
        return Outcome(
            verdict="compiled",
            log=log,
            ptx=_text(nvrtc, program, "PTX"),
            cubin=_output(nvrtc, program, "CUBIN"),
            symbol=symbol.decode(),
        )
    finally:
        api.nvrtcDestroyProgram(program)


def _value(nvrtc: Nvrtc, result: tuple[object, ...]) -> object:
    """Return the value of an NVRTC call, or raise what NVRTC says went wrong."""
    status, *values = result
    if status != nvrtc.api.nvrtcResult.NVRTC_SUCCESS:
        _, words = nvrtc.api.nvrtcGetErrorString(status)
        raise CompileError(f"{nvrtc.label} failed: {words.decode()}")
    return values[0] if values else None


def _output(nvrtc: Nvrtc, program: object, what: str) -> bytes:
    size = cast("int", _value(nvrtc, getattr(nvrtc.api, f"nvrtcGet{what}Size")(program)))
    # The binding writes into it: bytes of one, such as an empty log, are Python's own for all.
    buffer = bytearray(size)
    _value(nvrtc, getattr(nvrtc.api, f"nvrtcGet{what}")(program, buffer))
    return bytes(buffer)


def _text(nvrtc: Nvrtc, program: object, what: str) -> str:
    return _output(nvrtc, program, what).decode(errors="replace").rstrip("\0")
