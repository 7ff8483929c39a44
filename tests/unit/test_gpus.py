"""The GPU table against datasheets, whitepapers and readings of real cards."""

import json
from dataclasses import fields

import pytest

from tilewright.errors import UnknownNameError, UnsupportedError
from tilewright.gpus import GPUS, LIMITS, Gpu, Limits, Source, by_device_name, gpu

# Published float32 rates (TFLOP/s) of the datasheets; for 2006 to 2008, multiply-add only.
PUBLISHED_FP32 = {
    "V100": 15.7,
    "T4": 8.1,
    "A100 80GB": 19.5,
    "RTX 3090": 35.6,
    "RTX A6000": 38.7,
    "RTX 4090": 82.6,
    "L4": 30.3,
    "H100": 66.9,
    "H200": 66.9,
    "B200": 75.0,
    "RTX 5090": 104.8,
    "8800 GTX": 0.3456,
    "9800 GTX": 0.432,
    "GTX 280": 0.622,
}
# Memory bus in bits, data rate a pin in Gbit/s: the bandwidth follows.
BUS = {
    "V100": (4096, 1.758),
    "T4": (256, 10.0),
    "A100 80GB": (5120, 3.186),
    "RTX 3090": (384, 19.5),
    "RTX A6000": (384, 16.0),
    "RTX 4090": (384, 21.0),
    "L4": (192, 12.5),
    "H100": (5120, 5.23),
    "H200": (6144, 6.25),
    "B200": (7680, 7.992),
    "RTX 5090": (512, 28.0),
    "8800 GTX": (384, 1.8),
    "9800 GTX": (256, 2.2),
    "GTX 280": (512, 2.214),
}
# Tensor cores an SM, dense float16 multiply-adds each a clock with float32 accumulation (GeForce
# has half), and the clock in MHz that the rate is published for.
TENSOR = {
    "V100": (8, 64, 1530),
    "T4": (8, 64, 1590),
    "A100 80GB": (4, 256, 1410),
    "RTX 3090": (4, 64, 1695),
    "RTX A6000": (4, 128, 1800),
    "RTX 4090": (4, 64, 2520),
    "L4": (4, 128, 2040),
    "H100": (4, 512, 1830),
    "H200": (4, 512, 1830),
    "RTX 5090": (4, 64, 2407),
}
# Read from cards by deviceQuery or cudaDeviceProp: SMs, threads an SM, registers an SM, shared
# bytes an SM, L2 bytes.
READ = {
    "T4": (40, 1024, 65536, 65536, 4194304),
    "A100 80GB": (108, 2048, 65536, 167936, 41943040),
    "H200": (132, 2048, 65536, 233472, 62914560),
    "B200": (148, 2048, 65536, 233472, 132644864),
    "RTX 5090": (170, 1536, 65536, 102400, 100663296),
}


# CUDA C++ Programming Guide, Technical Specifications: threads an SM, KB of shared memory a block.
DOCUMENTED = {
    (7, 0): (2048, 96),
    (7, 5): (1024, 64),
    (8, 0): (2048, 163),
    (8, 6): (1536, 99),
    (8, 9): (1536, 99),
    (9, 0): (2048, 227),
    (10, 0): (2048, 227),
    (12, 0): (1536, 99),
}


def test_there_are_fourteen_gpus_with_names_of_their_own() -> None:
    assert len(GPUS) == 14
    assert set(PUBLISHED_FP32) == {g.name for g in GPUS}


@pytest.mark.parametrize("name", PUBLISHED_FP32)
def test_float32_peak_is_the_published_one(name: str) -> None:
    assert gpu(name).fp32_flops_per_s == pytest.approx(PUBLISHED_FP32[name] * 1e12, rel=0.01)


@pytest.mark.parametrize("name", BUS)
def test_bandwidth_follows_from_the_memory_bus(name: str) -> None:
    bits, gbit = BUS[name]
    assert gpu(name).dram_bytes_per_s == pytest.approx(bits / 8 * gbit * 1e9, rel=0.002)


@pytest.mark.parametrize("name", TENSOR)
def test_tensor_rate_follows_from_the_tensor_cores(name: str) -> None:
    cores, fmas, mhz = TENSOR[name]
    rate = 2 * cores * fmas * gpu(name).sm_count * mhz * 1e6
    assert gpu(name).fp16_tensor_flops_per_s == pytest.approx(rate, rel=0.005)


@pytest.mark.parametrize("name", READ)
def test_figures_equal_what_real_cards_report(name: str) -> None:
    g = gpu(name)
    found = (g.sm_count, g.limits.max_threads, g.limits.registers, g.limits.shared_bytes)
    assert (*found, g.l2_bytes) == READ[name]


@pytest.mark.parametrize("cc", DOCUMENTED)
def test_limits_are_the_documented_ones(cc: tuple[int, int]) -> None:
    found = LIMITS[cc]
    assert (found.max_threads, found.shared_bytes_per_block_max / 1024) == DOCUMENTED[cc]
    assert set(DOCUMENTED) == {c for c in LIMITS if c >= (2, 0)}


def test_opt_in_shared_memory_of_the_h200_is_what_one_reports() -> None:
    assert gpu("H200").limits.shared_bytes_per_block_max == 232448
    assert gpu("RTX 5090").limits.shared_bytes_per_block_max == 101376


def test_2008_gpus_have_neither_l2_nor_tensor_cores() -> None:
    old = [g for g in GPUS if g.compute_capability < (2, 0)]
    assert [g.name for g in old] == ["8800 GTX", "9800 GTX", "GTX 280"]
    assert all(g.l2_bytes is None and g.fp16_tensor_flops_per_s is None for g in old)
    assert [g.limits.registers for g in old] == [8192, 8192, 16384]
    assert [g.limits.max_warps for g in old] == [24, 24, 32]


