"""PTX text to a typed module. Handles what NVRTC, nvcc, Triton and Numba write."""

from __future__ import annotations

import re
from dataclasses import replace

from tilewright.errors import PtxError, UnsupportedError
from tilewright.toolchain.ptx.body import read_body
from tilewright.toolchain.ptx.declarations import read_header, read_variables
from tilewright.toolchain.ptx.ir import Function, Module, Symbol, Variable
from tilewright.toolchain.ptx.lexer import Source, split_list
from tilewright.toolchain.ptx.operands import Scope

_FILE = re.compile(r'^[ \t]*\.file\s+(\d+)\s+"([^"\n]*)"', re.MULTILINE)
# One item at module scope, with the white space behind it. A header's `.pragma "…";` is its own.
_ITEM = re.compile(
    r"(?:\.(?P<setting>version|target|address_size)\b(?P<value>[^\n]*)"
    r"|(?P<skip>\.(?:file|loc)\b[^\n]*|@@[^\n]*|\.section\b[^{]*\{[^}]*\}|\.pragma\b[^;]*;|;)"
    r"|(?P<header>(?:\.(?:visible|extern|weak|common)\s+)*\.(?:entry|func)\b"
    r'(?:[^{;"]|"[^"\n]*"\s*;?)*)(?P<end>[{;])'
    r"|\.alias\s+(?P<alias>[^;]*);|(?P<variable>\.[a-z]+\b[^;]*);)\s*"
)


def parse(text: str) -> Module:
    """Read a PTX module: the whole file, as a compiler writes it.

    Raises: PtxError where the text is not PTX, with the line and what was expected there;
        UnsupportedError where it declares what is not supported, such as texture references.
    Source: PTX ISA 9.0, sections 4 (syntax), 5 (variables), 7 (functions), 11 (directives).
    """
    source = Source(text)
    try:
        return _Reader(source).module()
    except (PtxError, UnsupportedError) as error:
        raise type(error)(source.explain(str(error))) from None


class _Reader:
    """What module scope has declared so far."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.files = {int(number): name for number, name in _FILE.findall(source.text)}
        self.settings: dict[str, str] = {}
        self.scope = Scope()
        self.functions: dict[str, Function] = {}
        self.variables: dict[str, Variable] = {}

    def module(self) -> Module:
        """Read every item."""
        text, position = self.source.text, self.source.start
        while position < len(text):
            self.source.at = position
            match = _ITEM.match(text, position)
            if match is None:
                raise PtxError("expected a directive that ends in ';', or a function")
            position = match.end()
            if match["setting"]:
                self.settings.setdefault(match["setting"], match["value"].strip())
            elif match["header"]:
                position = self._function(match["header"], match["end"], position)
            elif match["alias"]:
                self._alias(match["alias"])
            elif match["variable"]:
                for name, variable in read_variables(match["variable"]):
                    self.variables[name] = variable
                    self.scope.declare(name, Symbol(name))
        for key in ("version", "target"):
            if key not in self.settings:
                self.source.at = 0
                raise PtxError(f"a PTX module has a .{key} directive, and this text has none")
        return Module(
            version=self.settings["version"],
            target=self.settings["target"].partition(",")[0].strip(),
            address_size=int(self.settings.get("address_size", "32")),
            functions=self.functions,
            variables=self.variables,
        )

    def _function(self, text: str, end: str, position: int) -> int:
        header = read_header(text)
        self.scope.declare(header.name, Symbol(header.name))
        if end == ";":
            return position
        function, position = read_body(self.source, position, header, self.scope, self.files)
        self.functions[header.name] = function
        return position

    def _alias(self, text: str) -> None:
        name, *aliasee = split_list(text)
        if len(aliasee) != 1 or aliasee[0] not in self.functions:
            raise PtxError("expected '.alias name, function;' with a function defined above")
        self.functions[name] = replace(self.functions[aliasee[0]], name=name)
        self.scope.declare(name, Symbol(name))
