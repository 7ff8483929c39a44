"""The control-flow graph of a function: blocks, their order, loops and reconvergence points."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from tilewright.errors import PtxError
from tilewright.toolchain.ptx.ir import Function, Instruction, Symbol, Vec

BRANCHES = ("bra", "brx")
LEAVES = ("ret", "exit", "trap")

Edges = Sequence[Sequence[int]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """The instructions `body[start:end]`, entered at the first and left after the last.

    `successors` are block indices: the targets of the branch, then the next block. `leaves` says
    that a thread may end here by ret, exit or trap, or by the end of the body.
    """

    start: int
    end: int
    successors: tuple[int, ...]
    predecessors: tuple[int, ...]
    leaves: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Loop:
    """A natural loop: `header` dominates all of `blocks`. The outermost loops have depth 1."""

    header: int
    blocks: frozenset[int]
    depth: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Cfg:
    """Blocks in the order of the text; `order` has those that the entry, block 0, reaches.

    `order` is a reverse postorder with every loop in one piece: a loop's exits come after all of
    its blocks. So only a jump back to a header goes up the order, and a scheduler that always
    runs the lowest block brings diverged threads together again where they meet.

    `loops` are sorted by header; each contains those inside it. A graph that is not `reducible`
    has cycles with several entries: its `order` is any reverse postorder and its `loops` miss
    those cycles.
    """

    blocks: tuple[Block, ...]
    order: tuple[int, ...]
    loops: tuple[Loop, ...]
    reducible: bool

    def postdominators(self, *, ignore_leaving: bool = False) -> tuple[int | None, ...]:
        """For every block, the first block that all threads from there on come through.

        None where there is none: the threads end apart, or never. With `ignore_leaving`, threads
        that go straight to a ret, exit or trap (an early return, a failed check) do not count
        where there is another way out, so that a bounds check at the top does not keep the rest
        from reconverging.
        """
        dominators = _dominators(_reversed(self._ways_out(ignore_leaving)), len(self.blocks))
        return tuple(None if found == len(self.blocks) else found for found in dominators[:-1])

    def dominators(self) -> tuple[int | None, ...]:
        """For every block, the last block that all threads came through; None if unreached.

        The entry's is itself.
        """
        return tuple(_dominators([block.successors for block in self.blocks], 0))

    def _ways_out(self, ignore_leaving: bool) -> list[list[int]]:
        """List every block's successors, with the outside as one more node."""
        count = len(self.blocks)
        ends = {
            index
            for index, block in enumerate(self.blocks)
            if block.leaves and not block.successors and block.end - block.start <= 1
        }
        every = [[*block.successors, *([count] if block.leaves else [])] for block in self.blocks]
        every.append([])
        if not ignore_leaving:
            return _with_ways_out_of_loops(every)
        staying = [
            [successor for successor in onward if successor not in ends and successor != count]
            for onward in every
        ]
        kept = [stay or onward for stay, onward in zip(staying, every, strict=True)]
        got_out = set(_reverse_postorder(_reversed(kept), count))
        ways = [kept[node] if node in got_out else every[node] for node in range(count + 1)]
        return _with_ways_out_of_loops(ways)

    def depths(self) -> tuple[int, ...]:
        """How many loops each block is in."""
        return tuple(
            sum(index in loop.blocks for loop in self.loops) for index in range(len(self.blocks))
        )


def _with_ways_out_of_loops(ways: list[list[int]]) -> list[list[int]]:
    """Let threads in a loop that never ends count as gone: no block comes after it for them."""
    outside = len(ways) - 1
    ending = set(_reverse_postorder(_reversed(ways), outside))
    return [way if node in ending else [*way, outside] for node, way in enumerate(ways)]


def basic_blocks(function: Function, *, split_at: Iterable[int] = ()) -> Cfg:
    """Split a function into blocks.

    A block begins at the target of a branch, after bra, brx, ret, exit and trap, and at the
    instructions `split_at`; a label that nothing jumps to (debug information has many) begins none.

    Raises: PtxError for a branch to something that is no label.
    """
    body = function.body
    targets = {
        index: targets_of(instruction, function.labels)
        for index, instruction in enumerate(body)
        if instruction.opcode in BRANCHES
    }
    leaders = {0, *(target for found in targets.values() for target in found)}
    leaders.update(split_at)
    leaders.update(
        index + 1
        for index, instruction in enumerate(body)
        if instruction.opcode in BRANCHES or instruction.opcode in LEAVES
    )
    starts = sorted(leader for leader in leaders if leader < len(body))
    # A body that ends without a return, or has a jump to its end, leaves by an empty block.
    if not body or _continues(body[-1]) or any(len(body) in found for found in targets.values()):
        starts.append(len(body))
    return _graph(body, starts, targets)


def targets_of(instruction: Instruction, labels: Mapping[str, int]) -> list[int]:
    """Return where a branch may go, as indices in the body; of brx, in the order of its table.

    Raises: PtxError for a target that is no label of the function.
    """
    operand = instruction.operands[-1]
    found = operand.items if isinstance(operand, Vec) else (operand,)
    for target in found:
        if not isinstance(target, Symbol) or target.name not in labels:
            raise PtxError(
                f"PTX line {instruction.ptx_line}: the target of a branch is a label of the same "
                f"function\n  {instruction.text}"
            )
    return [labels[target.name] for target in found if isinstance(target, Symbol)]


def _continues(last: Instruction) -> bool:
    """Whether a thread may go on to the next instruction."""
    return last.guard is not None or last.opcode not in (*BRANCHES, *LEAVES)


