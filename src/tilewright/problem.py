"""A matrix product as the kernels see it. Imports only errors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field

from tilewright.errors import ProblemError


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """C = alpha · A · B + beta · C, row-major with leading dimensions.

    Shapes: A is [m, k] with lda >= k, B is [k, n] with ldb >= n, C is [m, n] with ldc >= n; a
    leading dimension is the distance in elements from one row to the next. Omitted (0), each is
    the tight one.

    Raises:
        ProblemError: a size below 0, or a leading dimension shorter than its row.
    """

    m: int
    n: int
    k: int
    alpha: float = 1.0
    beta: float = 0.0
    dtype: str = "float32"
    lda: int = field(default=0)
    ldb: int = field(default=0)
    ldc: int = field(default=0)

    def __post_init__(self) -> None:
        for name, least in (("m", 1), ("n", 1), ("k", 0)):
            size = getattr(self, name)
            if not isinstance(size, int) or not least <= size < 2**31:
                raise ProblemError(
                    f"{name} = {size!r}: expected a whole number from {least} to 2^31 - 1"
                )
        if self.dtype != "float32":
            raise ProblemError(f"dtype {self.dtype!r}: these kernels take float32")
        for name, row in (("lda", self.k), ("ldb", self.n), ("ldc", self.n)):
            ld = getattr(self, name) or max(row, 1)
            if ld < row:
                raise ProblemError(f"{name} = {ld}: a row has {row} elements; give at least that")
            object.__setattr__(self, name, ld)

    @property
    def flops(self) -> int:
        """Floating-point operations of A · B: a multiply and an add each."""
        return 2 * self.m * self.n * self.k

    @property
    def operand_bytes(self) -> int:
        """Bytes of A, B and C as stored, padding of the leading dimensions included."""
        return 4 * (self.m * self.lda + self.k * self.ldb + self.m * self.ldc)

    def too_large(self, more: str = "") -> ProblemError:
        """Return the refusal of operands that do not fit somewhere; `more` says where."""
        return ProblemError(
            f"m = {self.m}, n = {self.n}, k = {self.k}: A, B and C take "
            f"{self.operand_bytes / 1e9:.3g} GB{more}: choose smaller sizes"
        )

    def to_json(self) -> dict[str, object]:
        """Return plain JSON values, by field name."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, object]) -> Problem:
        """Rebuild what `to_json` wrote."""
        return cls(**data)  # type: ignore[arg-type]
