"""Control-flow graphs: blocks by hand, and the laws of order, loops and postdominators at random.

The laws are checked against definitions by reachability, which share nothing with the algorithms.
"""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilewright.errors import PtxError
from tilewright.toolchain.ptx.cfg import arrange, basic_blocks
from tilewright.toolchain.ptx.parser import parse

DATA = Path(__file__).parent / "data"


def function(body):
    registers = ".reg .pred %p<4>; .reg .b32 %r<4>;"
    text = f".version 8.0\n.target sm_80\n.entry k() {{ {registers} {body} }}"
    return parse(text).functions["k"]


def graph(body, **options):
    return basic_blocks(function(body), **options)


def successors(cfg):
    return [block.successors for block in cfg.blocks]


class TestBlocks:
    def test_straight_line(self):
        cfg = graph("mov.b32 %r1, 1; ret;")
        assert [(b.start, b.end, b.leaves) for b in cfg.blocks] == [(0, 2, True)]
        assert (cfg.order, cfg.loops, cfg.reducible) == ((0,), (), True)

    def test_if_else(self):
        cfg = graph("@%p1 bra E; mov.b32 %r1, 1; bra J; E: mov.b32 %r1, 2; J: ret;")
        assert [(b.start, b.end) for b in cfg.blocks] == [(0, 1), (1, 3), (3, 4), (4, 5)]
        assert successors(cfg) == [(2, 1), (3,), (3,), ()]
        assert [b.predecessors for b in cfg.blocks] == [(), (0,), (0,), (1, 2)]
        assert cfg.order == (0, 1, 2, 3)
        assert cfg.postdominators() == (3, 3, 3, None)

    def test_labels_that_nothing_jumps_to_split_nothing(self):
        assert len(graph("$tmp0: mov.b32 %r1, 1; $tmp1: ret; $end:").blocks) == 1

    def test_split_at(self):
        cfg = graph("mov.b32 %r1, 1; bar.sync 0; mov.b32 %r2, 1; ret;", split_at=[2])
        assert [(b.start, b.end) for b in cfg.blocks] == [(0, 2), (2, 4)]
        assert successors(cfg) == [(1,), ()]

    @pytest.mark.parametrize("leave", ["ret", "exit", "trap"])
    def test_guarded_and_plain_leaving(self, leave):
        cfg = graph(f"@%p1 {leave}; mov.b32 %r1, 1; {leave}; mov.b32 %r1, 2; ret;")
        assert successors(cfg) == [(1,), (), ()]
        assert [b.leaves for b in cfg.blocks] == [True, True, True]
        assert cfg.order == (0, 1)  # Nothing reaches the last.

    def test_a_body_without_a_return_leaves_at_its_end(self):
        cfg = graph("@%p1 bra E; mov.b32 %r1, 1; E:")
        assert [(b.start, b.end, b.leaves) for b in cfg.blocks] == [
            (0, 1, False),
            (1, 2, False),
            (2, 2, True),
        ]
        assert successors(cfg) == [(2, 1), (2,), ()]

    def test_a_jump_to_the_end(self):
        assert successors(graph("@%p1 bra E; ret; E:")) == [(2, 1), (), ()]

    def test_falling_off_the_end(self):
        assert successors(graph("mov.b32 %r1, 1;")) == [(1,), ()]

    def test_an_empty_body(self):
        assert [(b.start, b.end, b.leaves) for b in graph("").blocks] == [(0, 0, True)]

    def test_branch_tables(self):
        cfg = graph("t: .branchtargets A, B, A; brx.idx %r1, t; A: ret; B: ret;")
        assert successors(cfg) == [(1, 2), (), ()]

    def test_a_branch_to_the_next_block_counts_once(self):
        assert successors(graph("@%p1 bra N; N: ret;")) == [(1,), ()]

    def test_a_branch_to_no_label(self):
        with pytest.raises(
            PtxError, match=r"PTX line 5: .* a label of the same function\n  bra s;"
        ):
            graph("\n.shared .b32 s;\nbra s;")


