"""A function's body: scopes, labels, declarations and instructions."""

from __future__ import annotations

import re
from collections.abc import Mapping

from tilewright.errors import PtxError
from tilewright.toolchain.ptx.declarations import Header, read_registers, read_variables
from tilewright.toolchain.ptx.instructions import check_operands, decode
from tilewright.toolchain.ptx.ir import (
    Function,
    Guard,
    Instruction,
    Location,
    Operand,
    Reg,
    Symbol,
    Variable,
    Vec,
)
from tilewright.toolchain.ptx.lexer import NAME, Source, split_list
from tilewright.toolchain.ptx.operands import Scope

# One item, with the white space behind it. A brace is a scope only where a statement may begin;
# inside a statement it belongs to a vector.
_ITEM = re.compile(
    rf"(?:(?:@\s*(?P<negated>!?)\s*(?P<guard>{NAME})\s+)?(?P<opcode>[a-z]\w*+(?:\s*+(?:\.|::)\w+)*+)"
    rf"(?![\w$]|\s*:)(?P<operands>[^;]*);|(?P<label>{NAME})\s*:(?!:)|(?P<brace>[{{}}])"
    r"|(?P<loc>\.loc\b[^\n]*)|\.(?P<directive>[a-z]+)\b(?P<rest>[^;]*);|(?P<empty>;))\s*"
)
_LOC = re.compile(r"\.loc\s+(\d+)\s+(\d+)")
_TABLES = ("branchtargets", "calltargets", "callprototype")


def read_body(
    source: Source, position: int, header: Header, outer: Scope, files: Mapping[int, str]
) -> tuple[Function, int]:
    """Read the body that opens before `position`; gives the function and where its text ends.

    Raises: PtxError, without the line, which is `source.at`.
    """
    items, labels = _items(source, position)
    body = _Body(source, header, outer, files)
    body.read(items, labels)
    function = Function(
        name=header.name,
        is_entry=header.is_entry,
        params=header.params,
        returns=header.returns,
        registers=body.registers,
        variables=tuple(body.variables),
        body=tuple(body.instructions),
        labels=body.labels,
        directives=header.directives,
    )
    return function, items[-1].end()


def _items(source: Source, position: int) -> tuple[list[re.Match[str]], list[list[str]]]:
    """Split a body into items up to its closing brace, and list the labels of every scope.

    A branch may come before its label, so the labels of a scope are needed when it opens.
    """
    text, items = source.text, []
    labels: list[list[str]] = [[]]
    open_scopes = [0]
    while open_scopes:
        source.at = position
        match = _ITEM.match(text, position)
        if match is None:
            raise PtxError(
                "the function's closing '}' is missing"
                if position >= len(text)
                else "expected an instruction or a directive that ends in ';', or a label"
            )
        items.append(match)
        position = match.end()
        kind = match.lastgroup
        if kind == "label":
            labels[open_scopes[-1]].append(match["label"])
        elif kind == "brace":
            if match["brace"] == "{":
                open_scopes.append(len(labels))
                labels.append([])
            else:
                open_scopes.pop()
    return items, labels


