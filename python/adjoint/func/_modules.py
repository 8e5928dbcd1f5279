"""Modules as functions of their parameters: ``functional_call``, ``stack_module_state``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from adjoint import _core
from adjoint._core import Tensor

if TYPE_CHECKING:
    from adjoint.nn import Module

State = dict[str, Tensor]


def _one_dict(dicts: Any) -> State:
    if isinstance(dicts, dict):
        return dicts
    if not isinstance(dicts, list | tuple):
        raise ValueError(
            "Expected parameter_and_buffer_dicts to be a dict, or a list/tuple of dicts, but got "
            f"{type(dicts)}"
        )
    joined: State = {}
    for part in dicts:
        if not isinstance(part, dict):
            raise ValueError(
                "Expected all elements of parameter_and_buffer_dicts to be dictionaries, but got "
                f"{type(part)}"
            )
        repeated = [name for name in part if name in joined]
        if repeated:
            raise ValueError(
                f"{repeated} appeared in multiple dictionaries; behavior of functional call is "
                "ambiguous"
            )
        joined.update(part)
    return joined


def functional_call(
    module: Module,
    parameter_and_buffer_dicts: State | Sequence[State],
    args: Any = None,
    kwargs: dict[str, Any] | None = None,
    *,
    tie_weights: bool = True,
    strict: bool = False,
) -> Any:
    """Call a module with other parameters and buffers than its own.

    This makes a module a function of its parameters, for `grad`, `jvp`, `vmap` and the rest.

    Parameters
    ----------
    module
        The module to call; it is left as it was.
    parameter_and_buffer_dicts
        Tensors by their full names (``"layers.0.weight"``): a dict, or several with no name in
        common. Tensors that are not named are the module's own. A buffer that the call assigns
        anew is put into the dict, if one dict is given.
    args
        The arguments: a tuple, or one argument.
    kwargs
        The keyword arguments.
    tie_weights
        Whether a tensor that the module has under several names is replaced under all of them when
        one is given.
    strict
        Whether exactly the module's parameters and buffers must be given.

    Returns
    -------
    Any
        What the module returns.

    Raises
    ------
    ValueError
        A name is given twice, or tied names are given different values.
    RuntimeError
        ``strict`` and a name is missing or unknown.

    Examples
    --------
    >>> import adjoint as ad
    >>> model = ad.nn.Linear(2, 1)
    >>> weights = {"weight": ad.ones(1, 2), "bias": ad.zeros(1)}
    >>> ad.func.functional_call(model, weights, ad.tensor([3.0, 4.0]))
    tensor([7.])
    """
    from adjoint.nn.utils.stateless import call_with

    tensors = _one_dict(parameter_and_buffer_dicts)
    return call_with(module, tensors, args, kwargs, tie_weights=tie_weights, strict=strict)


def _stacked_leaf(tensors: list[Tensor], name: str) -> Tensor:
    wanting = [t.requires_grad for t in tensors]
    if any(wanting) and not all(wanting):
        raise RuntimeError(f"Expected {name} from each model to have the same .requires_grad")
    return _core.stack(tensors).detach().requires_grad_(all(wanting))


def stack_module_state(models: Sequence[Module]) -> tuple[State, State]:
    """Stack the parameters and buffers of several models of one kind, for ``vmap`` over them.

    Parameters
    ----------
    models
        Modules of the same class, all in training mode or all not.

    Returns
    -------
    tuple
        ``(params, buffers)``: by name, each with a new first axis that counts the models. What
        requires gradients in the models does so here, as leaves.

    Raises
    ------
    RuntimeError
        There are no models, or they differ in class, mode or in what requires gradients.

    Examples
    --------
    >>> import adjoint as ad
    >>> models = [ad.nn.Linear(2, 3) for _ in range(4)]
    >>> params, buffers = ad.func.stack_module_state(models)
    >>> params["weight"].shape
    torch.Size([4, 3, 2])
    >>> def call(params, buffers, x):
    ...     return ad.func.functional_call(models[0], (params, buffers), (x,))
    >>> ad.func.vmap(call, in_dims=(0, 0, None))(params, buffers, ad.ones(5, 2)).shape
    torch.Size([4, 5, 3])
    """
    if len(models) == 0:
        raise RuntimeError("stack_module_state: Expected at least one model, got 0.")
    first = models[0]
    if any(m.training != first.training for m in models):
        raise RuntimeError(
            "stack_module_state: Expected all models to have the same training/eval mode."
        )
    if any(type(m) is not type(first) for m in models):
        raise RuntimeError("stack_module_state: Expected all models to be of the same class.")

    def stacked(states: list[dict[str, Any]]) -> State:
        return {name: _stacked_leaf([s[name] for s in states], name) for name in states[0]}

    params = stacked([dict(m.named_parameters()) for m in models])
    return params, stacked([dict(m.named_buffers()) for m in models])
