"""What a GPU is: facts with a source each, and how many blocks of a kernel fit on an SM."""

from tilewright.gpus.gpu import ComputeCapability, Figure, Gpu, Limits, Source
from tilewright.gpus.hint import hint
from tilewright.gpus.limits import LIMITS
from tilewright.gpus.occupancy import Occupancy, Resource, occupancy
from tilewright.gpus.table import GPUS, by_device_name, gpu

__all__ = [
    "GPUS",
    "LIMITS",
    "ComputeCapability",
    "Figure",
    "Gpu",
    "Limits",
    "Occupancy",
    "Resource",
    "Source",
    "by_device_name",
    "gpu",
    "hint",
    "occupancy",
]
