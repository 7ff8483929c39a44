"""The control fields of machine instructions, and the sections of the file that they lie in."""

import struct

import pytest

from tilewright.errors import ToolchainError, UnsupportedError
from tilewright.kernels import rung
from tilewright.toolchain import Artifact, compile_cuda, disassemble
from tilewright.toolchain.control import Control, control_codes
from tilewright.toolchain.elf import Section, elf_sections, symbol_names

# What stands in an ELF file's header before the section table's offset, and between it and the
# sizes (System V ABI, figure 4-3), for a file whose header is 64 bytes long.
IDENT = b"\x7fELF\x02\x01\x01" + bytes(9)


def elf(sections: dict[str, bytes], *, empty: int = 0) -> bytes:
    """A file of these sections, a shared memory of `empty` bytes, and the table of their names."""
    names = ["", *sections, ".nv.shared.k", ".shstrtab"]
    table = b"".join(name.encode() + b"\0" for name in names)
    places = [sum(len(n) + 1 for n in names[:i]) for i in range(len(names))]
    body, headers = b"", [struct.pack("<IIQQQQIIQQ", *[0] * 10)]
    contents = [*sections.values(), b"", table]
    for place, data in zip(places[1:], contents, strict=True):
        kind, size = (8, empty) if place == places[-2] else (1, len(data))
        headers.append(
            struct.pack("<IIQQQQIIQQ", place, kind, 0, 0, 64 + len(body), size, *[0] * 4)
        )
        body += data
    head = IDENT + struct.pack("<HHIQQQI6H", 2, 190, 1, 0, 0, 64 + len(body), 0, 64, 0, 0,
                               64, len(headers), len(headers) - 1)  # fmt: skip
    return head + body + b"".join(headers)


def artifact(code: bytes, symbol: str = "k") -> Artifact:
    return Artifact(
        name="k", symbol=symbol, arch="sm_90", ptx="", cubin=elf({".text.k": code}),
        log="", compiler="", source_name="k.cu", source="",
    )  # fmt: skip


def instruction(high: int) -> bytes:
    return struct.pack("<QQ", 0x7221, high)


def test_the_sections_by_name() -> None:
    found = elf_sections(elf({".text.k": b"code", ".strtab": b"\0one\0two\0"}, empty=1024))
    assert found[".text.k"] == Section(4, 64, b"code")
    assert found[".strtab"].offset == 68
    assert found[".nv.shared.k"] == Section(1024, 77, b"")  # in memory, not in the file
    assert list(found) == ["", ".text.k", ".strtab", ".nv.shared.k", ".shstrtab"]


def test_the_names_of_the_symbols() -> None:
    entries = [struct.pack("<IBBHQQ", name, 0, 0, 0, 0, 0) for name in (5, 1)]
    file = elf({".strtab": b"\0one\0two\0", ".symtab": b"".join(entries)})
    assert symbol_names(elf_sections(file)) == ["two", "one"]


def test_what_is_no_elf_file_is_refused() -> None:
    with pytest.raises(ValueError, match="no 64-bit ELF file"):
        elf_sections(b"\x7fELF\x01\x01" + bytes(64))


# As nvdisasm -hex prints the upper half of an instruction. By hand: shifted right by 41 bits,
# 0x7f2 = 0000 000000 111 111 1 0010: reuse, wait, read, write, yield, stall.
@pytest.mark.parametrize(
    ("high", "expected"),
    [
        (0x000FE40000000F00, Control(2, None, None, 0, 0)),  # 0x7f2
        (0x000E220000002100, Control(1, 0, None, 0, 0)),  # 0x711: 000000 111 000 1 0001
        (0x001FCA00078E0207, Control(5, None, None, 1, 0)),  # 0xfe5: 000001 111 111 0 0101
        (0x0041E8000C101904, Control(4, None, 0, 4, 0)),  # 0x20f4: 000100 000 111 1 0100
        (0x020FE20000000000, Control(1, None, None, 32, 0)),  # bit 121: scoreboard 5
        (0x040FE20000000005, Control(1, None, None, 0, 1)),  # bit 122: the first operand is kept
        (0x0C0FE20000000005, Control(1, None, None, 0, 3)),
    ],
)
def test_the_fields_of_known_encodings(high: int, expected: Control) -> None:
    other = instruction(0x000FE40000000F00)
    assert control_codes(artifact(other + instruction(high)))[16] == expected


@pytest.mark.parametrize("arch", ["sm_75", "sm_86", "sm_90", "sm_120"])
def test_reuse_flags_are_those_that_nvdisasm_prints(arch: str) -> None:
    """Of every FFMA of a real kernel, operand by operand; and its scoreboards are used in pairs."""
    chosen = rung("05_register_2d")
    compiled = compile_cuda(
        chosen.source, chosen.expression(chosen.default), arch=arch,
        include_dirs=chosen.include_dirs,
    )  # fmt: skip
    code = disassemble(compiled).functions[compiled.symbol].instructions
    control = control_codes(compiled)
    kept = 0
    held = set()
    for ins in code:
        fields = control[ins.address]
        if ins.opcode == "FFMA":
            flags = [operand.endswith(".reuse") for operand in ins.operands[1:]]
            assert fields.reuse == sum(flag << slot for slot, flag in enumerate(flags))
            kept += any(flags)
        held |= {fields.write_barrier, fields.read_barrier}
        assert all(bit in held for bit in range(6) if fields.wait >> bit & 1)
    assert kept > 50
    assert any(control[ins.address].wait for ins in code if ins.opcode == "FFMA")


def test_an_artifact_without_the_code_is_refused() -> None:
    ptx = Artifact(
        name="k", symbol="k", arch="sm_90", ptx="", cubin=b"", log="", compiler="",
        source_name="k.ptx", source="",
    )  # fmt: skip
    with pytest.raises(UnsupportedError, match=r"k\.ptx was given as PTX.*CUDA C\+\+ source"):
        control_codes(ptx)
    with pytest.raises(ToolchainError, match="the cubin of k is damaged"):
        control_codes(artifact(instruction(0), symbol="other"))
