"""A softmax over very many classes, of which few are frequent (Grave et al., 2017)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import adjoint as ad
from adjoint import Tensor
from adjoint.nn import functional as F
from adjoint.nn.modules.container import ModuleList, Sequential
from adjoint.nn.modules.linear import Linear
from adjoint.nn.modules.module import Module

__all__ = ["AdaptiveLogSoftmaxWithLoss"]


class _ASMoutput(NamedTuple):
    output: Tensor
    loss: Tensor


class AdaptiveLogSoftmaxWithLoss(Module):
    """Log-probabilities of targets, and their mean, by a softmax over clusters of classes.

    Classes are numbered by falling frequency. The head holds the frequent ones and an entry for
    each cluster of the others; a cluster is looked at only for targets that are in it.

    Parameters
    ----------
    in_features : int
        The size of the last axis of the input.
    n_classes : int
        The number of classes.
    cutoffs : sequence of int
        Where the clusters end: rising numbers between 1 and ``n_classes - 1``.
    div_value : float, default 4.0
        By how much each cluster's inner size is smaller than that of the one before.
    head_bias : bool, default False
        Whether the head has a bias.
    device, dtype : optional
        Where (the CPU) and in which dtype the parameters are made.
    """

    def __init__(
        self,
        in_features: int,
        n_classes: int,
        cutoffs: Sequence[int],
        div_value: float = 4.0,
        head_bias: bool = False,
        device: Any = None,
        dtype: ad.dtype | None = None,
    ) -> None:
        super().__init__()
        cutoffs = list(cutoffs)
        if len(cutoffs) == 0:
            raise ValueError("cutoffs should be a sequence of length larger than 0")
        if (
            cutoffs != sorted(cutoffs)
            or min(cutoffs) <= 0
            or max(cutoffs) > n_classes - 1
            or len(set(cutoffs)) != len(cutoffs)
            or any(int(c) != c for c in cutoffs)
        ):
            raise ValueError(
                "cutoffs should be a sequence of unique, positive integers sorted in an "
                "increasing order, where each value is between 1 and n_classes-1"
            )
        options: dict[str, Any] = {"device": device, "dtype": dtype}
        self.in_features = in_features
        self.n_classes = n_classes
        self.cutoffs = [*cutoffs, n_classes]
        self.div_value = div_value
        self.head_bias = head_bias
        self.shortlist_size = self.cutoffs[0]
        self.n_clusters = len(self.cutoffs) - 1
        self.head_size = self.shortlist_size + self.n_clusters
        self.head = Linear(in_features, self.head_size, bias=head_bias, **options)
        self.tail = ModuleList()
        for i in range(self.n_clusters):
            inner = int(in_features // (div_value ** (i + 1)))
            size = self.cutoffs[i + 1] - self.cutoffs[i]
            self.tail.append(
                Sequential(
                    Linear(in_features, inner, bias=False, **options),
                    Linear(inner, size, bias=False, **options),
                )
            )

    def reset_parameters(self) -> None:
        """Draw all weights anew."""
        self.head.reset_parameters()
        for cluster in self.tail:
            for layer in (cluster[0], cluster[1]):  # type: ignore[index]
                layer.reset_parameters()

    def forward(self, input_: Tensor, target_: Tensor) -> _ASMoutput:
        alone = target_.dim() == 0
        if alone and input_.dim() != 1:
            raise RuntimeError("0D target requires 1D input")
        if target_.dim() > 1:
            raise RuntimeError("0D or 1D target tensor expected, multi-target not supported")
        if not alone and input_.dim() != 2:
            raise RuntimeError("1D target requires 2D input")
        if not alone and input_.size(0) != target_.size(0):
            raise RuntimeError("Input and target should have the same size in the batch dimension.")
        input = input_.unsqueeze(0) if alone else input_
        target = target_.unsqueeze(0) if alone else target_
        if not bool(((target >= 0) & (target < self.n_classes)).all()):
            raise RuntimeError(
                f"Target values should be in [0, {self.n_classes - 1}], but values in range "
                f"[{int(target.min())}, {int(target.max())}] were found. "
            )
        return self._loss(input, target, alone)

    def _loss(self, input: Tensor, target: Tensor, alone: bool) -> _ASMoutput:
        output = input.new_zeros(target.size(0))
        in_head = ad.where(target < self.shortlist_size, target, ad.zeros_like(target))
        for i, cluster in enumerate(self.tail):
            low, high = self.cutoffs[i], self.cutoffs[i + 1]
            rows = ((target >= low) & (target < high)).nonzero().squeeze(-1)
            if rows.numel() == 0:
                continue
            within = F.log_softmax(cluster(input.index_select(0, rows)), dim=1)
            picked = within.gather(1, (target[rows] - low).unsqueeze(1)).squeeze(1)
            output = output.index_copy(0, rows, picked)
            in_head = in_head.index_fill(0, rows, self.shortlist_size + i)
        head = F.log_softmax(self.head(input), dim=1)
        output = output + head.gather(1, in_head.unsqueeze(1)).squeeze(1)
        loss = (-output).mean()
        return _ASMoutput(output.squeeze(0) if alone else output, loss)

    def _get_full_log_prob(self, input: Tensor, head_output: Tensor) -> Tensor:
        head = F.log_softmax(head_output, dim=1)
        parts = [head[:, : self.shortlist_size]]
        for i, cluster in enumerate(self.tail):
            within = F.log_softmax(cluster(input), dim=1)
            parts.append(within + head[:, self.shortlist_size + i].unsqueeze(1))
        return ad.cat(parts, dim=1)

    def log_prob(self, input: Tensor) -> Tensor:
        """The log-probabilities of all classes, one row for each row of the input."""
        return self._get_full_log_prob(input, self.head(input))

    def predict(self, input: Tensor) -> Tensor:
        """The class of the highest probability for each row."""
        head_output = self.head(input)
        output = ad.argmax(head_output, dim=1)
        undecided = output >= self.shortlist_size
        if not bool(undecided.any()):
            return output
        if bool(undecided.all()):
            return ad.argmax(self._get_full_log_prob(input, head_output), dim=1)
        full = self._get_full_log_prob(input[undecided], head_output[undecided])
        output[undecided] = ad.argmax(full, dim=1)
        return output
