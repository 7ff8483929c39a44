"""Suggestions and the roofline, in words: every gain says that it is modelled, and how."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tilewright.model.advice import Suggestion
from tilewright.model.roofline import Roofline

_PREFIX = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "K"))


def suggestion_texts(found: Sequence[Suggestion]) -> Iterator[str]:
    """Yield one text a suggestion, in their order, with its gain and what it answers."""
    for place, each in enumerate(found, 1):
        yield f"{place}. {_gain(each)}{each.text}."


def _gain(suggestion: Suggestion) -> str:
    if suggestion.gain is None:
        return ""
    answers = f", for {suggestion.stall}" if suggestion.stall is not None else ""
    how = (
        f"tried: {suggestion.gain:.2f}x modelled"
        if suggestion.basis == "tried"
        else f"what-if: {suggestion.gain:.2f}x at most, modelled"
    )
    return f"[{how}{answers}] "


def roofline_text(found: Roofline, gpu: str) -> str:
    """Return where a launch stands, in a sentence or two."""
    moved = f"{_scaled(found.dram_bytes)}B of DRAM traffic (modelled)"
    if not found.flops:
        share = f"{found.bytes_per_s / found.peak_bytes_per_s:.0%}"
        return f"Roofline: no float32 arithmetic; {moved}, at {share} of the DRAM's bandwidth."
    if found.intensity is None:
        return (
            f"Roofline: {_scaled(found.flops)}FLOP, no DRAM traffic: {found.share:.0%} of "
            f"{_scaled(found.peak_flops_per_s)}FLOP/s."
        )
    side = "left" if found.bound == "memory" else "right"
    return (
        f"Roofline: {_scaled(found.flops)}FLOP over {moved} are {found.intensity:.3g} FLOP a byte, "
        f"{side} of {gpu}'s ridge at {found.ridge:.3g}: the roof is {found.bound}, "
        f"{_scaled(found.roof_flops_per_s)}FLOP/s, and the kernel reaches {found.share:.0%} of it."
    )


def _scaled(value: float) -> str:
    for scale, prefix in _PREFIX:
        if value >= scale:
            return f"{value / scale:.3g} {prefix}"
    return f"{value:.3g} "
