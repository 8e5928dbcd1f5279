"""Averages of parameters over a training: models of means, their schedule and their statistics."""

from __future__ import annotations

import copy
import itertools
import math
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING as _TYPE_CHECKING
from typing import Any, TypeAlias
from typing import NoReturn as _NoReturn

import adjoint as ad
from adjoint import Tensor
from adjoint._missing import missing as _missing
from adjoint.nn import Module
from adjoint.nn.modules.batchnorm import _BatchNorm
from adjoint.optim.lr_scheduler import LRScheduler, _format_param, _warn_get_lr_called_within_step
from adjoint.optim.optimizer import Optimizer

__all__ = [
    "SWALR",
    "AveragedModel",
    "get_ema_avg_fn",
    "get_ema_multi_avg_fn",
    "get_swa_avg_fn",
    "get_swa_multi_avg_fn",
    "update_bn",
]

PARAM_LIST: TypeAlias = tuple[Tensor, ...] | list[Tensor]
_Average: TypeAlias = Callable[[Tensor, Tensor, Any], Tensor]
_Averages: TypeAlias = Callable[[PARAM_LIST, PARAM_LIST, Any], None]


def _check_decay(decay: float) -> None:
    if decay < 0.0 or decay > 1.0:
        raise ValueError(
            f"Invalid decay value {decay} provided. Please provide a value in [0,1] range."
        )


def get_ema_multi_avg_fn(decay: float = 0.999) -> _Averages:
    """A function that moves lists of means towards parameters, by the share 1 - decay."""
    _check_decay(decay)

    @ad.no_grad()
    def ema_update(ema_param_list: PARAM_LIST, current_param_list: PARAM_LIST, _: Any) -> None:
        for mean, new in zip(ema_param_list, current_param_list, strict=True):
            if mean.is_floating_point() or mean.is_complex():
                mean.lerp_(new, 1 - decay)
            else:
                mean.copy_(mean * decay + new * (1 - decay))

    return ema_update


def get_swa_multi_avg_fn() -> _Averages:
    """A function that takes one more model into lists of equal means."""

    @ad.no_grad()
    def swa_update(
        averaged_param_list: PARAM_LIST, current_param_list: PARAM_LIST, num_averaged: Any
    ) -> None:
        share = 1 / (num_averaged + 1)
        for mean, new in zip(averaged_param_list, current_param_list, strict=True):
            if mean.is_floating_point() or mean.is_complex():
                mean.lerp_(new, float(share))
            else:
                mean.copy_(mean + (new - mean) / (num_averaged + 1))

    return swa_update


def get_ema_avg_fn(decay: float = 0.999) -> _Average:
    """A function that returns decay * mean + (1 - decay) * parameter."""
    _check_decay(decay)

    @ad.no_grad()
    def ema_update(ema_param: Tensor, current_param: Tensor, num_averaged: Any) -> Tensor:
        mean: Tensor = decay * ema_param + (1 - decay) * current_param
        return mean

    return ema_update


def get_swa_avg_fn() -> _Average:
    """A function that returns the mean of one more parameter than before."""

    @ad.no_grad()
    def swa_update(averaged_param: Tensor, current_param: Tensor, num_averaged: Any) -> Tensor:
        mean: Tensor = averaged_param + (current_param - averaged_param) / (num_averaged + 1)
        return mean

    return swa_update


class AveragedModel(Module):
    """A copy of a model whose parameters are averages of the model's over time.

    Parameters
    ----------
    model : Module
        The model; it is copied.
    device : optional
        Where the copy goes.
    avg_fn : callable, optional
        (mean, parameter, number of models so far) -> new mean; equal means by default.
    multi_avg_fn : callable, optional
        The same for lists, in place.
    use_buffers : bool, default False
        Average buffers too, instead of taking over the latest.
    """

    n_averaged: Tensor

    def __init__(
        self,
        model: Module,
        device: Any = None,
        avg_fn: _Average | None = None,
        multi_avg_fn: _Averages | None = None,
        use_buffers: bool = False,
    ) -> None:
        super().__init__()
        if avg_fn is not None and multi_avg_fn is not None:
            raise AssertionError("Only one of avg_fn and multi_avg_fn should be provided")
        self.module = copy.deepcopy(model)
        if device is not None:
            self.module = self.module.to(device)
        self.register_buffer("n_averaged", ad.tensor(0, dtype=ad.long, device=device))
        self.avg_fn = avg_fn
        self.multi_avg_fn = multi_avg_fn
        self.use_buffers = use_buffers

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Call the averaged model."""
        return self.module(*args, **kwargs)

    def update_parameters(self, model: Module) -> None:
        """Take the model's parameters into the averages."""
        own = list(self._averaged(self.module))
        new = [entry.detach() for entry in self._averaged(model)]
        means = [entry.detach() for entry in own[: len(new)]]
        if self.n_averaged == 0:
            for mean, latest in zip(means, new, strict=False):
                mean.copy_(latest)
        elif self.avg_fn is not None:
            for mean, latest in zip(means, new, strict=True):
                mean.copy_(self.avg_fn(mean, latest, self.n_averaged))
        else:
            self._average_lists(means, new)
        if not self.use_buffers:  # then they are taken over
            for buffer, latest in zip(self.module.buffers(), model.buffers(), strict=True):
                buffer.detach().copy_(latest.detach())
        self.n_averaged += 1

    def _averaged(self, model: Module) -> Iterable[Tensor]:
        if self.use_buffers:
            return itertools.chain(model.parameters(), model.buffers())
        return model.parameters()

    def _average_lists(self, means: list[Tensor], new: list[Tensor]) -> None:
        """With lists of one dtype each, which is what such functions are written for."""
        average = self.multi_avg_fn or get_swa_multi_avg_fn()
        for dtype in dict.fromkeys(mean.dtype for mean in means):
            chosen = [i for i, mean in enumerate(means) if mean.dtype == dtype]
            average([means[i] for i in chosen], [new[i] for i in chosen], self.n_averaged)


