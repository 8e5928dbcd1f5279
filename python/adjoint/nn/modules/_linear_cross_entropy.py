"""A linear layer and the cross entropy of its outputs as one loss; `loss.py`'s kin."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import adjoint as ad
from adjoint import Tensor
from adjoint.nn import functional as F
from adjoint.nn.modules.linear import Linear
from adjoint.nn.modules.module import Module

__all__ = ["LinearCrossEntropyLoss", "LinearCrossEntropyOptions"]


@dataclass
class LinearCrossEntropyOptions:
    """How PyTorch splits the computation; taken and checked, without effect on the result."""

    allow_retain_graph: bool = False
    batch_chunk_size: int | None = None
    chunking_method: str | None = "auto"
    acc_policy: str = "auto"
    acc_dtype: ad.dtype | None = None


class LinearCrossEntropyLoss(Module):
    """The cross entropy of the outputs of a linear layer that it holds.

    Parameters
    ----------
    in_features : int
        The size of the last axis of the input.
    num_classes : int
        The number of classes.
    out_features : tuple of int, default ()
        The axes of the loss behind the batch, one target for each.
    bias : bool, default False
        Whether the layer has a bias.
    device, dtype : optional
        Where (the CPU) and in which dtype the weight is made.
    reduction, weight, ignore_index, label_smoothing
        Those of `CrossEntropyLoss`.
    options : LinearCrossEntropyOptions, optional
        Taken for PyTorch's sake: all is computed at once.
    """

    weight: Tensor | None

    def __init__(
        self,
        in_features: int,
        num_classes: int,
        *,
        out_features: tuple[int, ...] = (),
        bias: bool = False,
        device: Any = None,
        dtype: ad.dtype | None = None,
        reduction: str = "mean",
        weight: Tensor | None = None,
        ignore_index: int | None = None,
        label_smoothing: float = 0.0,
        options: LinearCrossEntropyOptions | None = None,
    ) -> None:
        super().__init__()
        self.in_features = in_features
        self.num_classes = num_classes
        self.out_features = tuple(out_features)
        self.reduction = reduction
        self.ignore_index = ignore_index
        self.label_smoothing = label_smoothing
        self.options = options
        outputs = num_classes * math.prod(self.out_features)
        self.linear = Linear(in_features, outputs, bias=bias, device=device, dtype=dtype)
        self.register_buffer("weight", weight)

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        logits = self.linear(input)
        logits = logits.reshape(*input.shape[:-1], self.num_classes, *self.out_features)
        return F.cross_entropy(
            logits,
            target,
            weight=self.weight,
            ignore_index=-100 if self.ignore_index is None else self.ignore_index,
            reduction=self.reduction,
            label_smoothing=self.label_smoothing,
        )

    def extra_repr(self) -> str:
        return (
            f"in_features={self.in_features}, num_classes={self.num_classes}, "
            f"out_features={self.out_features}, reduction={self.reduction!r}"
        )
