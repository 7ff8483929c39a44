"""Runs a kernel on a real GPU, with the interface of the emulator."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

import numpy as np

from tilewright.arguments import check_arguments
from tilewright.device.memory import Arena, place
from tilewright.device.session import open_session
from tilewright.errors import DeviceError
from tilewright.launch import Argument, Array, Launch, Run, Struct
from tilewright.toolchain.artifact import Artifact


def run(artifact: Artifact, launch: Launch, args: Sequence[Argument], *, ordinal: int = 0) -> Run:
    """Launch one kernel on GPU number `ordinal` and wait for it; arrays are written in place.

    Arrays are copied to the GPU and back. One that owns its memory starts at a multiple of 256
    bytes there; a view keeps its offset in its owner modulo 256.

    Units: `Run.seconds` is host time from the launch until the GPU is done, copies not counted.

    Raises:
        LaunchError: arguments that do not fit the kernel, or a limit passed; nothing is launched.
        DeviceError: no GPU, code for another one, or a fault of the kernel; the arrays are then
            as they were.
    """
    session = open_session(ordinal)
    session.enter()
    kernel = session.load(artifact)
    checked = check_arguments(args, kernel.param_sizes, artifact.name)
    arrays = [array for arg in checked for array in _arrays(arg)]
    with Arena(session) as arena:
        places = place(arena, arrays)
        values = [_value(arg, places) for arg in checked]
        queue = kernel.bind(launch, values)
        session.synchronize()
        began = time.perf_counter()
        queue()
        try:
            session.synchronize()
        except DeviceError as error:
            raise DeviceError(f"kernel {artifact.name}, {launch}: {error}") from error
        seconds = time.perf_counter() - began
        for array in arrays:
            arena.read(array, places[id(array)])
    return Run(
        kernel=artifact.name,
        launch=launch,
        backend="device",
        blocks=launch.blocks,
        seconds=seconds,
    )


def _arrays(arg: Argument) -> tuple[Array, ...]:
    if isinstance(arg, Struct):
        return tuple(arg.arrays.values())
    return (arg,) if isinstance(arg, np.ndarray) else ()


def _value(arg: Argument, places: Mapping[int, int]) -> np.generic:
    if isinstance(arg, Struct):
        return arg.packed(lambda array: places[id(array)])
    return np.uint64(places[id(arg)]) if isinstance(arg, np.ndarray) else arg