class _Body:
    """The function as read so far."""

    def __init__(
        self, source: Source, header: Header, outer: Scope, files: Mapping[int, str]
    ) -> None:
        self.source = source
        self.files = files
        self.location: Location | None = None
        self.registers: dict[str, str] = {}
        self.variables: list[Variable] = []
        self.instructions: list[Instruction] = []
        self.labels: dict[str, int] = {}
        self.taken: set[str] = set()
        self.scope = Scope(outer)
        for variable in (*header.returns, *header.params):
            self.taken.add(variable.name)
            self.scope.declare(variable.name, Symbol(variable.name))

    def unique(self, name: str) -> str:
        """Choose `name`, or where another scope has it, `name.2` and up: PTX names have no dot."""
        number, chosen = 1, name
        while chosen in self.taken:
            number += 1
            chosen = f"{name}.{number}"
        self.taken.add(chosen)
        return chosen

    def read(self, items: list[re.Match[str]], labels: list[list[str]]) -> None:
        """Read the items in order."""
        opened, enclosing = 0, []
        self._declare_labels(labels[0])
        table = None
        for match in items:
            self.source.at = match.start()
            if match["opcode"]:
                self._instruction(match)
            elif match["loc"]:
                self._locate(match["loc"])
            elif match["directive"]:
                self._directive(match["directive"], match["rest"], table)
            elif match["brace"] == "{":
                opened += 1
                enclosing.append(self.scope)
                self.scope = Scope(self.scope)
                self._declare_labels(labels[opened])
            elif match["brace"] and enclosing:
                self.scope = enclosing.pop()
            elif match["label"]:
                self._place(match["label"])
            table = match["label"]

    def _declare_labels(self, names: list[str]) -> None:
        for name in names:
            self.scope.declare(name, Symbol(self.unique(name)))

    def _place(self, name: str) -> None:
        symbol = self.scope.names[name]
        if isinstance(symbol, Symbol):
            if symbol.name in self.labels:
                raise PtxError(f"label {name!r} is defined twice in one scope")
            self.labels[symbol.name] = len(self.instructions)

    def _locate(self, text: str) -> None:
        match = _LOC.match(text)
        if match is None:
            raise PtxError("expected '.loc file line column'")
        number, line = int(match[1]), int(match[2])
        name = self.files.get(number, "")
        # Line 0 marks code that the compiler made and no source line stands for.
        self.location = Location(name, line) if line and name else None

    def _directive(self, name: str, rest: str, table: str | None) -> None:
        if name == "reg":
            for register, kind in read_registers(rest):
                chosen = self.unique(register)
                self.registers[chosen] = kind
                self.scope.declare(register, Reg(chosen))
        elif name in _TABLES:
            self._table(name, rest, table)
        elif name != "pragma":
            for variable in read_variables(f".{name}{rest}", self.unique):
                self.variables.append(variable[1])
                self.scope.declare(variable[0], Symbol(variable[1].name))

    def _table(self, name: str, rest: str, label: str | None) -> None:
        """Read a label table or a prototype: no place in the code, so its label goes again.

        `brx.idx` gets the branch targets themselves in place of the table's name.
        """
        if label is None:
            raise PtxError(f"expected a label before '.{name}'")
        symbol = self.scope.names[label]
        if isinstance(symbol, Symbol):
            self.labels.pop(symbol.name)
        if name == "branchtargets":
            self.scope.declare(label, Vec(self.scope.operands(rest)))

    def _instruction(self, match: re.Match[str]) -> None:
        spelled = decode(match["opcode"])
        scope = self.scope
        guard: Guard | None = None
        if match["guard"]:
            reg = scope.operand(match["guard"])
            if not isinstance(reg, Reg):
                raise PtxError(f"the guard {match['guard']!r} is not a predicate register")
            guard = Guard(reg, match["negated"] == "!")
        text = match["operands"]
        if spelled.opcode == "call":
            operands = self._call(text)
        elif spelled.info is not None:
            operands = scope.operands(text)
        else:
            operands = self._lenient(text)
        check_operands(spelled, operands)
        self.instructions.append(
            Instruction(
                opcode=spelled.opcode,
                types=spelled.types,
                space=spelled.space,
                vector=spelled.vector,
                flags=spelled.flags,
                operands=operands,
                guard=guard,
                ptx_line=self.source.line(match.start()),
                location=self.location,
                text=" ".join(match.group().split()),
                known=spelled.info is not None,
            )
        )

    def _lenient(self, text: str) -> tuple[Operand, ...]:
        """Operands of an instruction outside the table: what cannot be read is kept by name."""
        operands: list[Operand] = []
        for part in split_list(text):
            try:
                operands.append(self.scope.operand(part))
            except PtxError:
                operands.append(Symbol(part))
        return tuple(operands)

    def _call(self, text: str) -> tuple[Operand, ...]:
        """`(results), target, (arguments)`, where all but the target may be left out."""
        operands = list(self.scope.operands(text))
        if not operands:
            raise PtxError("expected 'call (results), function, (arguments);'")
        if not isinstance(operands[0], Vec):
            operands.insert(0, Vec(()))
        if len(operands) < 3 or not isinstance(operands[2], Vec):
            operands.insert(2, Vec(()))
        return tuple(operands)