@ad.no_grad()
def update_bn(loader: Iterable[Any], model: Module, device: Any = None) -> None:
    """Compute the statistics of batch normalisation anew, by one pass over data.

    Parameters
    ----------
    loader : iterable
        Batches for the model; of lists and tuples the first entry.
    model : Module
        The model, often an `AveragedModel`.
    device : optional
        Where batches go first.
    """
    momenta: dict[Any, Any] = {}
    for module in model.modules():
        if isinstance(module, _BatchNorm):
            module.reset_running_stats()
            momenta[module] = module.momentum
    if not momenta:
        return
    training = model.training
    model.train()
    for module in momenta:
        module.momentum = None  # equal means over all batches
    for batch in loader:
        if isinstance(batch, list | tuple):
            batch = batch[0]
        model(batch if device is None else batch.to(device))
    for module, momentum in momenta.items():
        module.momentum = momentum
    model.train(training)


class SWALR(LRScheduler):
    """From the current rates to `swa_lr` in `anneal_epochs` steps, where they stay.

    Parameters
    ----------
    optimizer : Optimizer
        Whose groups' "lr" is set.
    swa_lr : float or list
        The last rate, one for all groups or one for each.
    anneal_epochs : int, default 10
        Steps on the way.
    anneal_strategy : {"cos", "linear"}
        The shape of the way.
    last_epoch : int, default -1
        The number of the last step when training is resumed.
    """

    anneal_func: Callable[[float], float]

    def __init__(
        self,
        optimizer: Optimizer,
        swa_lr: float,
        anneal_epochs: int = 10,
        anneal_strategy: str = "cos",
        last_epoch: int = -1,
    ) -> None:
        for rate, group in zip(
            _format_param("swa_lr", optimizer, swa_lr), optimizer.param_groups, strict=True
        ):
            group["swa_lr"] = rate
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError(
                f"anneal_strategy must be one of 'cos' or 'linear', instead got {anneal_strategy}"
            )
        self._set_anneal_func(anneal_strategy)
        if not isinstance(anneal_epochs, int) or anneal_epochs < 0:
            raise ValueError(f"anneal_epochs must be equal or greater than 0, got {anneal_epochs}")
        self.anneal_epochs = anneal_epochs
        super().__init__(optimizer, last_epoch)

    @staticmethod
    def _linear_anneal(t: float) -> float:
        return t

    @staticmethod
    def _cosine_anneal(t: float) -> float:
        return (1 - math.cos(math.pi * t)) / 2

    def _set_anneal_func(self, anneal_strategy: str) -> None:
        self._anneal_strategy = anneal_strategy
        cosine = anneal_strategy == "cos"
        self.anneal_func = self._cosine_anneal if cosine else self._linear_anneal

    @staticmethod
    def _get_initial_lr(lr: Any, swa_lr: Any, alpha: float) -> Any:
        """The rate at the beginning, from the one a share `alpha` along the way."""
        return swa_lr if alpha == 1 else (lr - alpha * swa_lr) / (1 - alpha)

    def _share(self, step: int) -> float:
        return self.anneal_func(max(0, min(1, step / max(1, self.anneal_epochs))))

    def get_lr(self) -> list[Any]:
        """The learning rates at step `last_epoch`."""
        _warn_get_lr_called_within_step(self)
        # `_step_count` is one after initialisation: steps on the way begin with zero.
        step = self._step_count - 1
        if self.anneal_epochs == 0:
            step = max(1, step)
        before, now = self._share(step - 1), self._share(step)
        rates = []
        for group in self.optimizer.param_groups:
            start = self._get_initial_lr(group["lr"], group["swa_lr"], before)
            rates.append(group["swa_lr"] * now + start * (1 - now))
        return rates

    def state_dict(self) -> dict[str, Any]:
        """Everything but the optimizer."""
        return {k: v for k, v in super().state_dict().items() if k != "anneal_func"}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over what `state_dict` returned."""
        super().load_state_dict(state_dict)
        self._set_anneal_func(self._anneal_strategy)


if not _TYPE_CHECKING:  # a type checker would take every name to be there

    def __getattr__(name: str) -> _NoReturn:
        raise _missing(__name__, name)
