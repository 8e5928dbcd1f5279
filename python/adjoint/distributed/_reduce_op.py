"""`ReduceOp`: how the values of several ranks become one."""

from __future__ import annotations

import enum

__all__ = ["ReduceOp"]


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

    @classmethod
    def _missing_(cls, value: object) -> ReduceOp | None:
        return (
            cls[value.upper()]
            if isinstance(value, str) and value.upper() in cls.__members__
            else None
        )


ReduceOp.__module__ = "adjoint.distributed"
ReduceOp.RedOpType = ReduceOp  # type: ignore[attr-defined]
