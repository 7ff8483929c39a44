"""Every test of this folder runs on the emulator, and on a GPU where `-m gpu` asks for it."""

from __future__ import annotations

import pytest


def _emulator(artifact, launch, args):
    from tilewright.emulator import run

    return run(artifact, launch, args, workers=1)


def _device(artifact, launch, args):
    from tilewright.device import require_device, run

    have = require_device().compute_capability
    if int(artifact.arch.strip("sm_af")) > 10 * have[0] + have[1]:
        pytest.skip(f"needs {artifact.arch}, this GPU is sm_{have[0]}{have[1]}")
    return run(artifact, launch, args)


@pytest.fixture(scope="session", params=["emulator", pytest.param("device", marks=pytest.mark.gpu)])
def executor(request):
    """Run a kernel: executor(artifact, launch, args), on what the parameter names."""
    return {"emulator": _emulator, "device": _device}[request.param]