@pytest.mark.parametrize("record", [*GPUS, *LIMITS.values()], ids=lambda r: str(r)[:40])
def test_every_number_has_a_unit_and_a_source(record: Gpu | Limits) -> None:
    numbers = {f.name for f in fields(record) if isinstance(getattr(record, f.name), int | float)}
    assert numbers <= set(record.sources)
    assert all(
        getattr(record, n) is None or getattr(record, n)
        for n in numbers - {"shared_bytes_reserved"}
    )
    assert all(s.text.strip() for s in record.sources.values())


def test_a_row_without_a_source_is_refused() -> None:
    h200 = gpu("H200")
    arguments = {f.name: getattr(h200, f.name) for f in fields(h200)}
    arguments["sources"] = {"sm_count": Source(text="somewhere", grade="recalled")}
    with pytest.raises(ValueError, match="l2_bytes"):
        Gpu(**arguments)


@pytest.mark.parametrize(
    ("spelling", "name"),
    [
        ("a6000", "RTX A6000"),
        ("RTX A6000", "RTX A6000"),
        ("NVIDIA RTX A6000", "RTX A6000"),
        ("rtx3090", "RTX 3090"),
        ("rtx-3090", "RTX 3090"),
        ("GeForce RTX 3090", "RTX 3090"),
        ("GeForce RTX 5090", "RTX 5090"),
        ("Tesla V100 16GB", "V100"),
        ("3090", "RTX 3090"),
        ("h100", "H100"),
        ("NVIDIA H100 80GB HBM3", "H100"),
        ("A100", "A100 80GB"),
        ("a100_80gb", "A100 80GB"),
        ("Tesla T4", "T4"),
        ("gtx280", "GTX 280"),
        ("8800gtx", "8800 GTX"),
    ],
)
def test_spelling_does_not_matter(spelling: str, name: str) -> None:
    assert gpu(spelling).name == name


@pytest.mark.parametrize(
    ("typo", "nearest"),
    [
        ("h20", "H200"),
        ("RTX A600", "RTX A6000"),
        ("A100 40GB", "A100 80GB"),
        ("RTX 4080", "RTX 4090"),
    ],
)
def test_an_unknown_name_suggests_the_nearest(typo: str, nearest: str) -> None:
    with pytest.raises(UnknownNameError, match=f"did you mean '{nearest}'"):
        gpu(typo)


@pytest.mark.parametrize("name", ["", "nvidia", "GeForce"])
def test_a_makers_name_alone_is_no_gpu(name: str) -> None:
    with pytest.raises(UnknownNameError):
        gpu(name)


def test_no_spelling_means_two_gpus() -> None:
    spellings = [
        (s.lower().replace(" ", "").replace("-", ""), g.name)
        for g in GPUS
        for s in {g.name, *g.aliases, *g.device_names}
    ]
    owners = {s: {n for t, n in spellings if t == s} for s, _ in spellings}
    assert all(len(names) == 1 for names in owners.values()), owners


@pytest.mark.parametrize(
    ("reported", "name"),
    [
        ("NVIDIA H200", "H200"),
        ("NVIDIA H100 80GB HBM3", "H100"),
        ("NVIDIA A100-SXM4-80GB", "A100 80GB"),
        ("NVIDIA RTX A6000", "RTX A6000"),
        ("NVIDIA GeForce RTX 4090", "RTX 4090"),
        ("Tesla T4", "T4"),
    ],
)
def test_real_cards_are_recognised(reported: str, name: str) -> None:
    found = by_device_name(reported)
    assert found is not None
    assert found.name == name


@pytest.mark.parametrize(
    "reported",
    [
        "NVIDIA A100-SXM4-40GB",
        "NVIDIA A100 80GB PCIe",
        "NVIDIA H100 PCIe",
        "NVIDIA H200 NVL",
        "NVIDIA GeForce RTX 4090 D",
        "NVIDIA GeForce RTX 4090 Laptop GPU",
        "NVIDIA L40S",
        "",
    ],
)
def test_other_products_are_not_taken_for_one_of_the_table(reported: str) -> None:
    assert by_device_name(reported) is None


def test_compilable_is_what_the_compiler_says() -> None:
    nvrtc = pytest.importorskip("cuda.bindings.nvrtc")
    status, count = nvrtc.nvrtcGetNumSupportedArchs()
    assert int(status) == 0
    status, archs = nvrtc.nvrtcGetSupportedArchs()
    assert int(status) == 0
    assert count == len(archs)
    for g in GPUS:
        major, minor = g.compute_capability
        assert g.compilable == (10 * major + minor in archs), g.name


def test_require_arch_says_what_still_works() -> None:
    assert gpu("RTX A6000").require_arch() == "sm_86"
    assert gpu("B200").require_arch() == "sm_100"
    for name in ("GTX 280", "V100"):
        with pytest.raises(UnsupportedError, match=rf"{name} is sm_.*occupancy"):
            gpu(name).require_arch()


@pytest.mark.parametrize("g", GPUS, ids=lambda g: g.name)
def test_json_holds_every_figure_with_its_source(g: Gpu) -> None:
    data = json.loads(json.dumps(g.to_json(), allow_nan=False))
    assert data["arch"] == f"sm_{g.compute_capability[0]}{g.compute_capability[1]}"
    assert len(data["figures"]) == len(g.sources) + len(g.limits.sources) + 1
    for figure in data["figures"].values():
        assert set(figure) == {"value", "unit", "grade", "source"}
        assert figure["source"]
    assert data["figures"]["sm_count"]["value"] == g.sm_count
