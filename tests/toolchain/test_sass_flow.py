"""The graph of machine code: listings by hand, with every way that control goes."""

from tilewright.toolchain.sass import SassFunction, parse_sass
from tilewright.toolchain.sass_flow import flow, is_conditional


def function(*lines: str) -> SassFunction:
    """A function from lines such as `.L_x_1:` and `@P0 BRA `(.L_x_1)`, at addresses 0, 16, …"""
    text, address = ['\t.section\t.text.k,"ax",@progbits', "k:"], 0
    for line in lines:
        if line.endswith(":"):
            text.append(line)
        else:
            text.append(f"        /*{address:04x}*/  {line} ;")
            address += 16
    return parse_sass("\n".join(text)).functions["k"]


LOOP = function(
    "S2R R0, SR_TID.X",  # 0
    "@P0 EXIT",
    "@!P1 BRA `(.L_x_2)",  # 2
    ".L_x_1:",
    "FFMA R1, R1, R2, R3",  # 3
    "@P2 BRA `(.L_x_1)",
    ".L_x_2:",
    "STG.E desc[UR4][R2.64], R1",  # 5
    "EXIT",
)


def test_blocks_begin_at_targets_and_after_jumps_and_exits() -> None:
    graph = flow(LOOP)
    assert [(b.start, b.end) for b in graph.cfg.blocks] == [(0, 0), (0, 2), (2, 3), (3, 5), (5, 7)]
    assert [b.successors for b in graph.cfg.blocks] == [(1,), (2,), (4, 3), (3, 4), ()]
    assert [b.leaves for b in graph.cfg.blocks] == [False, True, False, False, True]
    assert graph.block_of == (1, 1, 2, 3, 3, 4, 4)
    assert graph.whole


def test_the_loop_is_found_with_its_depth() -> None:
    (loop,) = flow(LOOP).cfg.loops
    assert (loop.header, loop.blocks, loop.depth) == (3, {3}, 1)


def test_blocks_that_always_run_together_are_equivalent() -> None:
    # 4 comes after 2 in any case; 3 is in a loop; 1 may leave before 2.
    assert flow(LOOP).equivalent() == (0, 0, 2, 3, 2)


def test_a_loop_runs_more_often_than_what_leads_to_it() -> None:
    graph = flow(
        function("S2R R0, SR_TID.X", ".L_x_1:", "FADD R1, R1, R2", "@P0 BRA `(.L_x_1)", "EXIT")
    )
    assert graph.equivalent() == (0, 0, 2, 0)


def test_a_block_that_a_loop_can_pass_by_runs_less_often() -> None:
    """Every way out of the loop leads through block 3, but a turn by block 2 does not."""
    graph = flow(
        function(
            ".L_x_1:",
            "@P0 BRA `(.L_x_2)",  # block 1
            "FADD R1, R1, R2",  # block 2
            "BRA `(.L_x_1)",
            ".L_x_2:",
            "@P1 EXIT",  # block 3
            "BRA `(.L_x_1)",  # block 4
        )
    )
    assert [b.successors for b in graph.cfg.blocks[1:]] == [(3, 2), (1,), (4,), (1,)]
    assert graph.equivalent()[1:] == (1, 2, 3, 4)


def test_a_call_comes_back_and_its_function_is_entered_from_outside() -> None:
    graph = flow(
        function(
            "@P0 BRA `(.L_x_1)",
            "CALL.REL.NOINC `($k$helper)",
            ".L_x_1:",
            "EXIT",
            "$k$helper:",
            "FADD R1, R1, R2",
            "RET.REL.NODEC R20 `(k)",
        )
    )
    assert graph.cfg.blocks[0].successors == (1, 4)
    assert graph.calls == {1: 4}
    assert [b.successors for b in graph.cfg.blocks[1:]] == [(3, 2), (3,), (), ()]
    assert graph.cfg.blocks[4].leaves


def test_a_call_of_a_label_within_the_function_is_a_jump() -> None:
    # ptxas for sm_86 leaves loops so.
    graph = flow(
        function(
            ".L_x_1:",
            "FADD R1, R1, R2",
            "@!P0 CALL.REL.NOINC `(.L_x_2)",
            "BRA `(.L_x_1)",
            ".L_x_2:",
            "EXIT",
        )
    )
    assert not graph.calls
    assert [b.successors for b in graph.cfg.blocks] == [(1,), (3, 2), (1,), ()]


def test_bsync_goes_on_where_its_bssy_says() -> None:
    graph = flow(
        function(
            "BSSY B0, `(.L_x_2)",
            "@P0 BRA `(.L_x_1)",
            "BSYNC B0",
            ".L_x_1:",
            "FADD R1, R1, R2",
            "BSYNC B0",
            ".L_x_2:",
            "EXIT",
        )
    )
    assert [b.successors for b in graph.cfg.blocks] == [(1,), (3, 2), (4,), (4,), ()]
    assert graph.equivalent()[4] == 0


def test_branches_that_may_be_taken_or_not() -> None:
    code = function(
        "BRA `(.L_x_1)",
        "BRA P1, `(.L_x_1)",
        "@!UP0 BRA `(.L_x_1)",
        "BRA.DIV UR4, `(.L_x_1)",
        ".L_x_1:",
        "@PT EXIT",
        "EXIT",
    )
    found = [is_conditional(i) for i in code.instructions]
    assert found == [False, True, True, True, False, False]


def test_the_way_of_lanes_that_are_not_together_is_slow() -> None:
    graph = flow(
        function("BRA.DIV UR4, `(.L_x_1)", "EXIT", ".L_x_1:", "WARPSYNC 0xffffffff", "EXIT")
    )
    assert graph.slow == {(1, 3)}


def test_a_jump_to_anywhere_leaves_the_graph_open() -> None:
    assert not flow(function("BRX R4 -0x10", "EXIT")).whole


def test_no_code_is_no_graph() -> None:
    graph = flow(SassFunction(name="k", instructions=(), labels={}))
    assert [b.successors for b in graph.cfg.blocks] == [()]
