"""The time model put to work: a kernel profiled, its accesses traced, its time estimated."""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.bench.profiling import images_of, neighbours
from tilewright.emulator.tracing import trace_accesses
from tilewright.gpus import Gpu
from tilewright.launch import Argument, Launch
from tilewright.model.estimate import Estimate, resident_blocks
from tilewright.model.handed_on import from_l2, handed_on, unseen_hit
from tilewright.model.machine import machine
from tilewright.model.profile import Profile
from tilewright.model.traffic import Hit, Hits, Neighbours, line_hits, local_hits
from tilewright.model.whatif import Case
from tilewright.toolchain import Artifact, resources
from tilewright.toolchain.control import control_codes

# Blocks that are traced where they differ: enough to share a few pieces of work. Assumed.
_SIDE_BY_SIDE = 16
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
    return case_of(artifact, trace_neighbours(artifact, launch, args, profile), profile, gpu)


def case_of(artifact: Artifact, traced: Sequence[Neighbours], profile: Profile, gpu: Gpu) -> Case:
    """Return what the time model reads of a launch whose accesses were traced.

    Another profile of the same launch, with other registers or more shared memory, takes the same
    trace.

    Raises:
        LaunchError: a kernel of which no block fits in an SM.
        UnsupportedError: an artifact without machine code, or a GPU that no compiler reaches.
    """
    found = images_of(artifact)
    l1_bytes = _l1_bytes(profile, gpu)
    hits: dict[int, Hit] = {}
    for each in traced:
        of_lines = line_hits(
            each,
            profile.launch,
            l1_bytes=l1_bytes,
            l2_bytes=gpu.l2_bytes or 0,
            resident=resident_blocks(profile, gpu) * gpu.sm_count,
        )
        hits = of_lines | hits
    if len(traced) > 1:
        hits = from_l2(hits, handed_on(traced[-1].trace))
    by_index = local_hits(profile, resources(artifact).local_bytes, l1_bytes)
    for image in found.accesses:
        access = profile.counted[image.index].access
        if image.line in hits:
            by_index[image.index] = hits[image.line]
        elif access is not None and access.space == "global" and access.requests:
            by_index[image.index] = unseen_hit(access)
    return Case(
        profile=profile,
        flow=found.flow,
        control=control_codes(artifact),
        gpu=gpu,
        hits=Hits(by_index=by_index),
    )


def trace_neighbours(
    artifact: Artifact, launch: Launch, args: Sequence[Argument], profile: Profile
) -> tuple[Neighbours, ...]:
    """Return the accesses of a block inside the grid and of its neighbours: where hits come from.

    Where blocks differ, and others make accesses that this one does not, those of more blocks
    side by side come behind. Arrays in `args` are written.

    Raises:
        EmulationError: a fault of the kernel.
    """
    columns, rows = launch.grid[0], launch.blocks // launch.grid[0]
    if rows == 1 and len(profile.kinds) > 1:
        return _side_by_side(artifact, launch, args, profile)  # in one run: blocks may count
    here = columns // 2 + rows // 2 * columns  # inside the grid, where nothing is cut off
    right = here + 1 if columns // 2 + 1 < columns else None
    below = here + columns if rows // 2 + 1 < rows else None
    sample = [block for block in (here, right, below) if block is not None]
    trace = trace_accesses(artifact, launch, args, sample=sample)
    first = Neighbours(trace=trace, block=here, along_x=right, along_y=below)
    if not _made(artifact, profile) - set(trace.line[trace.block == here].tolist()):
        return (first,)
    return (first, *_side_by_side(artifact, launch, args, profile))


def _side_by_side(
    artifact: Artifact, launch: Launch, args: Sequence[Argument], profile: Profile
) -> tuple[Neighbours, ...]:
    """Return the accesses of some blocks in a row, that of the middle first."""
    count = min(_SIDE_BY_SIDE, profile.blocks_run)
    sample = neighbours(launch, count) or list(range(launch.blocks))
    trace = trace_accesses(artifact, launch, args, sample=sample, workers=1)
    last = sample[-1]
    return tuple(
        Neighbours(trace=trace, block=n, along_x=n + 1 if n < last else None, along_y=None)
        for n in sorted(sample, key=lambda n: abs(n - launch.blocks // 2))
    )


def _made(artifact: Artifact, profile: Profile) -> set[int]:
    """Return the PTX lines whose accesses of global memory a launch makes."""
    found = set()
    for image in images_of(artifact).accesses:
        access = profile.counted[image.index].access
        if access is not None and access.space == "global" and access.requests:
            found.add(image.line)
    return found


def _l1_bytes(profile: Profile, gpu: Gpu) -> int:
    """Return the L1 that one block has to itself: what shared memory leaves, in equal parts."""
    resident = resident_blocks(profile, gpu)
    left = machine(gpu).l1_bytes - resident * profile.shared_bytes
    return max(left, _LEAST_L1) // resident
