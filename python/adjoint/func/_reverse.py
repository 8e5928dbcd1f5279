"""Reverse-mode transforms: ``grad``, ``grad_and_value``, ``value_and_grad``, ``vjp``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from adjoint import _core, _tree
from adjoint._core import Tensor
from adjoint._transforming import differentiating
from adjoint.autograd.grad_mode import enable_grad

from ._arguments import (
    Argnums,
    Variables,
    lent_by_name,
    named,
    released,
    replaced,
    split_aux,
    tensor_args,
    tensor_primals,
)
from ._tensor_leaves import TensorLeaves, differentiable_outputs

_BOTH = "grad_and_value(f)(*args)"
_VJP = "vjp(f, *primals)"


def _check_scalar(output: Any, name: str) -> None:
    if not isinstance(output, Tensor):
        raise RuntimeError(
            f"{name}: Expected f(*args) to return a tensor, got {type(output).__name__}"
        )
    if output.ndim != 0:
        raise RuntimeError(
            f"{name}: Expected f(*args) to return a scalar tensor, got tensor with "
            f"{output.ndim} dims. Maybe you wanted to use the vjp or jacrev APIs instead?"
        )


def grad_and_value(
    func: Callable[..., Any], argnums: Argnums = 0, has_aux: bool = False
) -> Callable[..., Any]:
    """Return a function that computes the gradient of ``func`` and its value.

    Parameters
    ----------
    func
        A function of tensors, or of structures of tensors, that returns a tensor of no axes; with
        ``has_aux`` a pair of it and anything else.
    argnums
        Which arguments to differentiate by: a position, or a tuple of them.
    has_aux
        Whether ``func`` returns ``(output, aux)``.

    Returns
    -------
    callable
        Of the same arguments; returns ``(gradient, value)``, or ``(gradient, (value, aux))``. The
        gradient has the structure of the argument, in a tuple if ``argnums`` is one.

    Examples
    --------
    >>> import adjoint as ad
    >>> ad.func.grad_and_value(lambda x: (x**3).sum())(ad.tensor([1.0, 2.0]))
    (tensor([ 3., 12.]), tensor(9.))
    """
    return gradient_of(func, argnums, has_aux, _BOTH)


def gradient_of(
    func: Callable[..., Any], argnums: Argnums, has_aux: bool, name: str
) -> Callable[..., Any]:
    """`grad_and_value`, with ``name`` for what messages call it."""
    # PyTorch's name stays in the message that programs may look for.
    aux_name = name if name == _BOTH else f"{name}, by {_BOTH}"

    def wrapper(*args: Any, **kwargs: Any) -> Any:
        variables = Variables(tensor_args(args, argnums, name))
        with enable_grad(), variables.under_way():
            with differentiating():
                result = func(*replaced(args, argnums, variables.tree), **lent_by_name(kwargs))
            output, aux = split_aux(result, has_aux, aux_name)
            _check_scalar(output, name)
            record = variables.must_record((output,))
            grads = variables.gradients((output,), None, record, record)
        variables.end()
        gradient = variables.selected.gradient(grads)
        if has_aux:
            return gradient, (released(output, record), released(aux, record))
        return gradient, released(output, record)

    return named(wrapper, func)


def value_and_grad(
    func: Callable[..., Any], argnums: Argnums = 0, has_aux: bool = False
) -> Callable[..., Any]:
    """Return a function that computes the value of ``func`` and its gradient.

    As `grad_and_value`, in the other order.

    Examples
    --------
    >>> import adjoint as ad
    >>> ad.func.value_and_grad(lambda x: x * x)(ad.tensor(3.0))
    (tensor(9.), tensor(6.))
    """
    both = gradient_of(func, argnums, has_aux, "value_and_grad(f)(*args)")

    def wrapper(*args: Any, **kwargs: Any) -> Any:
        gradient, value = both(*args, **kwargs)
        return value, gradient

    return named(wrapper, func)


def grad(
    func: Callable[..., Any], argnums: Argnums = 0, has_aux: bool = False
) -> Callable[..., Any]:
    """Return a function that computes the gradient of ``func``.

    Parameters
    ----------
    func, argnums, has_aux
        As for `grad_and_value`.

    Returns
    -------
    callable
        Of the same arguments; returns the gradient, or ``(gradient, aux)``.

    Examples
    --------
    >>> import adjoint as ad
    >>> ad.func.grad(ad.sin)(ad.tensor(0.0))
    tensor(1.)
    >>> ad.func.grad(ad.func.grad(lambda x: x**3))(ad.tensor(2.0))
    tensor(12.)
    """
    both = gradient_of(func, argnums, has_aux, "grad(f)(*args)")

    def wrapper(*args: Any, **kwargs: Any) -> Any:
        gradient, value = both(*args, **kwargs)
        return (gradient, value[1]) if has_aux else gradient

    return named(wrapper, func)


def _cotangents_like(selected: TensorLeaves, given: Any, name: str) -> list[Tensor]:
    leaves, structure = _tree.flatten(given)
    if structure != selected.spec:
        raise RuntimeError(
            "Expected pytree structure of cotangents to be the same as pytree structure of "
            f"outputs to the function. cotangents: {structure}, primal output: {selected.spec}"
        )
    found: list[Tensor] = selected.like(leaves, f"{name}: cotangents")
    for i, (y, c) in enumerate(zip(selected.tensors, found, strict=True)):
        if isinstance(c, Tensor) and c.shape == y.shape:
            continue
        path = selected.paths("cotangents")[i]
        got = list(c.shape) if isinstance(c, Tensor) else _tree.kind_of(c)
        message = f"{name}: {path}: expected shape {list(y.shape)}, got {got}"
        raise (RuntimeError if c is None or isinstance(c, Tensor) else TypeError)(message)
    return found


def vjp(func: Callable[..., Any], *primals: Any, has_aux: bool = False) -> tuple[Any, ...]:
    """Return the value of ``func`` and a function that pulls cotangents back through it.

    Parameters
    ----------
    func
        A function of tensors, or of structures of them.
    primals
        Its arguments, all of which are differentiated by.
    has_aux
        Whether ``func`` returns ``(output, aux)``.

    Returns
    -------
    tuple
        ``(output, vjp_fn)`` or ``(output, vjp_fn, aux)``. ``vjp_fn(cotangents)`` takes the
        structure of the output and returns a tuple with the structure of each primal; it can be
        called again.

    Examples
    --------
    >>> import adjoint as ad
    >>> y, vjp_fn = ad.func.vjp(ad.sin, ad.tensor([0.0, 0.0]))
    >>> vjp_fn(ad.tensor([1.0, 2.0]))
    (tensor([1., 2.]),)
    """
    return pulled_back(func, tuple(primals), has_aux, _VJP)


def pulled_back(
    func: Callable[..., Any],
    primals: tuple[Any, ...],
    has_aux: bool,
    name: str,
    selected: TensorLeaves | None = None,
) -> tuple[Any, ...]:
    """`vjp`, with ``name`` for what messages call it, and ``selected`` if they are known."""
    variables = Variables(tensor_primals(primals, name) if selected is None else selected)
    # By cotangents that are variables themselves, what `vjp` returns may be differentiated again.
    with enable_grad(), variables.under_way(name == _VJP), differentiating():
        output, aux = split_aux(func(*variables.tree), has_aux, name)
    results = differentiable_outputs(output, name)
    outputs: list[Tensor] = results.tensors
    further = variables.leads_further(outputs)

    def vjp_fn(
        cotangents: Any, retain_graph: bool = True, create_graph: bool | None = None
    ) -> tuple[Any, ...]:
        given = _cotangents_like(results, cotangents, name)
        if create_graph is None:
            follows = any(c.requires_grad for c in given)
            create_graph = _core.is_grad_enabled() and (further or follows)
        grads = variables.gradients(outputs, given, retain_graph, create_graph)
        return tuple(variables.selected.gradient(grads))

    vjp_fn.end = variables.end  # type: ignore[attr-defined]  # for who knows the last call
    record = variables.outer and further
    value = released(output, record)
    return (value, vjp_fn, released(aux, record)) if has_aux else (value, vjp_fn)
