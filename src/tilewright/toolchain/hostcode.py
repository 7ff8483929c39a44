"""The host half of a CUDA source, blanked out: what nvcc splits off and NVRTC refuses.

Functions that are marked for no device, launches `<<<…>>>`, objects of the host at namespace
scope. What stays is where it was, line and column, so that every message and every `.loc` speaks
of the file as it is. Macros, types, templates and constants stay: kernels need them.

This reads tokens, not C++: it finds declarations by their brackets, which is enough to tell a
function from a type from a variable. A compiler decides about whatever is left.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from tilewright.toolchain.hostheaders import std_names

# What marks a declaration as one for the device, or for both: it stays.
_DEVICE_WORDS = frozenset(
    {"__global__", "__device__", "__constant__", "__shared__", "__managed__", "__grid_constant__"}
)
_CONSTANT_WORDS = frozenset({"constexpr", "consteval", "constinit"})
_CLASS_WORDS = frozenset({"struct", "class", "union", "enum"})
# What begins a declaration that is neither a function nor a variable.
_OTHER_WORDS = frozenset({"using", "typedef", "static_assert", "concept", "namespace", "enum"})
# Words whose parentheses are not those of a function.
_ATTRIBUTES = frozenset(
    {
        *("alignas", "decltype", "explicit", "noexcept", "requires", "throw"),
        *("__align__", "__attribute__", "__declspec", "__launch_bounds__", "__cluster_dims__"),
        *("__block_size__", "__maxnreg__"),
    }
)
# Libraries of host code: a declaration that names one of them is host code.
_HOST_NAMESPACES = frozenset(
    {"absl", "at", "boost", "c10", "cv", "Eigen", "pybind11", "py", "thrust", "torch"}
)

_TOKEN = re.compile(
    r"""
    (?P<directive>^[ \t]*\#(?:\\\r?\n|/\*.*?\*/|//(?:\\\r?\n|[^\n])*|[^\n])*)
  | (?P<comment>//(?:\\\r?\n|[^\n])*|/\*.*?\*/)
  | (?P<string>(?:u8|[uUL])?R"(?P<mark>[^()\\\s]{0,16})\(.*?\)(?P=mark)"
      |(?:u8|[uUL])?"(?:\\.|[^"\\\n])*"|(?:u8|[uUL])?'(?:\\.|[^'\\\n])*')
  | (?P<number>\.?\d(?:'(?=\w)|[eEpP][+-]|[\w.])*)
  | (?P<word>[A-Za-z_$][\w$]*)
  | (?P<sign>::|[^\s])
    """,
    re.DOTALL | re.MULTILINE | re.VERBOSE,
)
_DEFINE = re.compile(r"[ \t]*#[ \t]*define[ \t]+(\w+)(.*)", re.DOTALL)
_CLOSING = {"(": ")", "[": "]", "{": "}"}


@dataclass(frozen=True, slots=True, kw_only=True)
class HostCode:
    """A source without its host code.

    `text` has the same lines and columns; `left_out` maps the name of each function and variable
    that was blanked to its line.
    """

    text: str
    left_out: Mapping[str, int]


def blank_host_code(text: str, *, device_macros: Collection[str] = ()) -> HostCode:
    """Return `text` with its host code blanked; the same text where it has none.

    `device_macros` are macros of other files that mark a declaration as one for the device.
    """
    scan = _Scan(text, {*device_macros, *find_device_macros([text])})
    scan.scope(0, len(scan.tokens), in_class=False)
    return HostCode(text=scan.blanked(), left_out=scan.left_out)


def find_device_macros(texts: Iterable[str]) -> set[str]:
    """Return the macros whose text, or a macro in it, marks declarations for the device."""
    bodies: dict[str, set[str]] = {}
    for text in texts:
        for match in _TOKEN.finditer(text):
            define = _DEFINE.match(match["directive"] or "")
            if define is not None:
                bodies[define[1]] = set(re.findall(r"\w+", define[2]))
    found: set[str] = set()
    while more := {
        name
        for name, words in bodies.items()
        if name not in found and words & (_DEVICE_WORDS | found)
    }:
        found |= more
    return found


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    text: str
    start: int
    end: int


class _Scan:
    """The tokens of one text, and which stretches of it are host code."""

    def __init__(self, text: str, device_macros: Collection[str]) -> None:
        self.source = text
        self.device = _DEVICE_WORDS | set(device_macros)
        self.tokens = [
            _Token(str(m.lastgroup if m.lastgroup != "mark" else "string"), m[0], *m.span())
            for m in _TOKEN.finditer(text)
            if m["comment"] is None
        ]
        self.gone: list[tuple[int, int]] = []  # token ranges
        self.left_out: dict[str, int] = {}

    def blanked(self) -> str:
        """Return the text with what is gone replaced by blanks, its directives kept."""
        parts, position = [], 0
        for first, last in self.gone:
            start, end = self.tokens[first].start, self.tokens[last].end
            parts.append(self.source[position:start])
            kept = [
                t
                for t in self.tokens[first : last + 1]
                if t.kind == "directive" and not re.match(r"[ \t]*#[ \t]*pragma", t.text)
            ]
            for token in kept:
                parts += [_blank(self.source[start : token.start]), token.text]
                start = token.end
            parts.append(_blank(self.source[start:end]))
            position = end
        return "".join([*parts, self.source[position:]])

    def scope(self, position: int, end: int, *, in_class: bool) -> None:
        """Read the declarations from token `position` up to `end`."""
        while position < end:
            token = self.tokens[position]
            label = in_class and token.text in ("public", "private", "protected")
            if token.kind == "directive" or token.text in (";", "}", ":"):
                position += 1
            elif label:
                position += 2
            else:
                position = self._declaration(position, end, in_class)

    def _declaration(self, first: int, end: int, in_class: bool) -> int:
        """Read the declaration that begins at token `first`; return where the next begins."""
        position = first
        while position < end:
            text = self.tokens[position].text
            if self.tokens[position].kind == "directive":
                position += 1
            elif text == ";":
                self._judge(first, position, in_class)
                return position + 1
            elif text == "}":  # one too many: a branch of an #if that ends what another began
                return position + 1
            elif text == "{":
                head = self._head(first, position)
                close = self._closing(position)
                if self._opens_namespace(head):
                    self.scope(position + 1, close, in_class=False)
                    return close + 1
                kind = _kind(head)
                if kind == "class" and "enum" not in _words(head) and not self._host(head):
                    self.scope(position + 1, close, in_class=True)
                    return self._behind(close, end)
                if kind == "function" and not _initialises(head):
                    self._judge(first, close, in_class, head)
                    return close + 1
                position = close + 1
            elif text in _CLOSING:
                position = self._closing(position) + 1
            else:
                position += 1
        return end

    def _behind(self, position: int, end: int) -> int:
        """Return the token behind the `;` that ends a class whose body closes at `position`."""
        return next((i + 1 for i in range(position, end) if self.tokens[i].text == ";"), end)

    def _head(self, first: int, last: int) -> list[_Token]:
        """Return the tokens of a declaration, without a template's parameters."""
        tokens = [t for t in self.tokens[first:last] if t.kind != "directive"]
        while tokens and tokens[0].text == "template" and tokens[1:2] and tokens[1].text == "<":
            tokens = tokens[_after_angles(tokens, 1) :]
        return tokens

    def _opens_namespace(self, head: Sequence[_Token]) -> bool:
        words = [t.text for t in head]
        linkage = len(words) == 2 and words[0] == "extern" and head[1].kind == "string"
        return linkage or "namespace" in words[:2]

    def _judge(
        self, first: int, last: int, in_class: bool, head: Sequence[_Token] | None = None
    ) -> None:
        """Blank the declaration of tokens first to last if it is host code."""
        tokens = self._head(first, last) if head is None else head
        words = _words(tokens)
        if not tokens or words & self.device:
            return
        kind = _kind(tokens)
        plain = kind in ("class", "other") or (in_class and kind == "variable")
        if self._host(tokens):
            stays = False
        elif plain or words & _CONSTANT_WORDS:
            stays = True
        elif kind == "variable":
            stays = "const" in words and not words & {"dim3", "extern"}
        else:
            stays = _is_defaulted(tokens)
        if not stays:
            self.gone.append((first, last))
            name = _name(tokens)
            if name is not None:
                line = self.source.count("\n", 0, tokens[0].start) + 1
                self.left_out.setdefault(name, line)

    def _host(self, tokens: Sequence[_Token]) -> bool:
        """Whether tokens name something that only host code has."""
        texts = ["", *(t.text for t in tokens), "", ""]
        for place in range(1, len(texts) - 2):
            before, word, after, name = texts[place - 1 : place + 3]
            if after != "::" or before == "::":
                same = word in _HOST_NAMESPACES and before == "="  # an alias of a namespace
                if same and texts[1] == "namespace":
                    return True
                continue
            if word in _HOST_NAMESPACES or (word == "std" and name not in std_names()):
                return True
        return False

    def _closing(self, position: int) -> int:
        """Return the token that closes the bracket at `position`; the last one if none does.

        Each branch of an `#if` begins with the brackets that stood open before the first.
        """
        opened: list[str] = []
        saved: list[list[str]] = []
        for place in range(position, len(self.tokens)):
            token = self.tokens[place]
            if token.kind == "directive":
                _branch(token.text, opened, saved)
            elif token.kind == "sign" and token.text in _CLOSING:
                opened.append(_CLOSING[token.text])
            elif token.kind == "sign" and opened and token.text == opened[-1]:
                opened.pop()
                if not opened:
                    return place
        return len(self.tokens) - 1


def _branch(directive: str, opened: list[str], saved: list[list[str]]) -> None:
    match = re.match(r"[ \t]*#[ \t]*(if|el|endif)", directive)
    if match is None:
        return
    if match[1] == "if":
        saved.append(list(opened))
    elif match[1] == "el" and saved:
        opened[:] = saved[-1]
    elif match[1] == "endif" and saved:
        saved.pop()


def _kind(head: Sequence[_Token]) -> str:
    """Return what a declaration declares: "class", "function", "variable" or "other"."""
    if not head or head[0].text in _OTHER_WORDS:
        return "other"
    parameters = _parameters(head)
    if parameters is None:
        outer = _outer_words(head)
        return "class" if outer & _CLASS_WORDS else "variable"
    return "function"


def _parameters(head: Sequence[_Token]) -> int | None:
    """Return the place of the parenthesis that opens a function's parameters, None without."""
    depth = 0
    for place, token in enumerate(head):
        if token.kind != "sign":
            continue
        if token.text == "=" and depth == 0 and head[place - 1].text != "operator":
            return None
        if token.text == "(" and depth == 0 and place > 0:
            before = head[place - 1]
            pointer = head[place + 1 : place + 2] and head[place + 1].text in ("*", "&")
            if before.text not in _ATTRIBUTES and not pointer:
                return place
        depth += (token.text in _CLOSING) - (token.text in _CLOSING.values())
    return None


def _outer_words(head: Sequence[_Token]) -> set[str]:
    """Return the words of a declaration that stand in no bracket."""
    words, depth = set(), 0
    for token in head:
        if token.kind == "word" and depth == 0:
            words.add(token.text)
        elif token.kind == "sign":
            depth += (token.text in _CLOSING) - (token.text in _CLOSING.values())
    return words


def _initialises(head: Sequence[_Token]) -> bool:
    """Whether the brace behind `head` holds a member's value in a constructor's list: `: a{1}`."""
    colon = any(t.text == ":" for t in head[_parameters(head) or 0 :])
    return colon and head[-1].kind == "word" and head[-1].text != "noexcept"


def _is_defaulted(tokens: Sequence[_Token]) -> bool:
    texts = [t.text for t in tokens[-2:]]
    return texts in (["=", "default"], ["=", "delete"])


def _name(tokens: Sequence[_Token]) -> str | None:
    """Return the name that a declaration declares, None where it is none a kernel could use."""
    place = _parameters(tokens)
    if place is None:
        place = next((i for i, t in enumerate(tokens) if t.text in ("=", "[", "{")), len(tokens))
    before = tokens[place - 1] if place else tokens[0]
    return before.text if before.kind == "word" else None


def _words(tokens: Sequence[_Token]) -> set[str]:
    return {t.text for t in tokens if t.kind == "word"}


def _after_angles(tokens: Sequence[_Token], position: int) -> int:
    """Return the place after the `>` that closes the `<` at `position`."""
    depth = 0
    inside = 0
    for place in range(position, len(tokens)):
        text = tokens[place].text
        if tokens[place].kind != "sign":
            continue
        inside += (text in _CLOSING) - (text in _CLOSING.values())
        if inside == 0:
            depth += (text == "<") - (text == ">")
            if depth == 0:
                return place + 1
    return len(tokens)


def _blank(text: str) -> str:
    return re.sub(r"[^\n\t\r]", " ", text)
