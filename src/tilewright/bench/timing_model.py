"""The time model put to work: a kernel profiled, its accesses traced, its time estimated."""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.emulator.tracing import trace_accesses
from tilewright.gpus import Gpu, occupancy
from tilewright.launch import Argument, Launch
from tilewright.model.estimate import Estimate, estimate
from tilewright.model.machine import machine
from tilewright.model.profile import Profile
from tilewright.model.traffic import Hit, Hits, Neighbours, line_hits
from tilewright.model.widths import images
from tilewright.toolchain import Artifact
from tilewright.toolchain.control import control_codes


def estimate_launch(
    artifact: Artifact, launch: Launch, args: Sequence[Argument], profile: Profile, gpu: Gpu
) -> Estimate:
    """Return the modelled time of a launch that was profiled. Arrays in `args` are written."""
    found = images(artifact)
    hits = trace_hits(artifact, launch, args, profile, gpu)
    by_index = {
        image.index: hits[image.line] for image in found.accesses if image.line in hits
    }
    return estimate(
        profile, found.flow, control_codes(artifact), gpu, Hits(by_index=by_index)
    )


def trace_hits(
    artifact: Artifact, launch: Launch, args: Sequence[Argument], profile: Profile, gpu: Gpu
) -> dict[int, Hit]:
    """Return where the accesses of each PTX line are served, from a block and its neighbours."""
    columns, rows = launch.grid[0], launch.blocks // launch.grid[0]
    here = columns // 2 + rows // 2 * columns  # inside the grid, where nothing is cut off
    right = here + 1 if columns // 2 + 1 < columns else None
    below = here + columns if rows // 2 + 1 < rows else None
    sample = [block for block in (here, right, below) if block is not None]
    trace = trace_accesses(artifact, launch, args, sample=sample)
    held = occupancy(
        gpu=gpu,
        threads=launch.threads,
        registers=profile.registers,
        shared_bytes=profile.shared_bytes,
    )
    resident = max(held.active_blocks, 1)
    l1 = max(machine(gpu).l1_bytes - resident * profile.shared_bytes, 16 << 10) // resident
    return line_hits(
        Neighbours(trace=trace, block=here, along_x=right, along_y=below),
        launch,
        l1_bytes=l1,
        l2_bytes=gpu.l2_bytes or 0,
        resident=resident * gpu.sm_count,
    )
