"""Layers that PyTorch has at its top level as well, in the order of arguments they have there.

``nn.functional`` holds the layers. ``conv2d`` and its like are called the same way in both
places and come from there unchanged; those below are not.
"""

from __future__ import annotations

from collections.abc import Callable

from adjoint._core import Tensor
from adjoint.nn import functional as _functional


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
    if isinstance(reduction, bool) or reduction not in (0, 1, 2):
        raise ValueError(
            f"kl_div(): reduction must be 0 (none), 1 (mean) or 2 (sum), got {reduction!r}.\n"
            "  fix: nn.functional.kl_div takes the names"
        )
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


def selu_(input: Tensor) -> Tensor:
    """``selu`` in place."""
    return _functional.selu(input, inplace=True)


def celu_(input: Tensor, alpha: float = 1.0) -> Tensor:
    """``celu`` in place."""
    return _functional.celu(input, alpha, inplace=True)
