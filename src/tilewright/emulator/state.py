"""What compiled code and the host share: the context of a worker, a warp's state, the statuses.

The context is a C structure that Python fills in and compiled code reads by byte offset.
A warp's state begins with a fixed head; the kernel's registers follow.
"""

from __future__ import annotations

import ctypes
from enum import IntEnum

EXITED = 0x7FFFFFFF  # the block number of a lane that has returned
BARRIERS = 16

# Addresses are 64 bits: a segment number above this shift, the offset in it below. Generic
# addresses tell the state spaces apart by segment; segments from FIRST_ARRAY on are global memory.
SEGMENT_SHIFT = 40
SHARED_SEGMENT = 1
LOCAL_SEGMENT = 2
PARAM_SEGMENT = 3
FIRST_ARRAY = 4


class Status(IntEnum):
    """Why a warp stopped running."""

    EXITED = 0
    BARRIER = 1
    YIELD = 2
    FAULT = 3


class Fault(IntEnum):
    """What went wrong."""

    NONE = 0
    BOUNDS = 1
    MISALIGNED = 2
    TRAP = 3
    BARRIER = 4
    WARP_SYNC = 5
    LIMIT = 6
    BRANCH = 7
    COPY_SIZE = 8


class Segment(ctypes.Structure):
    """One array: it holds the offsets from `first` to `first + size` of its segment.

    `host` is the host address of offset 0, which lies before the array where `first` is not 0.
    """

    _fields_ = (("host", ctypes.c_uint64), ("first", ctypes.c_uint64), ("size", ctypes.c_uint64))


class Context(ctypes.Structure):
    """What one worker's compiled code reads and writes."""

    _fields_ = (
        ("segments", ctypes.c_void_p),
        ("segment_count", ctypes.c_uint64),
        ("shared", ctypes.c_void_p),
        ("shared_bytes", ctypes.c_uint64),
        ("params", ctypes.c_void_p),
        ("local", ctypes.c_void_p),
        ("local_frame", ctypes.c_uint64),  # bytes of local memory a thread
        ("scratch", ctypes.c_void_p),
        ("warps", ctypes.c_void_p),
        ("steps", ctypes.c_int64),  # what is left of the block's limit, in backward jumps
        ("step_limit", ctypes.c_int64),
        ("grid", ctypes.c_uint32 * 3),
        ("ctaid", ctypes.c_uint32 * 3),
        ("block", ctypes.c_int64),
        ("fault", ctypes.c_int32),
        ("fault_pc", ctypes.c_int32),
        ("fault_warp", ctypes.c_int32),
        ("fault_lane", ctypes.c_int32),
        ("fault_address", ctypes.c_uint64),
        ("events", ctypes.c_void_p),
        ("event_rows", ctypes.c_void_p),
        ("event_count", ctypes.c_int64),
        ("row_count", ctypes.c_int64),
        ("event_capacity", ctypes.c_int64),
        ("flush", ctypes.c_void_p),
        ("counts", ctypes.c_void_p),
        ("stop", ctypes.c_void_p),  # a byte that another worker sets to end the run
        ("copies", ctypes.c_void_p),  # each warp's queue of asynchronous copies
    )


def offset(field: str) -> int:
    """Byte offset of a field of `Context`."""
    return int(getattr(Context, field).offset)


class Event(ctypes.Structure):
    """One executed memory instruction of one warp (counting builds only).

    The lanes' addresses are `base` plus offsets that the instruction fixes where `row` is -1, else
    row `row` of the buffer of addresses.
    """

    _fields_ = (
        ("block", ctypes.c_int64),
        ("pc", ctypes.c_int32),
        ("warp", ctypes.c_int32),
        ("mask", ctypes.c_uint32),
        ("row", ctypes.c_int32),
        ("base", ctypes.c_uint64),
    )


EVENT_BYTES = ctypes.sizeof(Event)


def event_offset(field: str) -> int:
    """Byte offset of a field of `Event`."""
    return int(getattr(Event, field).offset)


# The head of a warp's state, in bytes.
WARP_PCS = 0  # <32 x i32>: the block that each lane runs next
WARP_BARRIER = 128  # i32: the named barrier it waits at
WARP_EXPECTED = 132  # i32: threads that barrier takes; 0 for all
WARP_BLOCKING = 136  # i32: 1 for sync, 0 for arrive
WARP_BARRIER_PC = 140  # i32: the instruction it waits at
WARP_REDUCED = 144  # i32: what bar.red gave; the warp's own part before that
WARP_PASSED = 148  # i32: lanes that have passed the bar.warp.sync they are parked at
WARP_FIRST_COPY = 152  # i32: the oldest copy in the warp's queue that may be pending
WARP_END_COPY = 156  # i32: behind the newest
WARP_GROUPS = 192  # <32 x i32>: the groups of copies that each lane has committed
WARP_HEAD = 320
SLICE = 1 << 14  # backward jumps that a warp may make before others get a turn
