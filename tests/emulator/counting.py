"""Counting the kernel `k` of a source: all counters, or those of one memory."""

import tilewright
from tilewright.counters import Counters
from tilewright.launch import Argument


def count(code: str, args: list[Argument], **launch: object) -> Counters:
    shape = {"grid": 1, "block": 32} | launch
    run = tilewright.emulate(code, "k", args=args, **shape)
    assert run.counters is not None
    return run.counters


def memory(code: str, args: list[Argument], **launch: object) -> tuple[int, ...]:
    """(load requests, load sectors, store requests, store sectors) of global memory."""
    c = count(code, args, **launch)
    return (
        c.global_load_requests,
        c.global_load_sectors,
        c.global_store_requests,
        c.global_store_sectors,
    )


def banks(code: str, args: list[Argument], **launch: object) -> tuple[int, ...]:
    """(load requests, load wavefronts, store requests, store wavefronts) of shared memory."""
    c = count(code, args, **launch)
    return (
        c.shared_load_requests,
        c.shared_load_wavefronts,
        c.shared_store_requests,
        c.shared_store_wavefronts,
    )
