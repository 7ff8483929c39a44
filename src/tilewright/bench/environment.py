"""What the machine is when records are made: collected once, written beside the figures."""

from __future__ import annotations

import datetime
import platform
import subprocess
from collections.abc import Mapping
from pathlib import Path

import tilewright
from tilewright.device.probe import DeviceInfo
from tilewright.records import Environment
from tilewright.toolchain import load_nvrtc

# The state of the card, read and left alone; each with its unit, as nvidia-smi names it.
_CLOCKS = (
    "clocks.current.sm",
    "clocks.current.memory",
    "clocks.max.sm",
    "clocks.max.memory",
    "power.limit",
    "temperature.gpu",
)
_TIMEOUT_S = 20


def describe_environment(
    device: DeviceInfo | None = None, *, commit: str | None = None
) -> Environment:
    """Return the environment as it stands, with the card's where records come from a GPU.

    Where git cannot say which `commit` the source is of, it is to be given.
    """
    smi = _smi(device.pci_bus_id, ("driver_version", *_CLOCKS)) if device is not None else {}
    found, dirty = _commit(Path(tilewright.__file__).resolve().parent)
    return Environment(
        date=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        tilewright=tilewright.__version__,
        python=platform.python_version(),
        host=f"{platform.system()} {platform.machine()}",
        nvrtc=load_nvrtc().label.removeprefix("NVRTC "),
        card=device.name if device is not None else None,
        driver=(smi.get("driver_version") or device.driver) if device is not None else None,
        commit=commit or found,
        dirty=dirty,
        clocks={name: smi[name] for name in _CLOCKS if name in smi},
    )


def _smi(pci_bus_id: str, names: tuple[str, ...]) -> Mapping[str, str]:
    """Return what nvidia-smi says, empty where there is none or it fails."""
    query = ["nvidia-smi", f"--id={pci_bus_id}", f"--query-gpu={','.join(names)}"]
    text = _output([*query, "--format=csv,noheader"]) or ""
    values = [value.strip() for value in text.split(",")]
    return dict(zip(names, values, strict=True)) if len(values) == len(names) else {}


def _commit(folder: Path) -> tuple[str | None, bool | None]:
    """Return the commit of the tree that holds `folder`, and whether it has changes beyond it."""
    commit = _output(["git", "-C", str(folder), "rev-parse", "HEAD"])
    if commit is None:
        return None, None
    # An installed package may lie inside somebody else's repository: ask whether git tracks it.
    if not _output(["git", "-C", str(folder), "ls-files", "__init__.py"]):
        return None, None
    status = _output(["git", "-C", str(folder), "status", "--porcelain", "--untracked-files=no"])
    return commit, bool(status)


def _output(command: list[str]) -> str | None:
    """Return what a command prints, None where it is missing or fails."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT_S)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip() if done.returncode == 0 else None
