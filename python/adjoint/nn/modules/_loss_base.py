"""What the losses share: a reduction, and a weight for each class."""

from __future__ import annotations

from adjoint import Tensor
from adjoint.nn.functional import _legacy_reduction
from adjoint.nn.modules.module import Module


class _Loss(Module):
    """A loss with a `reduction`: "mean", "sum" or "none"."""

    reduction: str

    def __init__(
        self, size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean"
    ) -> None:
        super().__init__()
        self.reduction = _legacy_reduction(size_average, reduce, reduction)


class _WeightedLoss(_Loss):
    """A loss with a weight for each class (or element), kept as a buffer."""

    weight: Tensor | None

    def __init__(
        self,
        weight: Tensor | None = None,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.register_buffer("weight", weight)
