"""`ReduceOp`: how the values of several ranks become one."""

from __future__ import annotations

import enum

__all__ = ["ReduceOp", "checked_op"]


class ReduceOp(enum.Enum):
    """How the values of several ranks become one: ``ReduceOp.SUM`` and others.

    Bools are added as truth values: SUM and MAX say whether any is true, PRODUCT and MIN whether
    all are. AVG divides the sum by the number of ranks.
    """

    SUM = 0
    AVG = 1
    PRODUCT = 2
    MIN = 3
    MAX = 4
    BAND = 5
    BOR = 6
    BXOR = 7
    PREMUL_SUM = 8
    UNUSED = 9

    def __str__(self) -> str:
        return f"RedOpType.{self.name}"  # as PyTorch prints it

    def __repr__(self) -> str:
        return f"<{self}: {self.value}>"


def checked_op(op: object) -> ReduceOp:
    """`op`, if it is one."""
    if not isinstance(op, ReduceOp):
        raise TypeError(f"op must be a ReduceOp, such as ReduceOp.SUM, not {op!r}")
    return op


ReduceOp.__module__ = "adjoint.distributed"
ReduceOp.RedOpType = ReduceOp  # type: ignore[attr-defined]
