"""A real GPU: is there one, and running kernels on it. Needs a driver only when called."""

from tilewright.device.executor import run
from tilewright.device.probe import DeviceInfo, NoDevice, probe, require_device

__all__ = ["DeviceInfo", "NoDevice", "probe", "require_device", "run"]
