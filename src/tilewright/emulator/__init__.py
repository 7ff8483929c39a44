"""The CPU emulator: PTX compiled for the host, a warp as a vector. `run` is the way in."""

from tilewright.emulator.engine import run

__all__ = ["run"]
