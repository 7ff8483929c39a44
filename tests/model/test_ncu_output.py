"""Nsight Compute's printed pages, in the forms that its versions have."""

from counter_cases.metrics import SAFE, choose, listed, refused
from counter_cases.ncu import number, read_raw, read_source

RAW = """==PROF== Connected to process 7
"ID","Process ID","Kernel Name","Grid Size","device__attribute_warp_size","a__b.sum","c__d.ratio"
"","","","","","inst","warp"
"0","7","void k<4>(int)","(1, 1, 1)","32","4,295,491,584","212.28"
"1","7","void j(int)","(1, 1, 1)","32","n/a","0.00"
"""
PRECISE = RAW.replace("212.28", "212.283146").replace("0.00", "0.001234")
SOURCE = """"Kernel Name","void k<4>(int)"
"#","Address","Source","# Samples","Instructions Executed","L1 Wavefronts Shared"
"0","0x10","      @!P0 LDS.128 R4, [R2] ;","3","1,024","2,048"
"1","0x20","      EXIT ;","0","64","0"
"Kernel Name","void j(int)"
"Address","Source","inst_executed"
"0x10","EXIT ;","8"
"""
QUERY = """Device NVIDIA H200 (GH100)
Metric Name                Metric Type   Metric Unit   Metric Description
smsp__inst_executed_pipe_fma   Counter   inst   # of warp instructions
smsp__issue_active             Counter   cycle  # of cycles
"""


def test_numbers_have_separators_and_may_be_missing() -> None:
    assert number("4,295,491,584") == 4295491584
    assert number("212.28") == 212.28
    assert number("n/a") is None
    assert number("nan") is None


def test_raw_pages_give_every_launch_with_all_digits() -> None:
    first, second = read_raw(RAW, PRECISE)
    assert first.kernel == "void k<4>(int)"
    assert first.metrics == {"a__b.sum": 4295491584, "c__d.ratio": 212.283146}
    assert second.metrics == {"c__d.ratio": 0.001234}


def test_units_in_the_names_are_taken_off() -> None:
    (first, _) = read_raw(RAW.replace("a__b.sum", "a__b.sum [inst]"))
    assert first.metrics["a__b.sum"] == 4295491584


def test_no_page_gives_no_launches() -> None:
    assert read_raw("==ERROR== no permission") == []
    assert read_source("==ERROR== no permission") == []


def test_source_pages_give_every_instruction() -> None:
    first, second = read_source(SOURCE)
    assert first.rows == [["LDS.128", 1024, 0, 0, 0, 0, 2048], ["EXIT", 64]]
    assert (second.kernel, second.rows) == ("void j(int)", [["EXIT", 8]])


def test_metrics_that_are_not_listed_are_left_out() -> None:
    known = listed(QUERY)
    assert known == {"smsp__inst_executed_pipe_fma": "Counter", "smsp__issue_active": "Counter"}
    asked, left_out = choose("program", known)
    assert "smsp__inst_executed_pipe_fma.sum" in asked
    assert "memory_l1_wavefronts_shared" in asked  # not in the list, but it can be asked for
    assert set(SAFE) <= set(asked)
    assert "dram__bytes_read.sum" in left_out


def test_with_no_list_all_are_asked_for() -> None:
    assert choose("program", {})[1] == []


def test_refused_metrics_are_found_in_the_messages() -> None:
    log = "==ERROR== Failed to find metric regex:^lts__x_y(\\.(sum|min|max|avg))?$\n"
    assert refused(log, ["lts__x_y.sum", "lts__x.sum", "a__b"]) == ["lts__x_y.sum"]
