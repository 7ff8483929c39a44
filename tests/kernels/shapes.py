"""The one list of problem shapes for tests of kernels: what each group is there to break."""

from tilewright.problem import Problem

# Whole tiles of every rung along m, n and k: the fast path alone.
TILE_EXACT = (
    Problem(m=128, n=128, k=32),
    Problem(m=256, n=128, k=64, alpha=0.5, beta=3.0),
)

# One off a tile on either side, and nothing in common with one.
RAGGED = (
    Problem(m=127, n=129, k=9, alpha=0.5, beta=3.0),
    Problem(m=129, n=127, k=33, alpha=-1.5, beta=1.0),
    Problem(m=33, n=17, k=65, alpha=2.0, beta=-0.5),
    Problem(m=130, n=257, k=31),
)

# A vector and a matrix, outer and inner products.
SKINNY = (
    Problem(m=1, n=260, k=70, alpha=0.5, beta=3.0),
    Problem(m=260, n=1, k=70, beta=1.0),
    Problem(m=96, n=80, k=1, alpha=0.5),
    Problem(m=2, n=3, k=300, beta=-1.0),
)

# The least of everything; without k, C becomes beta * C.
TINY = (
    Problem(m=1, n=1, k=1, alpha=0.5, beta=3.0),
    Problem(m=5, n=7, k=0, alpha=2.0, beta=3.0),
    Problem(m=5, n=7, k=0, alpha=2.0),
    Problem(m=1, n=105, k=107),
)

# Rows longer than the matrix: aligned ones, and in the last shape ones where a 128-bit read of the
# last columns of B would reach into the padding.
PADDED_LD = (
    Problem(m=130, n=132, k=36, alpha=0.5, beta=3.0, lda=40, ldb=140, ldc=144),
    Problem(m=65, n=70, k=20, beta=1.0, lda=33, ldb=71, ldc=77),
    Problem(m=64, n=131, k=32, alpha=0.5, lda=36, ldb=132, ldc=132),
)

# Each breaks the 128-bit alignment of one matrix alone.
ALIGN_BREAKERS = (
    Problem(m=132, n=128, k=34, lda=34, alpha=0.5, beta=3.0),
    Problem(m=132, n=128, k=32, ldb=129, beta=1.0),
    Problem(m=132, n=128, k=32, ldc=130, beta=-1.0),
    Problem(m=100, n=99, k=52, beta=1.0),
)

SHAPES = (*TILE_EXACT, *RAGGED, *SKINNY, *TINY, *PADDED_LD, *ALIGN_BREAKERS)


def label(problem: Problem) -> str:
    """Return a test's id for a problem: sizes, then whatever is not the default."""
    p = problem
    text = f"{p.m}x{p.n}x{p.k}"
    for name, value, plain in (
        ("alpha", p.alpha, 1.0),
        ("beta", p.beta, 0.0),
        ("lda", p.lda, max(p.k, 1)),
        ("ldb", p.ldb, p.n),
        ("ldc", p.ldc, p.n),
    ):
        if value != plain:
            text += f"-{name}{value:g}"
    return text
