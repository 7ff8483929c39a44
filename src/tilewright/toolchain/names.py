"""The kernels that a text declares, by a light scan: for messages, and to pick one in PTX."""

from __future__ import annotations

import re
from collections.abc import Iterable

from tilewright.errors import CompileError, UnknownNameError

# A raw string (the group is its delimiter), a comment, a string or a character.
_NOT_CODE = re.compile(
    r'R"(?P<mark>[^()\\\s]{0,16})\(.*?\)(?P=mark)"|//[^\n]*|/\*.*?\*/'
    r'|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'',
    re.DOTALL,
)
# In `template __global__ void k<2, float>(…)` template arguments stand between.
_NAME_BEFORE_PARENTHESIS = re.compile(r"([A-Za-z_]\w*)\s*(?:<[^;()]*>\s*)?\(")
_ENTRY = re.compile(r"^[ \t]*(?:\.(?:visible|weak)[ \t]+)?\.entry[ \t]+([\w$%]+)", re.MULTILINE)


def kernels_in_cuda(text: str) -> tuple[str, ...]:
    """Return the names of the `__global__` functions in CUDA C++ text, in order.

    A scan, not a parse: it does not expand macros and does not evaluate `#if`.
    """
    # Digit separators (1'000) would open a character literal.
    code = re.sub(r"(?<=\d)'(?=\d)", "", text)
    code = _NOT_CODE.sub(lambda match: "\n" * match.group().count("\n") or " ", code)
    names = (name for part in code.split("__global__")[1:] if (name := _declared(part)))
    return tuple(dict.fromkeys(names))


def entries_in_ptx(text: str) -> tuple[str, ...]:
    """Return the symbols of the kernels (`.entry`) in PTX text, in order."""
    return tuple(_ENTRY.findall(text))


def pick_entry(symbols: Iterable[str], kernel: str, where: str) -> str:
    """Return the one symbol that `kernel` means.

    That is the symbol itself, or else the only one whose mangled name has `kernel` as one of its
    identifiers (`_Z5naivePf` for `naive`), or else the only one that contains it.

    Raises:
        UnknownNameError: no symbol fits.
        CompileError: several fit, or there is no kernel at all.
    """
    known = tuple(symbols)
    if not known:
        raise CompileError(f"{where} has no kernel: expected a `.entry` in it")
    if kernel in known:
        return kernel
    identifier = f"{len(kernel)}{kernel}"
    for fits in (
        [symbol for symbol in known if symbol.startswith("_Z") and identifier in symbol],
        [symbol for symbol in known if kernel and kernel in symbol],
    ):
        if len(fits) == 1:
            return fits[0]
        if fits:
            raise CompileError(
                f"{kernel!r} means {len(fits)} kernels of {where}: {', '.join(fits)}; "
                "give the whole symbol of one"
            )
    raise UnknownNameError(f"kernel of {where}", kernel, known)


def base_name(kernel: str) -> str:
    """Return the bare function name of a name expression: `gemm` for `&ns::gemm<Tile{}>`."""
    return kernel.split("<", 1)[0].lstrip("& \t").rsplit("::", 1)[-1].strip()


# Words with parentheses that may stand between `__global__` and the name.
_NOT_NAMES = frozenset({"alignas", "decltype", "noexcept", "requires", "void"})


def _declared(after_global: str) -> str | None:
    """Return the function name in the declaration that follows `__global__`."""
    position = 0
    for match in _NAME_BEFORE_PARENTHESIS.finditer(after_global.split(";", 1)[0]):
        if match.start() < position:
            continue  # inside the parentheses of an attribute
        name = match.group(1)
        if not (name.startswith("__") and name.endswith("__")) and name not in _NOT_NAMES:
            return name
        position = _closing(after_global, match.end())
    return None


def _closing(text: str, start: int) -> int:
    """Return the position after the parenthesis that closes the one before `start`."""
    depth = 1
    for position in range(start, len(text)):
        depth += {"(": 1, ")": -1}.get(text[position], 0)
        if depth == 0:
            return position + 1
    return len(text)
