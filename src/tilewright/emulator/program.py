"""A kernel built for the emulator: PTX parsed, planned and compiled for one launch shape."""

from __future__ import annotations

import contextlib
import gc
import hashlib
import re
import threading
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tilewright.emulator.ahead import arithmetic_ahead
from tilewright.emulator.copies import copies_ir
from tilewright.emulator.driver import driver_ir
from tilewright.emulator.frame import Frame, Layout, grid_bits
from tilewright.emulator.inline import inline_calls
from tilewright.emulator.jit import Compiled, compile_modules, host
from tilewright.emulator.lanes import Source
from tilewright.emulator.plan import Plan, plan
from tilewright.emulator.runtime import runtime_ir
from tilewright.emulator.translate import Translator
from tilewright.errors import LaunchError, UnknownNameError
from tilewright.launch import Launch
from tilewright.toolchain.artifact import Artifact
from tilewright.toolchain.ptx.ir import Module
from tilewright.toolchain.ptx.parser import parse

_MOST_PROGRAMS = 64
_MOST_MODULES = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """Compiled code and what a run needs to know of it."""

    kernel: str
    layout: Layout
    plan: Plan
    compiled: Compiled
    state_bytes: int
    scratch_bytes: int
    max_events: int
    offsets: Mapping[int, tuple[int, ...]]  # of the lanes' addresses, where the code fixes them
    copies: bool  # whether the kernel has asynchronous copies
    counting: bool


class _Recent(OrderedDict):  # type: ignore[type-arg]
    """A mapping that forgets what was not used for longest."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self.most = most

    def put(self, key: object, value: object) -> None:
        """Add an entry."""
        self[key] = value
        while len(self) > self.most:
            self.popitem(last=False)


_programs = _Recent(_MOST_PROGRAMS)
_modules = _Recent(_MOST_MODULES)
_kernels = _Recent(_MOST_MODULES)  # flat, as they are planned
_lock = threading.Lock()  # of the programs that there are
_building = threading.Lock()


def build(
    artifact: Artifact, launch: Launch, *, counting: bool, given: bytes | None = None
) -> Program:
    """Compile `artifact` for the block of `launch`, or return what was compiled before.

    `given` are the kernel's parameters, as they are in memory: what they rule out is left out.

    Raises:
        UnsupportedError: an instruction that the emulator lacks, with its source line.
        LaunchError: a kernel that was compiled for another block size.
    """
    digest = hashlib.sha256(artifact.ptx.encode()).digest()
    sizes = tuple(grid_bits(n) for n in launch.grid)
    key = (digest, artifact.symbol, launch.block, sizes, launch.shared_bytes, counting, given)
    program = _built(key)
    if program is None:
        with _building:  # one at a time, each once; who finds what there is does not wait for it
            program = _built(key)
            if program is None:
                with _uncollected():
                    program = _build(artifact, digest, launch, counting, given)
                with _lock:
                    _programs.put(key, program)
    return program


@contextlib.contextmanager
def _uncollected() -> Iterator[None]:
    """Keep the garbage collector from a build's objects, hundred thousands that are all in use."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _built(key: object) -> Program | None:
    with _lock:
        program: Program | None = _programs.get(key)
        if program is not None:
            _programs.move_to_end(key)
    return program


def module_of(artifact: Artifact, digest: bytes | None = None) -> Module:
    """Return the parsed PTX of an artifact."""
    key = digest or hashlib.sha256(artifact.ptx.encode()).digest()
    if key not in _modules:
        _modules.put(key, parse(artifact.ptx))
    return _modules[key]  # type: ignore[no-any-return]


def layout_of(artifact: Artifact, launch: Launch) -> Layout:
    """Return where a kernel's variables are, without translating its code.

    Raises:
        LaunchError: a kernel that was compiled for another block size.
    """
    return _layout(artifact, hashlib.sha256(artifact.ptx.encode()).digest(), launch)


def _layout(
    artifact: Artifact, digest: bytes, launch: Launch, given: bytes | None = None
) -> Layout:
    module = module_of(artifact, digest)
    function = module.functions.get(artifact.symbol)
    if function is None or not function.is_entry:
        entries = [f.name for f in module.functions.values() if f.is_entry]
        raise UnknownNameError("kernel", artifact.symbol, entries)
    _check_block(function.directives, launch, artifact.name)
    key = digest, artifact.symbol
    if key not in _kernels:
        _kernels.put(key, arithmetic_ahead(inline_calls(module, function)))
    return Layout(module, _kernels[key], launch, given)


def _build(
    artifact: Artifact, digest: bytes, launch: Launch, counting: bool, given: bytes | None
) -> Program:
    layout = _layout(artifact, digest, launch, given)
    function = layout.function
    source = Source(
        layout.warps,
        layout.special_shape,
        layout.symbol_shape,
        layout.local_window,
        layout.param_shape,
    )
    decided = plan(function, source, launch.threads)
    frame = Frame(layout, decided.shapes)
    translator = Translator(decided, frame, host().width, counting=counting)
    text = with_attributes(str(translator.build()))
    runtime = (
        runtime_ir() + copies_ir() + driver_ir(layout.warps, launch.threads, frame.state_bytes)
    )
    return Program(
        kernel=artifact.name,
        layout=layout,
        plan=decided,
        compiled=compile_modules([text, runtime], level=0 if counting else 1),
        state_bytes=frame.state_bytes,
        scratch_bytes=translator.scratch_bytes,
        max_events=translator.max_events,
        offsets=translator.offsets,
        copies=any(ins.opcode == "cp" for ins in function.body),
        counting=counting,
    )


def with_attributes(text: str) -> str:
    """Let the kernel's code use the host's whole vectors."""
    bits = 32 * host().width
    group = f'"prefer-vector-width"="{bits}" "min-legal-vector-width"="{bits}"'
    marked = re.sub(r"^(define [^\n]*\))(?=\n\{)", r"\1 #0", text, flags=re.MULTILINE)
    return f"{marked}\nattributes #0 = {{ nounwind {group} }}\n"


def _check_block(directives: object, launch: Launch, kernel: str) -> None:
    limits = directives.get("maxntid") if isinstance(directives, dict) else None
    exact = directives.get("reqntid") if isinstance(directives, dict) else None
    if exact is not None and tuple((*exact, 1, 1)[:3]) != launch.block:
        raise LaunchError(f"kernel {kernel} is compiled for blocks of {exact}, got {launch.block}")
    if limits is not None:
        most = 1
        for n in limits:
            most *= n
        if launch.threads > most:
            raise LaunchError(
                f"kernel {kernel} is compiled for at most {most} threads a block "
                f"(__launch_bounds__), got {launch.threads}: launch smaller blocks or raise it"
            )
