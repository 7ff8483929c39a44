"""What became of one variant of one product on one machine."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal, TypeAlias

from tilewright.device.probe import require_device
from tilewright.errors import DeviceError, ToolchainError
from tilewright.gpus import by_device_name
from tilewright.kernels.gemm.kernel import Variant
from tilewright.records import require
from tilewright.toolchain import load_nvrtc

State: TypeAlias = Literal["timed", "wrong", "failed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """What a time depends on beside the product: GPU, driver and compiler, as they name themselves.

    `gpu` is the name in the GPU table, where it is there.
    """

    gpu: str
    driver: str
    toolkit: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """One variant tried: "timed" (verified before), "wrong", or "failed" (compile, launch, memory).

    `operation` is an `Operation.key`; `message` says what was wrong. `commit` is that of the source
    tree, None for an installed package.

    Units: `median_s` seconds, None unless timed; `spread` the interquartile range over the median;
    `measure_s` the device time spent on it, in seconds.
    """

    machine: Machine
    operation: str
    variant: Variant
    state: State
    median_s: float | None = None
    spread: float | None = None
    measure_s: float = 0.0
    message: str = ""
    date: str = ""
    commit: str | None = None

    def to_json(self) -> dict[str, object]:
        """Return plain JSON values, by field name."""
        return asdict(self) | {"variant": self.variant.to_json()}

    @classmethod
    def from_json(cls, data: Mapping[str, object]) -> Trial:
        """Rebuild what `to_json` wrote.

        Raises:
            TileError: a tile that is not legal any more.
            TypeError: a value of another kind.
        """
        require(data, {"machine": dict, "operation": str, "state": str})
        values: dict[str, Any] = dict(data)
        require(values["machine"], dict.fromkeys(("gpu", "driver", "toolkit"), str))
        values["machine"] = Machine(**values["machine"])
        values["variant"] = Variant.from_json(values["variant"])
        return cls(**values)


def this_machine(gpu: str) -> Machine | None:
    """Return this machine with its GPU of that name, None where it has none or no compiler."""
    try:
        found = this_gpu()
    except (DeviceError, ToolchainError):
        return None
    return found if found.gpu == gpu else None


@functools.cache
def this_gpu(ordinal: int = 0) -> Machine:
    """Return this machine with its GPU of that number.

    Raises:
        DeviceError: there is none.
        ToolchainError: no compiler.
    """
    info = require_device(ordinal)
    known = by_device_name(info.name)
    return Machine(
        gpu=known.name if known else info.name,
        driver=info.driver or f"CUDA {info.cuda}",
        toolkit=load_nvrtc().label,
    )
