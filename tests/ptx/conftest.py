"""Every test of this folder runs on the emulator, and on a GPU where `-m gpu` asks for it."""

from __future__ import annotations

import pytest


def _emulator(artifact, launch, args):
    from tilewright.emulator import run

    return run(artifact, launch, args, workers=1)


def _device(artifact, launch, args):
    from tilewright.device import run

    return run(artifact, launch, args)


@pytest.fixture(
    scope="session", params=["emulator", pytest.param("device", marks=pytest.mark.gpu)]
)
def executor(request):
    """Run a kernel: executor(artifact, launch, args), on what the parameter names."""
    return {"emulator": _emulator, "device": _device}[request.param]
