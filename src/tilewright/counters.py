"""What a run of a kernel counts, in the profiler's terms. Imports nothing of the package."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Literal, TypeAlias

Provenance: TypeAlias = Literal["measured", "exact", "derived", "modelled"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Counters:
    """Counts of one launch (or of some of its blocks), summed over its warps.

    Units: requests are warp-level instructions; sectors are 32-byte pieces of global memory;
    wavefronts are passes through the shared-memory banks; `*_thread_instructions` count active
    threads. `opcodes` is the instruction mix: executed warp-level instructions by PTX opcode.

    The emulator executes PTX. Sectors, requests and wavefronts are those of the PTX accesses as
    written; they equal the profiler's where ptxas keeps the width of each access.
    """

    warp_instructions: int = 0
    thread_instructions: int = 0
    ffma_thread_instructions: int = 0
    global_load_requests: int = 0
    global_load_sectors: int = 0
    global_store_requests: int = 0
    global_store_sectors: int = 0
    shared_load_requests: int = 0
    shared_load_wavefronts: int = 0
    shared_store_requests: int = 0
    shared_store_wavefronts: int = 0
    opcodes: Mapping[str, int] = field(default_factory=dict)

    def __add__(self, other: Counters) -> Counters:
        return self.plus(other, 1)

    def plus(self, other: Counters, times: int) -> Counters:
        """Return self + times · other, exactly."""
        sums: dict[str, int] = {
            f.name: getattr(self, f.name) + times * getattr(other, f.name)
            for f in fields(self)
            if f.name != "opcodes"
        }
        names = {**self.opcodes, **other.opcodes}
        mix = {n: self.opcodes.get(n, 0) + times * other.opcodes.get(n, 0) for n in names}
        return Counters(**sums, opcodes=mix)

    @property
    def sectors_per_request(self) -> float | None:
        """Global sectors a load request; None without loads."""
        if not self.global_load_requests:
            return None
        return self.global_load_sectors / self.global_load_requests

    def to_json(self) -> dict[str, object]:
        """Return plain JSON values, by field name."""
        return {f.name: getattr(self, f.name) for f in fields(self)} | {
            "opcodes": dict(sorted(self.opcodes.items()))
        }

    @classmethod
    def from_json(cls, data: Mapping[str, object]) -> Counters:
        """Rebuild what `to_json` wrote."""
        return cls(**data)  # type: ignore[arg-type]
