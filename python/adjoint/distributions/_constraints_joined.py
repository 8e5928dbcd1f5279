"""Constraints made of others: `independent`, `cat`, `stack` and that of mixtures."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import adjoint as ad
from adjoint import Tensor

from ._constraint import Constraint


def _all_of(result: Tensor, kept: int) -> Tensor:
    """Whether all hold over the axes from `kept` on."""
    return result.reshape(*result.shape[:kept], -1).all(-1)


class _IndependentConstraint(Constraint):
    """A constraint whose last batch axes belong to the event."""

    def __init__(self, base_constraint: Constraint, reinterpreted_batch_ndims: int) -> None:
        if not isinstance(base_constraint, Constraint):
            raise AssertionError(f"base_constraint must be a Constraint, not {base_constraint!r}")
        if not isinstance(reinterpreted_batch_ndims, int) or reinterpreted_batch_ndims < 0:
            raise AssertionError(
                f"reinterpreted_batch_ndims must be an int >= 0, not {reinterpreted_batch_ndims!r}"
            )
        self.base_constraint = base_constraint
        self.reinterpreted_batch_ndims = reinterpreted_batch_ndims
        super().__init__()

    @property
    def is_discrete(self) -> bool:
        return bool(self.base_constraint.is_discrete)

    @property
    def event_dim(self) -> int:
        return int(self.base_constraint.event_dim + self.reinterpreted_batch_ndims)

    def check(self, value: Tensor) -> Tensor:
        result = self.base_constraint.check(value)
        if result.dim() < self.reinterpreted_batch_ndims:
            raise ValueError(f"Expected value.dim() >= {self.event_dim} but got {value.dim()}")
        return _all_of(result, result.dim() - self.reinterpreted_batch_ndims)

    def __repr__(self) -> str:
        inner = f"{self.base_constraint!r}, {self.reinterpreted_batch_ndims}"
        return f"{self.__class__.__name__[1:]}({inner})"


class MixtureSameFamilyConstraint(Constraint):
    """What samples of a mixture satisfy: each component's own."""

    def __init__(self, base_constraint: Constraint) -> None:
        if not isinstance(base_constraint, Constraint):
            raise AssertionError(f"base_constraint must be a Constraint, not {base_constraint!r}")
        self.base_constraint = base_constraint
        super().__init__()

    @property
    def is_discrete(self) -> bool:
        """Whether its values can be counted."""
        return bool(self.base_constraint.is_discrete)

    @property
    def event_dim(self) -> int:
        """How many axes make one value."""
        return int(self.base_constraint.event_dim)

    def check(self, value: Tensor) -> Tensor:
        """Return whether all components could have drawn it."""
        if value.dim() < self.event_dim:
            raise ValueError(f"Expected value.dim() >= {self.event_dim} but got {value.dim()}")
        result = self.base_constraint.check(value.unsqueeze(-1 - self.event_dim))
        return _all_of(result, value.dim() - self.event_dim)

    def __repr__(self) -> str:
        return f"{self.__class__.__name__}({self.base_constraint!r})"


class _Joined(Constraint):
    cseq: list[Any]

    def __init__(self, cseq: Sequence[Any], dim: int) -> None:
        if not all(isinstance(c, Constraint) for c in cseq):
            raise AssertionError(f"all of cseq must be Constraints, but it is {cseq!r}")
        self.cseq = list(cseq)
        self.dim = dim
        super().__init__()

    @property
    def is_discrete(self) -> bool:
        return any(c.is_discrete for c in self.cseq)

    def _check_dim(self, value: Tensor) -> None:
        if not -value.dim() <= self.dim < value.dim():
            raise AssertionError(f"dim={self.dim} is not an axis of a value of {value.dim()} axes")


class _Cat(_Joined):
    """Constraints side by side along an axis, on so many elements each."""

    def __init__(
        self, cseq: Sequence[Any], dim: int = 0, lengths: Sequence[int] | None = None
    ) -> None:
        super().__init__(cseq, dim)
        self.lengths = [1] * len(self.cseq) if lengths is None else list(lengths)
        if len(self.lengths) != len(self.cseq):
            raise AssertionError(f"{len(self.cseq)} constraints but {len(self.lengths)} lengths")

    @property
    def event_dim(self) -> int:
        return max(int(c.event_dim) for c in self.cseq)

    def check(self, value: Tensor) -> Tensor:
        self._check_dim(value)
        checks, start = [], 0
        for constraint, length in zip(self.cseq, self.lengths, strict=True):
            checks.append(constraint.check(value.narrow(self.dim, start, length)))
            start += length
        return ad.cat(checks, self.dim)


class _Stack(_Joined):
    """Constraints one after the other along an axis of its own."""

    def __init__(self, cseq: Sequence[Any], dim: int = 0) -> None:
        super().__init__(cseq, dim)

    @property
    def event_dim(self) -> int:
        dim = max(int(c.event_dim) for c in self.cseq)
        return dim + 1 if self.dim + dim < 0 else dim

    def check(self, value: Tensor) -> Tensor:
        self._check_dim(value)
        slices = [value.select(self.dim, i) for i in range(value.size(self.dim))]
        checked = [c.check(v) for v, c in zip(slices, self.cseq, strict=True)]
        return ad.stack(checked, self.dim)
