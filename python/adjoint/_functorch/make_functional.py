"""Modules as functions of a tuple of parameters: functorch's way before ``functional_call``."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from adjoint import Tensor, _core
from adjoint.func import functional_call
from adjoint.nn import Module

__all__ = [
    "FunctionalModule",
    "FunctionalModuleWithBuffers",
    "combine_state_for_ensemble",
    "functional_init",
    "functional_init_with_buffers",
    "make_functional",
    "make_functional_with_buffers",
]

Tensors = tuple[Tensor, ...]


class FunctionalModule(Module):
    """A module whose parameters are its first argument."""

    def __init__(self, stateless_model: Module) -> None:
        super().__init__()
        self.stateless_model = stateless_model
        self.param_names = tuple(name for name, _ in stateless_model.named_parameters())

    def forward(self, params: Iterable[Tensor], *args: Any, **kwargs: Any) -> Any:
        """Call the model with ``params``."""
        state = dict(zip(self.param_names, params, strict=True))
        return functional_call(self.stateless_model, state, args, kwargs)


class FunctionalModuleWithBuffers(Module):
    """A module whose parameters and buffers are its first two arguments."""

    def __init__(self, stateless_model: Module) -> None:
        super().__init__()
        self.stateless_model = stateless_model
        self.param_names = tuple(name for name, _ in stateless_model.named_parameters())
        self.buffer_names = tuple(name for name, _ in stateless_model.named_buffers())

    def forward(
        self, params: Iterable[Tensor], buffers: Iterable[Tensor], *args: Any, **kwargs: Any
    ) -> Any:
        """Call the model with ``params`` and ``buffers``."""
        state = dict(zip(self.param_names, params, strict=True))
        state |= dict(zip(self.buffer_names, buffers, strict=True))
        return functional_call(self.stateless_model, state, args, kwargs)


def _parameters(model: Module, detached: bool) -> Tensors:
    return tuple(p.detach() if detached else p for p in model.parameters())


def make_functional(
    model: Module, disable_autograd_tracking: bool = False
) -> tuple[FunctionalModule, Tensors]:
    """Split a copy of a module without buffers into a function and its parameters.

    Parameters
    ----------
    model
        The module; it is copied.
    disable_autograd_tracking
        Whether the parameters are to come without ``requires_grad``.

    Returns
    -------
    tuple
        ``(func, params)``: ``func(params, *args)`` calls the model.
    """
    if any(True for _ in model.buffers()):
        raise RuntimeError(
            "make_functional(model): `model` has buffers. Please use "
            "make_functional_with_buffers(model) instead."
        )
    copied = copy.deepcopy(model)
    return FunctionalModule(copied), _parameters(copied, disable_autograd_tracking)


def make_functional_with_buffers(
    model: Module, disable_autograd_tracking: bool = False
) -> tuple[FunctionalModuleWithBuffers, Tensors, Tensors]:
    """Split a copy of a module into a function, its parameters and its buffers.

    Parameters
    ----------
    model
        The module; it is copied.
    disable_autograd_tracking
        Whether the parameters are to come without ``requires_grad``.

    Returns
    -------
    tuple
        ``(func, params, buffers)``: ``func(params, buffers, *args)`` calls the model.
    """
    copied = copy.deepcopy(model)
    params = _parameters(copied, disable_autograd_tracking)
    return FunctionalModuleWithBuffers(copied), params, tuple(copied.buffers())


def _stacked(states: Iterable[Iterable[Tensor]]) -> Tensors:
    return tuple(_core.stack(list(column)).detach() for column in zip(*states, strict=True))


def combine_state_for_ensemble(
    models: Sequence[Module],
) -> tuple[FunctionalModuleWithBuffers, Tensors, Tensors]:
    """Stack parameters and buffers of models of one class, for ``vmap`` over the models.

    Parameters
    ----------
    models
        Modules of the same class and mode.

    Returns
    -------
    tuple
        ``(func, params, buffers)`` as of `make_functional_with_buffers`, with a first axis that
        counts the models.
    """
    if len(models) == 0:
        raise RuntimeError("combine_state_for_ensemble: Expected at least one model, got 0.")
    if any(m.training != models[0].training for m in models):
        raise RuntimeError(
            "combine_state_for_ensemble: Expected all models to have the same training/eval mode."
        )
    if any(type(m) is not type(models[0]) for m in models):
        raise RuntimeError(
            "combine_state_for_ensemble: Expected all models to be of the same class."
        )
    func, _, _ = make_functional_with_buffers(models[0])
    params = _stacked(m.parameters() for m in models)
    return func, params, _stacked(m.buffers() for m in models)


def _drawn(
    model_class: Callable[..., Module],
    ensemble_shape: Sequence[int],
    device: Any,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> tuple[list[Module], bool]:
    """As many models as asked for, and whether their states are to be stacked."""
    if len(ensemble_shape) >= 2:
        raise ValueError("NYI: ensemble_shape with more than 1 element")
    count = ensemble_shape[0] if ensemble_shape else 1
    if count <= 0:
        raise ValueError(f"num_models {count} should be > 0")
    return [model_class(*args, **kwargs).to(device) for _ in range(count)], bool(ensemble_shape)


def _as_tuple(data: Any) -> tuple[Any, ...]:
    return data if isinstance(data, tuple) else (data,)


def functional_init(
    model_class: Callable[..., Module], ensemble_shape: Sequence[int] = (), device: Any = "cpu"
) -> Callable[..., Any]:
    """Draw one model, or an ensemble, and return its weights and a function of them."""

    def wrapped(*args: Any, **kwargs: Any) -> Any:
        models, many = _drawn(model_class, ensemble_shape, device, args, kwargs)
        func, params = make_functional(models[0])
        weights = _stacked(m.parameters() for m in models) if many else params
        return weights, lambda w, data: func(w, *_as_tuple(data)), func.param_names

    return wrapped


def functional_init_with_buffers(
    model_class: Callable[..., Module], ensemble_shape: Sequence[int] = (), device: Any = "cpu"
) -> Callable[..., Any]:
    """As `functional_init`, for models with buffers."""

    def wrapped(*args: Any, **kwargs: Any) -> Any:
        models, many = _drawn(model_class, ensemble_shape, device, args, kwargs)
        func, params, state = make_functional_with_buffers(models[0])
        weights = _stacked(m.parameters() for m in models) if many else params
        buffers = _stacked(m.buffers() for m in models) if many else state

        def call(weights: Tensors, buffers: Tensors, data: Any) -> Any:
            return func(weights, buffers, *_as_tuple(data))

        return weights, buffers, call, func.param_names, func.buffer_names

    return wrapped
