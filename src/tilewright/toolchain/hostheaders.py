"""Stand-ins for the headers of host code, which NVRTC does not have.

Most are empty: what uses them is host code, which is left out. Those in `headers/` declare what
kernels take from the standard library: integer types, limits, `std::min` and the like. NVRTC by
itself knows `size_t`, `assert`, `printf` and CUDA's mathematical functions. The headers of CUDA
that kernels use (cuda_fp16.h, cooperative_groups.h, …) are NVIDIA's own, where installed.
"""

from __future__ import annotations

import functools
import hashlib
import re
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

_FOLDER = Path(__file__).parent / "headers"
# Names of a header in `headers/` besides its own.
_ALIASES = {
    "cstdint": "stdint.h",
    "inttypes.h": "stdint.h",
    "cinttypes": "stdint.h",
    "cstddef": "stddef.h",
    "stdlib.h": "stddef.h",
    "cstdlib": "stddef.h",
    "climits": "limits.h",
    "cfloat": "float.h",
    "cmath": "math.h",
    "cuda_runtime_api.h": "cuda_runtime.h",
    **dict.fromkeys(
        (
            *("cublas.h", "cublas_v2.h", "cublasLt.h", "cudnn.h", "cufft.h", "curand.h"),
            *("cusolverDn.h", "cusparse.h", "nccl.h"),
        ),
        "libraries.h",
    ),
}
# Headers that host code alone uses. Source: the C++ standard's list of headers; the host libraries
# of the CUDA toolkit; what extensions of PyTorch and NVIDIA's samples include.
_EMPTY = """
array atomic bitset cassert cctype cerrno charconv chrono complex concepts condition_variable
csignal cstdarg cstdio cstring ctime cwchar deque exception execution filesystem format
forward_list fstream functional future initializer_list iomanip ios iosfwd iostream istream
iterator list locale map memory memory_resource mutex new numbers numeric optional ostream queue
random ranges ratio regex set shared_mutex span sstream stack stdexcept streambuf string
string_view strstream system_error thread tuple typeindex typeinfo unordered_map unordered_set
valarray variant vector version
assert.h ctype.h errno.h fcntl.h getopt.h malloc.h memory.h mpi.h omp.h pthread.h signal.h
stdbool.h stdio.h string.h strings.h time.h unistd.h windows.h
sys/mman.h sys/stat.h sys/time.h
nvml.h nvrtc.h device_launch_parameters.h nvToolsExt.h nvToolsExtCudaRt.h
nvtx3/nvToolsExt.h nvtx3/nvToolsExtCudaRt.h nvtx3/nvtx3.hpp
cuda_profiler_api.h
helper_cuda.h helper_functions.h helper_string.h helper_timer.h
thrust/copy.h thrust/device_ptr.h thrust/device_vector.h thrust/execution_policy.h thrust/fill.h
thrust/functional.h thrust/generate.h thrust/host_vector.h thrust/reduce.h thrust/scan.h
thrust/sequence.h thrust/sort.h thrust/transform.h
torch/all.h torch/extension.h torch/library.h torch/python.h torch/script.h torch/torch.h
torch/types.h ATen/ATen.h ATen/cuda/CUDAContext.h ATen/cuda/Exceptions.h
c10/cuda/CUDAException.h c10/cuda/CUDAGuard.h c10/cuda/CUDAStream.h
pybind11/pybind11.h pybind11/numpy.h pybind11/stl.h
"""
# What nvcc includes before the first line of every file, and what comes in with that.
IMPLICIT_HEADER = "tilewright/implicit.h"
_IMPLICIT = (
    *("stddef.h", "stdint.h", "sys/types.h", "limits.h", "float.h", "math.h", "cuda_runtime.h"),
)


@functools.cache
def host_headers() -> Mapping[str, str]:
    """Return the text of each stand-in by the name that an `#include` gives."""
    full = {
        path.relative_to(_FOLDER).as_posix(): path.read_text(encoding="utf-8")
        for path in _FOLDER.rglob("*")
        if path.is_file()
    }
    aliases = {alias: full[name] for alias, name in _ALIASES.items()}
    empty = dict.fromkeys(_EMPTY.split(), "")
    implicit = "".join(f"#include <{name}>\n" for name in _IMPLICIT)
    return MappingProxyType(empty | full | aliases | {IMPLICIT_HEADER: implicit})


@functools.cache
def host_headers_digest() -> str:
    """Return a digest of all stand-ins: a compile depends on them."""
    return hashlib.sha256(repr(sorted(host_headers().items())).encode()).hexdigest()


@functools.cache
def std_names() -> frozenset[str]:
    """Return what the stand-ins declare in `std`; whatever else is in it, only host code uses."""
    text = "\n".join(host_headers().values())
    patterns = (
        r"\busing (?:::)?(\w+)(?=;| =)",
        r"\bstruct (\w+)",
        r"\bconstexpr bool (\w+) =",
        r"\b(\w+)\((?:const )?T&",
    )
    # NVRTC has two of its own.
    return frozenset({"move", "forward"}.union(*(re.findall(p, text) for p in patterns)))
