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
# Headers that host code alone uses. Source: the lists of headers of the C++ standard and of POSIX;
# the host libraries of the CUDA toolkit; NVIDIA's samples.
_EMPTY = """
array atomic bitset cassert cctype cerrno charconv chrono complex concepts condition_variable
csignal cstdarg cstdio cstring ctime cwchar deque exception execution filesystem format
forward_list fstream functional future initializer_list iomanip ios iosfwd iostream istream
iterator list locale map memory memory_resource mutex new numbers numeric optional ostream queue
random ranges ratio regex set shared_mutex span sstream stack stdexcept streambuf string
string_view strstream system_error thread tuple typeindex typeinfo unordered_map unordered_set
valarray variant vector version
assert.h ctype.h errno.h locale.h malloc.h memory.h setjmp.h signal.h stdarg.h stdbool.h stdio.h
string.h strings.h time.h wchar.h
arpa/inet.h dirent.h dlfcn.h execinfo.h fcntl.h getopt.h glob.h libgen.h netdb.h netinet/in.h
poll.h pthread.h sched.h sys/ioctl.h sys/mman.h sys/param.h sys/resource.h sys/socket.h sys/stat.h
sys/time.h sys/wait.h syslog.h unistd.h windows.h
immintrin.h emmintrin.h xmmintrin.h x86intrin.h mpi.h omp.h
cuda_profiler_api.h device_launch_parameters.h nvml.h nvrtc.h nvToolsExt.h nvToolsExtCudaRt.h
helper_cuda.h helper_functions.h helper_string.h helper_timer.h
"""
# Folders of headers that are whole libraries of host code.
_LIBRARIES = (
    *("absl", "ATen", "benchmark", "boost", "c10", "Eigen", "gtest", "nvtx3", "opencv2"),
    *("pybind11", "thrust", "torch"),
)
_PYTORCH = ("ATen/", "c10/", "torch/")
_LIBRARY_INCLUDE = re.compile(
    rf'^[ \t]*#[ \t]*include[ \t]*[<"]((?:{"|".join(_LIBRARIES)})/[^>"\n]+)[>"]', re.MULTILINE
)
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


def library_headers(text: str) -> dict[str, str]:
    """Return stand-ins for the headers of host libraries that a text includes.

    PyTorch's bring CUDA's half precision with them, as cuBLAS's do; the others are empty.
    """
    names = _LIBRARY_INCLUDE.findall(text)
    return {name: "#include <cublas_v2.h>\n" if name.startswith(_PYTORCH) else "" for name in names}


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
