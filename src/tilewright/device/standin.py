"""Which row of the GPU table a real card is; one made of what its driver says where none is it."""

from __future__ import annotations

from dataclasses import replace

from tilewright.device.driver import attribute, call
from tilewright.device.probe import DeviceInfo
from tilewright.errors import UnsupportedError
from tilewright.gpus import GPUS, LIMITS, Gpu, by_device_name
from tilewright.gpus.gpu import Source

_DRIVER = Source(text="the CUDA driver's device attributes", grade="reading")
_TRANSFERS_A_CLOCK = 2  # of double-data-rate memory


def gpu_of(info: DeviceInfo) -> Gpu:
    """Return the card as a GPU: its row of the table, or one with its own figures.

    Raises:
        UnsupportedError: a compute capability that the table of limits lacks.
    """
    known = by_device_name(info.name)
    if known is not None:
        return known
    limits = LIMITS.get(info.compute_capability)
    alike = [g for g in GPUS if g.compute_capability == info.compute_capability]
    if limits is None or not alike:
        capabilities = sorted({g.compute_capability for g in GPUS if g.compilable})
        raise UnsupportedError(
            f"{info.name} has compute capability {_text(info.compute_capability)}; tilewright "
            f"knows {', '.join(map(_text, capabilities))}"
        )
    read = {
        "sm_count": info.sm_count,
        "boost_clock_hz": 1e3 * _read(info, "CLOCK_RATE"),
        "l2_bytes": info.l2_bytes,
        "dram_bytes": info.memory_bytes,
        "dram_bytes_per_s": _TRANSFERS_A_CLOCK
        * 1e3
        * _read(info, "MEMORY_CLOCK_RATE")
        * _read(info, "GLOBAL_MEMORY_BUS_WIDTH")
        / 8,
    }
    sources = dict(alike[0].sources) | dict.fromkeys(read, _DRIVER)
    return replace(
        alike[0],
        name=info.name,
        aliases=(),
        device_names=(info.name,),
        sources=sources,
        **read,  # type: ignore[arg-type]
    )


def _read(info: DeviceInfo, name: str) -> int:
    return int(call("cuDeviceGetAttribute", attribute(name), call("cuDeviceGet", info.ordinal)))


def _text(capability: tuple[int, int]) -> str:
    return f"{capability[0]}.{capability[1]}"
