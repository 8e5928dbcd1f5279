"""Layers that PyTorch has at its top level as well, in the order of arguments they have there.

``nn.functional`` holds the layers. ``conv2d`` and its like are called the same way in both
places and come from there unchanged; those below are not.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from adjoint._core import Generator, Tensor
from adjoint.nn import functional as _functional
from adjoint.nn._grids import _MODES, _PADDINGS


def batch_norm(
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    training: bool,
    momentum: float,
    eps: float,
    cudnn_enabled: bool = False,
) -> Tensor:
    """``nn.functional.batch_norm``, with weight and bias first."""
    return _functional.batch_norm(
        input, running_mean, running_var, weight, bias, training, momentum, eps
    )


def instance_norm(
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    use_input_stats: bool,
    momentum: float,
    eps: float,
    cudnn_enabled: bool = False,
) -> Tensor:
    """``nn.functional.instance_norm``, with weight and bias first."""
    return _functional.instance_norm(
        input, running_mean, running_var, weight, bias, use_input_stats, momentum, eps
    )


def group_norm(
    input: Tensor,
    num_groups: int,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
    cudnn_enabled: bool = True,
) -> Tensor:
    """``nn.functional.group_norm``."""
    return _functional.group_norm(input, num_groups, weight, bias, eps)


def kl_div(
    input: Tensor, target: Tensor, reduction: int = 0, *, log_target: bool = False
) -> Tensor:
    """``nn.functional.kl_div``, with 0, 1, 2 for no reduction (the default), mean and sum."""
    _reduction("kl_div", reduction)
    # Without the warning that "mean" gives there.
    loss = _functional.kl_div(input, target, reduction="none", log_target=log_target)
    if reduction == 0:
        return loss
    return loss.mean() if reduction == 1 else loss.sum()


def _dropping(function: Callable[..., Tensor], inplace: bool) -> Callable[..., Tensor]:
    def dropped(input: Tensor, p: float, train: bool) -> Tensor:
        return function(input, p, train, inplace)

    name = function.__name__ + "_" * inplace
    dropped.__name__ = dropped.__qualname__ = name
    where = ", in place" if inplace else ""
    dropped.__doc__ = f"``nn.functional.{function.__name__}(input, p, train)``{where}."
    return dropped


alpha_dropout = _dropping(_functional.alpha_dropout, False)
alpha_dropout_ = _dropping(_functional.alpha_dropout, True)
feature_alpha_dropout = _dropping(_functional.feature_alpha_dropout, False)
feature_alpha_dropout_ = _dropping(_functional.feature_alpha_dropout, True)


def _reduction(function: str, given: int) -> str:
    if isinstance(given, bool) or given not in (0, 1, 2):
        raise ValueError(
            f"{function}(): reduction must be 0 (none), 1 (mean) or 2 (sum), got {given!r}.\n"
            f"  fix: nn.functional.{function} takes the names"
        )
    return _functional._REDUCTIONS[given]


def ctc_loss(
    log_probs: Tensor,
    targets: Tensor,
    input_lengths: Tensor | Sequence[int],
    target_lengths: Tensor | Sequence[int],
    blank: int = 0,
    reduction: int = 1,
    zero_infinity: bool = False,
) -> Tensor:
    """``nn.functional.ctc_loss``, with 0, 1, 2 for no reduction, mean and sum."""
    how = _reduction("ctc_loss", reduction)
    lengths = (input_lengths, target_lengths)
    return _functional.ctc_loss(log_probs, targets, *lengths, blank, how, zero_infinity)


def cosine_embedding_loss(
    input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0.0, reduction: int = 1
) -> Tensor:
    """``nn.functional.cosine_embedding_loss``, with 0, 1, 2 for no reduction, mean and sum."""
    how = _reduction("cosine_embedding_loss", reduction)
    return _functional.cosine_embedding_loss(input1, input2, target, margin, reduction=how)


def hinge_embedding_loss(
    input: Tensor, target: Tensor, margin: float = 1.0, reduction: int = 1
) -> Tensor:
    """``nn.functional.hinge_embedding_loss``, with 0, 1, 2 for no reduction, mean and sum."""
    how = _reduction("hinge_embedding_loss", reduction)
    return _functional.hinge_embedding_loss(input, target, margin, reduction=how)


def margin_ranking_loss(
    input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0.0, reduction: int = 1
) -> Tensor:
    """``nn.functional.margin_ranking_loss``, with 0, 1, 2 for no reduction, mean and sum."""
    how = _reduction("margin_ranking_loss", reduction)
    return _functional.margin_ranking_loss(input1, input2, target, margin, reduction=how)


def triplet_margin_loss(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    margin: float = 1.0,
    p: float = 2.0,
    eps: float = 1e-6,
    swap: bool = False,
    reduction: int = 1,
) -> Tensor:
    """``nn.functional.triplet_margin_loss``, with 0, 1, 2 for no reduction, mean and sum."""
    how = _reduction("triplet_margin_loss", reduction)
    return _functional.triplet_margin_loss(
        anchor, positive, negative, margin, p, eps, swap, reduction=how
    )


def poisson_nll_loss(
    input: Tensor, target: Tensor, log_input: bool, full: bool, eps: float, reduction: int
) -> Tensor:
    """``nn.functional.poisson_nll_loss``, with 0, 1, 2 for no reduction, mean and sum."""
    how = _reduction("poisson_nll_loss", reduction)
    return _functional.poisson_nll_loss(input, target, log_input, full, eps=eps, reduction=how)


def rrelu(
    input: Tensor,
    lower: float = 1.0 / 8,
    upper: float = 1.0 / 3,
    training: bool = False,
    generator: Generator | None = None,
) -> Tensor:
    """``nn.functional.rrelu``, with a generator."""
    return _functional._rrelu(input, lower, upper, training, False, generator)


def feature_dropout(input: Tensor, p: float, train: bool) -> Tensor:
    """``nn.functional.dropout2d`` for any number of axes."""
    return _functional._feature_dropout(input, p, train)


def feature_dropout_(input: Tensor, p: float, train: bool) -> Tensor:
    """``feature_dropout`` in place."""
    return _functional._feature_dropout(input, p, train, inplace=True)


def _grid_sampler(
    name: str,
    axes: int | None,
    input: Tensor,
    grid: Tensor,
    mode: int,
    padding: int,
    align_corners: bool,
) -> Tensor:
    if axes is not None and isinstance(input, Tensor) and input.dim() != axes + 2:
        raise RuntimeError(
            f"{name}(): expected input of {axes + 2} dimensions, but got shape {list(input.shape)}"
        )
    for what, given in (("interpolation_mode", mode), ("padding_mode", padding)):
        if isinstance(given, bool) or given not in (0, 1, 2):
            raise RuntimeError(f"{name}(): {what} must be 0, 1 or 2, got {given!r}")
    return _functional.grid_sample(input, grid, _MODES[mode], _PADDINGS[padding], align_corners)


def grid_sampler(
    input: Tensor, grid: Tensor, interpolation_mode: int, padding_mode: int, align_corners: bool
) -> Tensor:
    """``nn.functional.grid_sample``, with 0, 1, 2 for the modes."""
    return _grid_sampler(
        "grid_sampler", None, input, grid, interpolation_mode, padding_mode, align_corners
    )


def grid_sampler_2d(
    input: Tensor, grid: Tensor, interpolation_mode: int, padding_mode: int, align_corners: bool
) -> Tensor:
    """``grid_sampler`` of images."""
    return _grid_sampler(
        "grid_sampler_2d", 2, input, grid, interpolation_mode, padding_mode, align_corners
    )


def grid_sampler_3d(
    input: Tensor, grid: Tensor, interpolation_mode: int, padding_mode: int, align_corners: bool
) -> Tensor:
    """``grid_sampler`` of volumes."""
    return _grid_sampler(
        "grid_sampler_3d", 3, input, grid, interpolation_mode, padding_mode, align_corners
    )
