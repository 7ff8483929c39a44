"""CUDA C++ to PTX, cubin and SASS on any machine, with a cache. Importing it loads no compiler."""

from tilewright.toolchain.artifact import Artifact
from tilewright.toolchain.cache import CompileCache, default_cache
from tilewright.toolchain.from_ptx import artifact_from_ptx
from tilewright.toolchain.nvrtc import compile_cuda
from tilewright.toolchain.resources import Resources, resources
from tilewright.toolchain.sass import (
    Sass,
    SassFunction,
    SassInstruction,
    disassemble,
    opcode_histogram,
)
from tilewright.toolchain.toolkit import find_nvdisasm, load_nvrtc, supported_archs

__all__ = [
    "Artifact",
    "CompileCache",
    "Resources",
    "Sass",
    "SassFunction",
    "SassInstruction",
    "artifact_from_ptx",
    "compile_cuda",
    "default_cache",
    "disassemble",
    "find_nvdisasm",
    "load_nvrtc",
    "opcode_histogram",
    "resources",
    "supported_archs",
]
