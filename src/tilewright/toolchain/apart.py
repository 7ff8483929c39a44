"""NVRTC in a process of its own, for what would change every later compile in this one.

After a compile with -G, NVRTC 13.0 and 13.5 optimise all later ones of the process less: a kernel
of `tiled` gets a tenth more machine code, whatever options it is compiled with, and the compile
cache would keep it for other processes.
"""

from __future__ import annotations

import pickle
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

from tilewright.errors import CompileError

_DEBUG = frozenset({"-G", "--device-debug"})
_CHILD = """
import pickle, sys
sys.path[:], arguments = pickle.load(sys.stdin.buffer)
from tilewright.toolchain.program import run_nvrtc_here
from tilewright.toolchain.toolkit import load_nvrtc
sys.stdout.buffer.write(pickle.dumps(run_nvrtc_here(load_nvrtc(), **arguments)))
"""


def changes_later_compiles(options: Sequence[str]) -> bool:
    """Return whether NVRTC remembers some of the options."""
    return not _DEBUG.isdisjoint(options)


def run_apart(**arguments: Any) -> Any:  # noqa: ANN401 - an Outcome, of program.py above this
    """Return what `run_nvrtc_here` gives for the arguments in another process.

    Raises:
        CompileError: NVRTC, or the process, failed.
    """
    done = subprocess.run(
        [sys.executable, "-c", _CHILD],
        input=pickle.dumps((sys.path, arguments)),
        capture_output=True,
    )
    if done.returncode != 0:
        said = done.stderr.decode(errors="replace").strip().splitlines()
        raise CompileError(f"NVRTC in a process of its own failed: {said[-1] if said else ''}")
    return pickle.loads(done.stdout)
