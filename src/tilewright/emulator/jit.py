"""LLVM IR to machine code for the host."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import llvmlite.binding as llvm

_LOCK = threading.Lock()


@dataclass(frozen=True, slots=True)
class Host:
    """The processor that code is made for. `width` is how many float32 its vectors hold."""

    cpu: str
    features: str
    width: int


@cache
def host() -> Host:
    """Return what this machine's processor is."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    features = llvm.get_host_cpu_features()
    width = 16 if features.get("avx512f") and features.get("avx512bw") else 8
    return Host(llvm.get_host_cpu_name(), features.flatten(), width)


@dataclass(frozen=True, slots=True)
class Compiled:
    """Machine code: `run(context, blocks, count)`. Keeps the memory of its code alive."""

    run: Callable[[int, int, int], int]
    engine: object


def compile_modules(texts: list[str], *, level: int = 1) -> Compiled:
    """Compile and link LLVM modules; `tw_run` is the entry.

    Level 0 takes half as long as level 1, and its code a seventh longer where it computes: for runs
    whose time goes into counting events. Level 2 adds little but a second instruction scheduling.
    It takes half as long again, and the code of the ladder's kernels runs no faster.
    """
    machine_host = host()
    with _LOCK:
        target = llvm.Target.from_default_triple()
        machine = target.create_target_machine(
            cpu=machine_host.cpu, features=machine_host.features, opt=level, jit=True
        )
        main, *others = [_parse(text) for text in texts]
        for other in others:
            main.link_in(other)
        main.verify()
        engine = llvm.create_mcjit_compiler(main, machine)
        engine.finalize_object()
        address = engine.get_function_address("tw_run")
    kind = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)
    return Compiled(kind(address), engine)


def _parse(text: str) -> llvm.ModuleRef:
    module = llvm.parse_assembly(text)
    module.triple = llvm.get_process_triple()
    return module