def _graph(body: Sequence[Instruction], starts: list[int], targets: Mapping[int, list[int]]) -> Cfg:
    block_at = {start: index for index, start in enumerate(starts)}
    ends = [*starts[1:], len(body)]
    successors, leaves = [], []
    for index, (start, end) in enumerate(zip(starts, ends, strict=True)):
        last = body[end - 1] if end > start else None
        onward = [block_at[target] for target in targets.get(end - 1, ())] if last else []
        if last is not None and _continues(last):
            onward.append(index + 1)
        successors.append(tuple(dict.fromkeys(onward)))
        leaves.append(last is None or last.opcode in LEAVES)
    predecessors = _reversed(successors)
    order, loops, reducible = arrange(successors)
    return Cfg(
        blocks=tuple(
            Block(
                start=starts[index],
                end=ends[index],
                successors=successors[index],
                predecessors=tuple(predecessors[index]),
                leaves=leaves[index],
            )
            for index in range(len(starts))
        ),
        order=order,
        loops=loops,
        reducible=reducible,
    )


def arrange(successors: Edges) -> tuple[tuple[int, ...], tuple[Loop, ...], bool]:
    """Order the nodes of a graph that node 0 reaches, find its loops, say if it is reducible."""
    order = _reverse_postorder(successors, 0)
    place = {node: index for index, node in enumerate(order)}
    dominators = _dominators(successors, 0)
    inside: dict[int, set[int]] = {}
    reducible = True
    predecessors = _reversed(successors)
    for node in order:
        for successor in successors[node]:
            if place[successor] <= place[node]:  # Upwards: to a loop's header, if it dominates.
                if _dominates(dominators, successor, node):
                    loop = inside.setdefault(successor, {successor})
                    _gather(loop, node, predecessors, place)
                else:
                    reducible = False
    loops = tuple(
        Loop(
            header=header,
            blocks=frozenset(inside[header]),
            depth=sum(header in other for other in inside.values()),
        )
        for header in sorted(inside)
    )
    if reducible:
        order = _layout(0, frozenset(order), loops, 0, successors)
    return tuple(order), loops, reducible


def _layout(
    entry: int, region: frozenset[int], loops: Sequence[Loop], depth: int, successors: Edges
) -> list[int]:
    """Order a region: its loops one level down stand as single nodes, then are laid out inside."""
    children = {
        loop.header: loop for loop in loops if loop.depth == depth + 1 and loop.header in region
    }
    stands_for = {node: header for header, loop in children.items() for node in loop.blocks}
    onward: dict[int, list[int]] = {}
    for node in region:
        stand = stands_for.get(node, node)
        onward.setdefault(stand, []).extend(
            target
            for successor in successors[node]
            if successor in region and successor != entry
            for target in (stands_for.get(successor, successor),)
            if target != stand
        )
    order = []
    for node in _reverse_postorder(onward, entry):
        if node in children:
            order += _layout(node, children[node].blocks, loops, depth + 1, successors)
        else:
            order.append(node)
    return order


def _reverse_postorder(successors: Edges | Mapping[int, list[int]], entry: int) -> list[int]:
    """Depth first, by index where there is a choice, so that the order keeps to the text."""
    postorder: list[int] = []
    seen = {entry}
    stack = [(entry, iter(sorted(successors[entry], reverse=True)))]
    while stack:
        node, rest = stack[-1]
        for successor in rest:
            if successor not in seen:
                seen.add(successor)
                stack.append((successor, iter(sorted(successors[successor], reverse=True))))
                break
        else:
            postorder.append(node)
            stack.pop()
    return postorder[::-1]


def _dominators(successors: Edges, entry: int) -> list[int | None]:
    """Find the immediate dominator of every node: the entry's is itself, None if unreached.

    Source: Cooper, Harvey, Kennedy, A Simple, Fast Dominance Algorithm, 2001.
    """
    order = _reverse_postorder(successors, entry)
    place = {node: index for index, node in enumerate(order)}
    predecessors = _reversed(successors)
    found: list[int | None] = [None] * len(successors)
    found[entry] = entry
    changed = True
    while changed:
        changed = False
        for node in order[1:]:
            known = [p for p in predecessors[node] if found[p] is not None]
            nearest = known[0]
            for other in known[1:]:
                nearest = _meet(nearest, other, found, place)
            if found[node] != nearest:
                found[node], changed = nearest, True
    return found


def _meet(a: int, b: int, found: Sequence[int | None], place: Mapping[int, int]) -> int:
    """Find the nearest common ancestor in the dominator tree."""
    while a != b:
        if place[a] < place[b]:
            a, b = b, a
        a = found[a] or 0
    return a


def _dominates(dominators: Sequence[int | None], above: int, node: int) -> bool:
    while node != above:
        parent = dominators[node]
        if parent is None or parent == node:
            return False
        node = parent
    return True


def _gather(loop: set[int], latch: int, predecessors: Edges, reached: Mapping[int, int]) -> None:
    """Add to a loop what reaches its latch without passing its header."""
    todo = [latch]
    while todo:
        node = todo.pop()
        if node not in loop and node in reached:
            loop.add(node)
            todo.extend(predecessors[node])


def _reversed(successors: Edges) -> list[list[int]]:
    predecessors: list[list[int]] = [[] for _ in successors]
    for node, onward in enumerate(successors):
        for successor in onward:
            predecessors[successor].append(node)
    return predecessors
