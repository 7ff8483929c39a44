"""Where a launch stands under the roofs of its GPU: what it computes, what it moves, how fast.

Source of the picture: Williams, Waterman and Patterson, "Roofline: an insightful visual
performance model" (2009).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass

from tilewright.model.profile import Profile
from tilewright.model.whatif import Case, dram_bytes

# Operations of one thread's instruction on float32; a packed FFMA2 does two multiply-adds.
_FLOPS: Mapping[str, int] = {"FFMA": 2, "FADD": 1, "FMUL": 1, "FFMA2": 4, "FADD2": 2, "FMUL2": 2}


@dataclass(frozen=True, slots=True, kw_only=True)
class Roofline:
    """A launch beside the ceilings of its GPU. `flops` come from counts, the rest is modelled.

    Units: `flops` float32 operations and `dram_bytes` of the launch; `intensity` operations a byte,
    None where nothing comes from the DRAM; rates in operations, or bytes, a second. `ridge` is the
    intensity from which the arithmetic is the lower roof, `roof_flops_per_s` the roof over this
    launch, and `share` what of it the launch reaches. Peaks are those of the datasheet.
    """

    flops: int
    dram_bytes: float
    intensity: float | None
    flops_per_s: float
    bytes_per_s: float
    peak_flops_per_s: float
    peak_bytes_per_s: float
    ridge: float
    roof_flops_per_s: float
    share: float

    @property
    def bound(self) -> str:
        """The lower roof over this launch: "memory" or "arithmetic"."""
        memory = self.intensity is not None and self.intensity < self.ridge
        return "memory" if memory else "arithmetic"

    def to_json(self) -> dict[str, object]:
        """Return plain JSON values."""
        return asdict(self) | {"bound": self.bound, "provenance": "modelled"}


def roofline(case: Case, seconds: float) -> Roofline:
    """Return where a launch stands that takes `seconds`."""
    gpu = case.gpu
    flops, moved = float32_operations(case.profile), dram_bytes(case)
    peak, bandwidth = gpu.fp32_flops_per_s, gpu.dram_bytes_per_s
    intensity = flops / moved if moved else None
    roof = peak if intensity is None else min(peak, intensity * bandwidth)
    # What does no arithmetic is judged by the bytes that it moves.
    share = flops / seconds / roof if flops else moved / seconds / bandwidth
    return Roofline(
        flops=flops,
        dram_bytes=moved,
        intensity=intensity,
        flops_per_s=flops / seconds,
        bytes_per_s=moved / seconds,
        peak_flops_per_s=peak,
        peak_bytes_per_s=bandwidth,
        ridge=peak / bandwidth,
        roof_flops_per_s=roof,
        share=share,
    )


def float32_operations(profile: Profile) -> int:
    """Return the float32 operations of a launch: a multiply-add is two."""
    return sum(_FLOPS.get(c.instruction.opcode, 0) * c.threads for c in profile.counted)
