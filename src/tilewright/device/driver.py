"""The CUDA driver through cuda.bindings, every return code checked and explained."""

from __future__ import annotations

import functools
from typing import Any

from tilewright.errors import DeviceError

_CONTEXT_LOST = (
    "the CUDA context of this process is lost, so start a new one; the emulator runs the same "
    "kernel and names the source line, block and thread of the access"
)

# What a code means for a kernel launch, and what to try. Source: CUDA Driver API, CUresult.
MEANINGS: dict[str, tuple[str, str]] = {
    "CUDA_ERROR_NO_DEVICE": (
        "the driver sees no GPU",
        "check that `nvidia-smi` lists one and that CUDA_VISIBLE_DEVICES does not hide it",
    ),
    "CUDA_ERROR_INVALID_DEVICE": (
        "there is no GPU of that number",
        "number them from 0, as `nvidia-smi -L` does",
    ),
    "CUDA_ERROR_OUT_OF_MEMORY": (
        "the GPU has not that much memory free",
        "choose a smaller problem, or end what else uses the GPU (`nvidia-smi` lists it)",
    ),
    "CUDA_ERROR_NO_BINARY_FOR_GPU": (
        "the cubin is for another architecture",
        "compile for the architecture of this GPU",
    ),
    "CUDA_ERROR_INVALID_IMAGE": ("the driver cannot read the cubin", "compile it again"),
    "CUDA_ERROR_UNSUPPORTED_PTX_VERSION": (
        "the PTX is of a newer CUDA than the driver's",
        "load a cubin instead of PTX, or update the driver",
    ),
    "CUDA_ERROR_INVALID_PTX": ("the driver's compiler refuses the PTX", "check it with ptxas"),
    "CUDA_ERROR_NOT_FOUND": ("no such symbol in the compiled code", "check the kernel's name"),
    "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH": (
        "the driver's library and its kernel module are of different versions",
        "restart the machine, or reinstall the driver",
    ),
    "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES": (
        "an SM has too few registers or too little shared memory for one block",
        "launch fewer threads a block, or compile with __launch_bounds__",
    ),
    "CUDA_ERROR_LAUNCH_TIMEOUT": (
        "the kernel ran longer than a GPU that drives a display allows",
        f"choose a smaller problem; {_CONTEXT_LOST}",
    ),
    "CUDA_ERROR_ILLEGAL_ADDRESS": ("the kernel touched memory that is not its", _CONTEXT_LOST),
    "CUDA_ERROR_MISALIGNED_ADDRESS": (
        "the kernel accessed an address that its width does not divide",
        _CONTEXT_LOST,
    ),
    "CUDA_ERROR_INVALID_ADDRESS_SPACE": (
        "the kernel used an address of another memory space",
        _CONTEXT_LOST,
    ),
    "CUDA_ERROR_ILLEGAL_INSTRUCTION": (
        "the GPU met an instruction that it does not have",
        _CONTEXT_LOST,
    ),
    "CUDA_ERROR_LAUNCH_FAILED": ("the kernel stopped on a fault or `trap`", _CONTEXT_LOST),
    "CUDA_ERROR_ASSERT": ("an assertion in the kernel failed", _CONTEXT_LOST),
}


@functools.cache
def bindings() -> Any:  # noqa: ANN401 - a module
    """Return `cuda.bindings.driver`; kept, since importing costs more than most calls.

    Raises:
        DeviceError: it is not installed.
    """
    try:
        from cuda.bindings import driver
    except ImportError as error:
        raise DeviceError(f"no cuda-bindings ({error}): pip install cuda-bindings") from error
    return driver


def call(function: str, *args: object) -> Any:  # noqa: ANN401 - what the driver returns
    """Call `cuda.bindings.driver.<function>` and return its value, or values as a tuple.

    Raises:
        DeviceError: no driver on this machine, or a code other than success, with its meaning.
    """
    driver = bindings()
    try:
        status, *values = getattr(driver, function)(*args)
    except (OSError, RuntimeError) as error:
        # The bindings load the driver's library on the first call, and raise where there is none,
        # or where it is older than the function.
        if function == "cuInit":
            raise DeviceError(
                "no CUDA driver on this machine: a GPU needs the NVIDIA driver; rungs and kernels "
                "of your own also run on the emulator"
            ) from error
        raise DeviceError(f"{function}: {error}: update the driver") from error
    check(function, status)
    return values[0] if len(values) == 1 else tuple(values)


def check(function: str, status: Any) -> None:  # noqa: ANN401 - a CUresult
    """Accept a return code of success.

    Raises:
        DeviceError: another, with its meaning.
    """
    if status:
        raise DeviceError(f"{function}: {explain(getattr(status, 'name', str(status)))}")


def explain(code: str) -> str:
    """Return a code's name with what it means and what to try, where that is known."""
    if code not in MEANINGS:
        return f"{code}; the CUDA Driver API's page on CUresult says what it means"
    meaning, remedy = MEANINGS[code]
    return f"{code}: {meaning}: {remedy}"


def attribute(name: str) -> Any:  # noqa: ANN401 - an enum of the driver
    """Return the device attribute `CU_DEVICE_ATTRIBUTE_<name>`."""
    from cuda.bindings import driver

    return getattr(driver.CUdevice_attribute, f"CU_DEVICE_ATTRIBUTE_{name}")


def function_attribute(name: str) -> Any:  # noqa: ANN401 - an enum of the driver
    """Return the function attribute `CU_FUNC_ATTRIBUTE_<name>`."""
    from cuda.bindings import driver

    return getattr(driver.CUfunction_attribute, f"CU_FUNC_ATTRIBUTE_{name}")
