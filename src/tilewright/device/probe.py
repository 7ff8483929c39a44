"""Is there a GPU, and what is it? Never raises: a machine without one is an ordinary machine."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path

from tilewright.device.driver import attribute, call
from tilewright.errors import DeviceError

# Where the kernel module states its version; absent on some virtual machines.
_MODULE_VERSION = Path("/sys/module/nvidia/version")


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceInfo:
    """One GPU of this machine, as its driver describes it.

    Units: bytes. `cuda` is the newest CUDA version that the driver runs, such as "13.0"; `driver`
    is the version of the driver itself, None where the machine does not say.
    """

    ordinal: int
    pci_bus_id: str
    name: str
    compute_capability: tuple[int, int]
    sm_count: int
    memory_bytes: int
    l2_bytes: int
    shared_bytes_per_block_max: int
    max_threads_per_sm: int
    cuda: str
    driver: str | None

    @property
    def arch(self) -> str:
        """What to compile for, such as "sm_90"."""
        major, minor = self.compute_capability
        return f"sm_{major}{minor}"

    def to_json(self) -> dict[str, object]:
        """Return plain JSON values, by field name."""
        return asdict(self) | {"compute_capability": list(self.compute_capability)}


@dataclass(frozen=True, slots=True, kw_only=True)
class NoDevice:
    """Why there is no GPU to run on."""

    reason: str

    def __str__(self) -> str:
        return self.reason


def probe(ordinal: int = 0) -> DeviceInfo | NoDevice:
    """Return what GPU number `ordinal` is, or why there is none."""
    try:
        call("cuInit", 0)
        version = call("cuDriverGetVersion")
        device = call("cuDeviceGet", ordinal)
        return DeviceInfo(
            ordinal=ordinal,
            pci_bus_id=_text(call("cuDeviceGetPCIBusId", 32, device)),
            name=_text(call("cuDeviceGetName", 128, device)),
            compute_capability=(
                _read(device, "COMPUTE_CAPABILITY_MAJOR"),
                _read(device, "COMPUTE_CAPABILITY_MINOR"),
            ),
            sm_count=_read(device, "MULTIPROCESSOR_COUNT"),
            memory_bytes=int(call("cuDeviceTotalMem", device)),
            l2_bytes=_read(device, "L2_CACHE_SIZE"),
            shared_bytes_per_block_max=_read(device, "MAX_SHARED_MEMORY_PER_BLOCK_OPTIN"),
            max_threads_per_sm=_read(device, "MAX_THREADS_PER_MULTIPROCESSOR"),
            cuda=f"{version // 1000}.{version % 1000 // 10}",
            driver=_driver_version(),
        )
    except DeviceError as error:
        return NoDevice(reason=str(error))


def require_device(ordinal: int = 0) -> DeviceInfo:
    """Return what GPU number `ordinal` is.

    Raises:
        DeviceError: there is none, with the reason.
    """
    found = probe(ordinal)
    if isinstance(found, NoDevice):
        raise DeviceError(found.reason)
    return found


def _read(device: object, name: str) -> int:
    return int(call("cuDeviceGetAttribute", attribute(name), device))


def _text(padded: bytes) -> str:
    return padded.split(b"\0")[0].decode()


def _driver_version() -> str | None:
    try:
        return _MODULE_VERSION.read_text(encoding="utf-8").strip()
    except OSError:
        return None
