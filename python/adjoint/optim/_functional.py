"""The steps of all optimizers as functions on lists, under the address PyTorch has for them."""

from __future__ import annotations

import math
from typing import Any

from adjoint import Tensor
from adjoint.optim.adadelta import adadelta as adadelta
from adjoint.optim.adagrad import adagrad as adagrad
from adjoint.optim.adam import adam as adam
from adjoint.optim.adamax import adamax as adamax
from adjoint.optim.adamw import adamw as adamw
from adjoint.optim.asgd import asgd as asgd
from adjoint.optim.nadam import nadam as nadam
from adjoint.optim.radam import radam as radam
from adjoint.optim.rmsprop import rmsprop as rmsprop
from adjoint.optim.rprop import rprop as rprop
from adjoint.optim.sgd import sgd as sgd


def sparse_adam(
    params: list[Tensor],
    grads: list[Any],
    exp_avgs: list[Tensor],
    exp_avg_sqs: list[Tensor],
    state_steps: list[int],
    *,
    eps: float,
    beta1: float,
    beta2: float,
    lr: Any,
    maximize: bool,
) -> None:
    """One step of `SparseAdam` on lists; means and parameters change in place."""
    for param, given, mean, square, count in zip(
        params, grads, exp_avgs, exp_avg_sqs, state_steps, strict=True
    ):
        grad = given.coalesce()  # the update is not linear: every place once
        where = tuple(grad._indices())
        values = -grad._values() if maximize else grad._values()
        if values.numel() == 0:
            continue
        new_mean = values.sub(mean[where]).mul_(1 - beta1).add_(mean[where])
        new_square = values.pow(2).sub_(square[where]).mul_(1 - beta2).add_(square[where])
        mean[where], square[where] = new_mean, new_square
        rate = lr * math.sqrt(1 - beta2**count) / (1 - beta1**count)
        move = new_mean.div(new_square.sqrt().add_(eps)).mul_(float(-rate))
        param[where] = param[where] + move
