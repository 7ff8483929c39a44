"""The CPU emulator: PTX compiled for the host, a warp as a vector. `run` is the way in."""

from tilewright.emulator.engine import build_for, run

__all__ = ["build_for", "run"]
