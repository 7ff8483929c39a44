"""What NVRTC is given of a source that was written for nvcc: the half that is for the device.

The source and the headers beside it without their host code, and stand-ins for the host's headers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tilewright.toolchain.hostcode import blank_host_code, find_device_macros
from tilewright.toolchain.hostheaders import host_headers, library_headers
from tilewright.toolchain.includes import Includes
from tilewright.toolchain.source import Source


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceHalf:
    """A source as NVRTC takes it, line by line where it was.

    `headers` are texts by the name that an `#include` gives, to be taken before any file. What
    was left out is in `left_out`: the names of functions and variables, each with where it stands.
    `splits_source` says that the source itself has host code.
    """

    text: str
    headers: Mapping[str, str]
    left_out: Mapping[str, str]
    splits_source: bool


def device_half(source: Source, includes: Includes) -> DeviceHalf:
    """Return the device half of `source` and of the headers of its project.

    Headers of libraries, CUDA's among them, stay as they are: they know NVRTC, or they do not.
    """
    own = {
        header.spelled: (header.name, Path(header.path).read_text(errors="replace"))
        for header in includes.headers.values()
        if header.own
    }
    macros = find_device_macros(text for _, text in own.values())
    split = blank_host_code(source.text, device_macros=macros)
    headers = {name: text for name, text in host_headers().items() if name not in own}
    for text in (source.text, *(text for _, text in own.values())):
        headers |= library_headers(text)
    left_out: dict[str, str] = {}
    for spelled, (name, text) in own.items():
        half = blank_host_code(text, device_macros=macros)
        if half.text != text:
            headers[spelled] = half.text
        left_out |= {what: f"{name}:{line}" for what, line in half.left_out.items()}
    left_out |= {what: f"{source.name}:{line}" for what, line in split.left_out.items()}
    return DeviceHalf(
        text=split.text,
        headers=headers,
        left_out=left_out,
        splits_source=split.text != source.text,
    )