class TestPostdominators:
    def test_early_return(self):
        """A bounds check: with leaving counted, its threads meet nowhere."""
        cfg = graph(
            "@%p1 bra X; mov.b32 %r1, 1; @%p2 bra J; mov.b32 %r1, 2; J: bra K; X: ret; K: trap;"
        )
        assert cfg.postdominators()[0] is None
        assert cfg.postdominators(ignore_leaving=True)[:3] == (1, 3, 3)

    def test_a_return_after_work_counts(self):
        cfg = graph("@%p1 bra X; mov.b32 %r1, 1; bra K; X: mov.b32 %r1, 2; ret; K: bra J; J: ret;")
        assert cfg.postdominators(ignore_leaving=True)[0] is None

    def test_guarded_return(self):
        cfg = graph("@%p1 ret; mov.b32 %r1, 1; bra K; K: mov.b32 %r1, 2; ret;")
        assert cfg.postdominators() == (None, 2, None)
        assert cfg.postdominators(ignore_leaving=True) == (1, 2, None)

    def test_the_only_way_out_counts(self):
        """A loop that ends in a bare return still has its exit."""
        cfg = graph("L: mov.b32 %r1, 1; @%p1 bra L; ret;")
        assert cfg.postdominators(ignore_leaving=True) == (1, None)

    def test_endless_loop(self):
        assert graph("L: bra L;").postdominators() == (None,)

    def test_loop(self):
        cfg = graph("H: @%p1 bra X; mov.b32 %r1, 1; bra H; X: mov.b32 %r1, 2; ret;")
        assert cfg.postdominators() == (2, 0, None)


class TestOrderAndLoops:
    def test_an_exit_written_inside_the_loop_comes_after_it(self):
        cfg = graph("H: @%p1 bra B; X: mov.b32 %r1, 0; ret; B: @%p2 bra X; bra H;")
        assert successors(cfg) == [(2, 1), (), (1, 3), (0,)]
        assert cfg.order == (0, 2, 3, 1)
        assert [(loop.header, loop.blocks, loop.depth) for loop in cfg.loops] == [(0, {0, 2, 3}, 1)]

    def test_the_order_keeps_to_the_text(self):
        arms = "@%p1 bra E; mov.b32 %r1, 1; bra J; E: mov.b32 %r1, 2; J: "
        again = arms.replace("E", "F").replace("J", "K")
        assert graph(f"bra S; S: {arms} {again} ret;").order == tuple(range(8))

    def test_nested_loops(self):
        cfg = graph(
            "mov.b32 %r1, 1; O: mov.b32 %r1, 1; I: mov.b32 %r1, 1; @%p1 bra I; @%p2 bra O; ret;"
        )
        assert [(loop.header, sorted(loop.blocks), loop.depth) for loop in cfg.loops] == [
            (1, [1, 2, 3], 1),
            (2, [2], 2),
        ]
        assert cfg.depths() == (0, 1, 2, 1, 0)

    def test_two_latches_are_one_loop(self):
        cfg = graph("H: @%p1 bra H; mov.b32 %r1, 1; @%p2 bra H; ret;")
        assert [(loop.header, sorted(loop.blocks)) for loop in cfg.loops] == [(0, [0, 1])]

    def test_irreducible(self):
        cfg = graph("@%p1 bra B; A: mov.b32 %r1, 1; bra B; B: @%p2 bra A; ret;")
        assert not cfg.reducible
        assert sorted(cfg.order) == [0, 1, 2, 3]
        assert cfg.order[0] == 0

    @pytest.mark.parametrize("target", ["sm80", "sm100"])
    def test_recorded(self, target):
        """The kernel `tiles` of data/samples.cu has a loop in a loop, and a barrier in both."""
        tiles = parse((DATA / f"samples_{target}.ptx").read_text()).functions["tiles"]
        cfg = basic_blocks(tiles)
        assert cfg.reducible
        assert sorted(loop.depth for loop in cfg.loops) == [1, 2]
        outer, inner = sorted(cfg.loops, key=lambda loop: loop.depth)
        assert inner.blocks < outer.blocks
        barriers = [i for i, found in enumerate(tiles.body) if found.opcode == "bar"]
        for index, block in enumerate(cfg.blocks):
            if any(block.start <= barrier < block.end for barrier in barriers):
                assert index in outer.blocks


def reached(edges, start, without=None):
    """Nodes that `start` reaches, itself included, on paths that avoid `without`."""
    seen, todo = set(), [start] if start != without else []
    while todo:
        node = todo.pop()
        if node not in seen:
            seen.add(node)
            todo += [n for n in edges[node] if n != without]
    return seen


def check_order(edges, order, loops):
    """Every edge but those back to the header of a loop goes down; loops are in one piece."""
    place = {node: index for index, node in enumerate(order)}
    assert set(order) == reached(edges, 0)
    back = {(node, loop.header) for loop in loops for node in loop.blocks}
    for node in order:
        for successor in edges[node]:
            assert place[node] < place[successor] or (node, successor) in back
    for loop in loops:
        places = sorted(place[node] for node in loop.blocks)
        assert places == list(range(places[0], places[0] + len(places)))
        assert places[0] == place[loop.header]


