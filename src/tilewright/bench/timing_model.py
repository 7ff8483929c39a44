"""The time model put to work: a kernel profiled, its accesses traced, its time estimated."""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.bench.profiling import images_of
from tilewright.emulator.tracing import trace_accesses
from tilewright.gpus import Gpu
from tilewright.launch import Argument, Launch
from tilewright.model.estimate import Estimate, resident_blocks
from tilewright.model.machine import machine
from tilewright.model.profile import Profile
from tilewright.model.traffic import Hits, Neighbours, line_hits, local_hits
from tilewright.model.whatif import Case
from tilewright.toolchain import Artifact, resources
from tilewright.toolchain.control import control_codes

_LEAST_L1 = 16 << 10  # bytes of L1 that shared memory cannot take, about: assumed


def estimate_launch(
    artifact: Artifact, launch: Launch, args: Sequence[Argument], profile: Profile, gpu: Gpu
) -> Estimate:
    """Return the modelled time of a launch that was profiled. Raises what `launch_case` does."""
    return launch_case(artifact, launch, args, profile, gpu).estimate()


def launch_case(
    artifact: Artifact, launch: Launch, args: Sequence[Argument], profile: Profile, gpu: Gpu
) -> Case:
    """Return what the time model reads of a launch that was profiled. Arrays in `args` are written.

    Raises:
        LaunchError: a kernel of which no block fits in an SM.
        UnsupportedError: an artifact without machine code, or a GPU that no compiler reaches.
        EmulationError: a fault of the kernel.
    """
    resident_blocks(profile, gpu)  # raises before anything is run
    return case_of(artifact, trace_neighbours(artifact, launch, args), profile, gpu)


def case_of(artifact: Artifact, traced: Neighbours, profile: Profile, gpu: Gpu) -> Case:
    """Return what the time model reads of a launch whose accesses were traced.

    Another profile of the same launch, with other registers or more shared memory, takes the same
    trace.

    Raises:
        LaunchError: a kernel of which no block fits in an SM.
        UnsupportedError: an artifact without machine code, or a GPU that no compiler reaches.
    """
    found = images_of(artifact)
    l1_bytes = _l1_bytes(profile, gpu)
    hits = line_hits(
        traced,
        profile.launch,
        l1_bytes=l1_bytes,
        l2_bytes=gpu.l2_bytes or 0,
        resident=resident_blocks(profile, gpu) * gpu.sm_count,
    )
    by_index = local_hits(profile, resources(artifact).local_bytes, l1_bytes)
    by_index |= {image.index: hits[image.line] for image in found.accesses if image.line in hits}
    return Case(
        profile=profile,
        flow=found.flow,
        control=control_codes(artifact),
        gpu=gpu,
        hits=Hits(by_index=by_index),
    )


def trace_neighbours(artifact: Artifact, launch: Launch, args: Sequence[Argument]) -> Neighbours:
    """Return the accesses of a block inside the grid and of its neighbours: where hits come from.

    Arrays in `args` are written.

    Raises:
        EmulationError: a fault of the kernel.
    """
    columns, rows = launch.grid[0], launch.blocks // launch.grid[0]
    here = columns // 2 + rows // 2 * columns  # inside the grid, where nothing is cut off
    right = here + 1 if columns // 2 + 1 < columns else None
    below = here + columns if rows // 2 + 1 < rows else None
    sample = [block for block in (here, right, below) if block is not None]
    trace = trace_accesses(artifact, launch, args, sample=sample)
    return Neighbours(trace=trace, block=here, along_x=right, along_y=below)


def _l1_bytes(profile: Profile, gpu: Gpu) -> int:
    """Return the L1 that one block has to itself: what shared memory leaves, in equal parts."""
    resident = resident_blocks(profile, gpu)
    left = machine(gpu).l1_bytes - resident * profile.shared_bytes
    return max(left, _LEAST_L1) // resident
