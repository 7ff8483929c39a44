"""A product as the production kernels see it: sizes, strides, alignment. No pointers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Literal

from tilewright.errors import ProblemError
from tilewright.kernels.tiles import VECTOR_FLOATS
from tilewright.problem import Problem


@dataclass(frozen=True, slots=True, kw_only=True)
class Strides:
    """Distances in elements from one row, column and product of a batch to the next.

    A batch stride of 0 repeats the matrix. `vector` says that the matrix starts at a multiple of
    16 bytes in every product of the batch: with the strides it decides about 128-bit accesses.
    """

    row: int
    col: int
    batch: int = 0
    vector: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """How A and B may be read; the C++ struct of `lib/product.cuh`, with its fields in order."""

    a_along_k: bool
    b_along_n: bool
    a_vector: Literal[1, 4]
    b_vector: Literal[1, 4]

    def expression(self) -> str:
        """Return it as C++: `Access{.a_along_k=1,…}`."""
        return f"Access{{{','.join(f'.{k}={int(v)}' for k, v in asdict(self).items())}}}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """D = alpha·A·B + beta·C in float32, for each of a batch.

    Shapes: A [batch, m, k], B [batch, k, n], C and D [batch, m, n], each by its strides. `c` is
    None where beta is 0: C is not read. The columns of D are neighbours in memory, unless n is 1.
    `access` follows from the others: how A and B may be read.

    Raises:
        ProblemError: a size below 1 (k: below 0), or past 2^31 - 1.
    """

    m: int
    n: int
    k: int
    a: Strides
    b: Strides
    d: Strides
    c: Strides | None = None
    batch: int = 1
    access: Access = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        for name, least in (("m", 1), ("n", 1), ("k", 0), ("batch", 1)):
            if not least <= getattr(self, name) < 2**31:
                raise ProblemError(
                    f"{name} = {getattr(self, name)}: expected a number from {least} to 2^31 - 1"
                )
        a_along_k = self.a.col == 1
        b_along_n = self.b.row != 1 or (self.b.col == 1 and self.n > 1)
        access = Access(
            a_along_k=a_along_k,
            b_along_n=b_along_n,
            a_vector=_vector(self.a, self.m, self.k, along_row=a_along_k),
            b_vector=_vector(self.b, self.k, self.n, along_row=b_along_n),
        )
        object.__setattr__(self, "access", access)

    def __hash__(self) -> int:
        """Return a hash by sizes alone, which is fast: few products differ only in how they lie."""
        return hash((self.m, self.n, self.k, self.batch))

    @classmethod
    def plain(
        cls, m: int, n: int, k: int, *, layout: str = "nn", batch: int = 1, beta: bool = False
    ) -> Operation:
        """Return the product of packed matrices; in `layout` "t" is a transposed A or B.

        Raises:
            ProblemError: a layout other than nn, nt, tn, tt.
        """
        if layout not in ("nn", "nt", "tn", "tt"):
            raise ProblemError(f"layout {layout!r}: expected nn, nt, tn or tt, first A, then B")

        def packed(rows: int, cols: int, transposed: bool) -> Strides:
            row, col = (1, rows) if transposed else (cols, 1)
            step = rows * cols if batch > 1 else 0
            return Strides(row=row, col=col, batch=step, vector=step % VECTOR_FLOATS == 0)

        d = packed(m, n, transposed=False)
        return cls(
            m=m, n=n, k=k, batch=batch, d=d, c=d if beta else None,
            a=packed(m, k, layout[0] == "t"), b=packed(k, n, layout[1] == "t"),
        )  # fmt: skip

    @classmethod
    def of(cls, problem: Problem) -> Operation:
        """Return the product of a problem of the ladder, its matrices aligned."""
        p = problem
        d = Strides(row=p.ldc, col=1)
        a, b = Strides(row=p.lda, col=1), Strides(row=p.ldb, col=1)
        return cls(m=p.m, n=p.n, k=p.k, a=a, b=b, d=d, c=d if p.beta else None)

    @property
    def flops(self) -> int:
        """Floating-point operations: a multiply and an add for each product."""
        return 2 * self.batch * self.m * self.n * self.k

    @property
    def layout(self) -> str:
        """Two letters, A then B: "n" where rows are contiguous (or nothing is), else "t"."""
        a = "t" if self.a.row == 1 and self.a.col != 1 else "n"
        return a + ("t" if self.b.row == 1 and self.b.col != 1 else "n")

    @property
    def key(self) -> str:
        """What a tuned choice depends on, as one word: `f32-nn-4096x4096x4096-b1-v44`."""
        access = self.access
        shape = f"f32-{self.layout}-{self.m}x{self.n}x{self.k}-b{self.batch}"
        return f"{shape}-v{access.a_vector}{access.b_vector}{'-c' if self.c else ''}"

    def to_json(self) -> dict[str, object]:
        """Return plain JSON values, by field name."""
        values = asdict(self)
        del values["access"]
        return values

    @classmethod
    def from_json(cls, data: Mapping[str, object]) -> Operation:
        """Rebuild what `to_json` wrote."""
        strides = {
            name: Strides(**value) if isinstance(value := data.get(name), Mapping) else None
            for name in ("a", "b", "c", "d")
        }
        return cls(**{**data, **strides})  # type: ignore[arg-type]


def _vector(strides: Strides, rows: int, cols: int, *, along_row: bool) -> Literal[1, 4]:
    """Return how many neighbours one access may read: lines must start aligned and end whole."""
    unit, step = (strides.col, strides.row) if along_row else (strides.row, strides.col)
    lines, length = (rows, cols) if along_row else (cols, rows)
    whole = unit == 1 and length % VECTOR_FLOATS == 0
    aligned = strides.vector and strides.batch % VECTOR_FLOATS == 0
    return 4 if whole and aligned and (lines == 1 or step % VECTOR_FLOATS == 0) else 1