def check_loops(edges, loops):
    """A loop is what its header dominates and what reaches it again without leaving that."""
    nodes = reached(edges, 0)
    found = {}
    for header in nodes:
        dominated = nodes - reached(edges, 0, without=header)
        inside = {
            node
            for node in dominated
            if any(header in edges[last] for last in reached(edges, node, without=header))
            or (node == header and any(header in edges[last] for last in dominated))
        }
        latches = {node for node in inside if header in edges[node]}
        if latches:
            found[header] = {
                node
                for node in inside
                if node == header or latches & reached(edges, node, without=header)
            }
    assert {loop.header: set(loop.blocks) for loop in loops} == found
    for loop in loops:
        assert loop.depth == sum(loop.header in blocks for blocks in found.values())


def check_postdominators(cfg):
    """A node postdominates what cannot get out without it; the nearest is the one reached first."""
    outside = len(cfg.blocks)
    edges = [[*block.successors, *([outside] if block.leaves else [])] for block in cfg.blocks] + [
        []
    ]
    for node, found in enumerate(cfg.postdominators()):
        if outside not in reached(edges, node):
            assert found is None
            continue
        after = {
            other
            for other in range(outside)
            if other != node and outside not in reached(edges, node, without=other)
        }
        # The nearest is the one that all the others come after.
        nearest = [
            d
            for d in after
            if after - {d} <= reached(edges, d)
            and all(outside not in reached(edges, d, without=o) for o in after - {d})
        ]
        assert [found] == (nearest or [None])


def is_reducible(edges):
    """Shrink the graph by T1 (drop self-loops) and T2 (merge a node into its only predecessor)."""
    nodes = reached(edges, 0)
    onward = {node: set(edges[node]) - {node} for node in nodes}
    while True:
        for node in onward:
            before = [p for p in onward if node in onward[p]]
            if node != 0 and len(before) == 1:
                (into,) = before
                onward[into] = (onward[into] | onward.pop(node)) - {into, node}
                break
        else:
            return len(onward) == 1


@st.composite
def programs(draw, depth=3):
    """PTX of nested ifs and loops, with breaks and early returns."""
    count = [0]

    def label():
        count[0] += 1
        return f"L{count[0]}"

    def block(depth, out):
        text = "mov.b32 %r1, 1;"
        for _ in range(draw(st.integers(0, 2))):
            text += statement(depth, out)
        return text

    def statement(depth, out):
        kinds = ["plain", "return", "break"] + (["if", "else", "while", "until"] if depth else [])
        kind = draw(st.sampled_from(kinds))
        a, b = label(), label()
        if kind == "if":
            return f"@%p1 bra {a}; {block(depth - 1, out)} {a}: "
        if kind == "else":
            yes, no = block(depth - 1, out), block(depth - 1, out)
            return f"@%p1 bra {a}; {yes} bra {b}; {a}: {no} {b}: "
        if kind == "while":
            return f"{a}: @%p1 bra {b}; {block(depth - 1, b)} bra {a}; {b}: "
        if kind == "until":
            return f"{a}: {block(depth - 1, b)} @%p1 bra {a}; {b}: "
        if kind == "break" and out:
            return f"@%p2 bra {out};"
        return {"return": "@%p3 ret;"}.get(kind, "mov.b32 %r2, 2;")

    return block(depth, None) + "ret;"


@given(programs())
def test_structured_programs(text):
    cfg = graph(text)
    edges = successors(cfg)
    assert cfg.reducible
    check_order(edges, cfg.order, cfg.loops)
    check_loops(edges, cfg.loops)
    check_postdominators(cfg)
    place = {node: index for index, node in enumerate(cfg.order)}
    for node, meeting in enumerate(cfg.postdominators()):
        # Threads that part at a branch meet at a later place than all those they part to, unless
        # that is the head of a loop that they are in.
        if node in place and meeting is not None and place[meeting] > place[node]:
            region = reached(edges, node, without=meeting)
            assert all(place[other] < place[meeting] for other in region)


@given(
    st.integers(1, 8).flatmap(
        lambda count: st.lists(
            st.lists(st.integers(0, count - 1), max_size=3, unique=True),
            min_size=count,
            max_size=count,
        )
    )
)
def test_any_graph(edges):
    order, loops, reducible = arrange(edges)
    assert reducible == is_reducible(edges)
    check_loops(edges, loops)
    if reducible:
        check_order(edges, order, loops)
    else:
        assert set(order) == reached(edges, 0)
        assert len(order) == len(set(order))
