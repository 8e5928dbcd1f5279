"""What one does with a tensor, done with a composite: `requires_grad`, `grads`, `map`, `to` ...

Every function also takes a single tensor, the smallest composite.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from adjoint import _core
from adjoint._core import Tensor

from ._agreement import leaves_of_same
from ._structure import apply, distinct, put_together, take_apart

__all__ = ["detach", "grads", "map", "nbytes", "numel", "requires_grad", "to", "zero_grad"]

T = TypeVar("T")


def can_have_gradient(tensor: Tensor) -> bool:
    """Whether the elements are real or complex floating-point numbers."""
    return tensor.is_floating_point() or tensor.is_complex()


def requires_grad(composite: T, requires_grad: bool = True) -> T:
    """Ask for gradients of all tensors of a composite, in place; returns the composite.

    Parameters
    ----------
    composite
        A structure of tensors. Integer and boolean tensors in it, which have no gradients, are
        left alone.
    requires_grad
        False to stop recording instead.

    Raises
    ------
    RuntimeError
        No tensor can have a gradient, or a computed one should stop requiring it; nothing was
        changed.

    Examples
    --------
    >>> import adjoint as ad
    >>> params = ad.requires_grad({"w": ad.ones(2), "step": ad.tensor(0)})
    >>> params["w"].requires_grad, params["step"].requires_grad
    (True, False)
    """
    tensors, structure = take_apart(composite, "requires_grad")
    able = [t for t in tensors if can_have_gradient(t)]
    if requires_grad and not able:
        raise RuntimeError(
            "only Tensors of floating point and complex dtype can require gradients, but "
            f"{structure.paths()[0]} has dtype {tensors[0].dtype} and the others are no better"
        )
    if not requires_grad:
        for i, tensor in enumerate(tensors):
            if not tensor.is_leaf:
                raise RuntimeError(
                    f"you can only change requires_grad flags of leaf variables, and "
                    f"{structure.paths()[i]} was computed; use detach(), which makes new tensors"
                )
    for tensor in able:
        tensor.requires_grad_(requires_grad)
    return composite


def grads(composite: T) -> T:
    """The ``.grad`` of each tensor, in the structure of the composite; None where there is none.

    What is not a tensor is carried along. A tensor that stands in several places has one gradient,
    the sum over all its uses, which stands in each of them.

    Examples
    --------
    >>> import adjoint as ad
    >>> params = ad.requires_grad({"w": ad.ones(2), "b": ad.zeros(1), "name": "layer"})
    >>> (params["w"] * 3).sum().backward()
    >>> ad.grads(params)
    {'w': tensor([3., 3.]), 'b': None, 'name': 'layer'}
    """
    tensors, structure = take_apart(composite, "grads")
    result: T = put_together(structure, [t.grad for t in tensors])
    return result


def zero_grad(composite: Any, set_to_none: bool = True) -> None:
    """Forget the ``.grad`` of each tensor, or set it to zero.

    Examples
    --------
    >>> import adjoint as ad
    >>> x = ad.requires_grad([ad.ones(2)])
    >>> x[0].sum().backward()
    >>> ad.zero_grad(x)
    >>> ad.grads(x)
    [None]
    """
    for tensor in distinct(take_apart(composite, "zero_grad")[0]):
        gradient = tensor.grad
        if gradient is None:
            continue
        if set_to_none:
            tensor.grad = None
            continue
        if gradient.grad_fn is not None:
            gradient.detach_()
        else:
            gradient.requires_grad_(False)
        gradient.zero_()


def detach(input: T) -> T:
    """The composite (or tensor) without a history, sharing memory with it.

    Examples
    --------
    >>> import adjoint as ad
    >>> x = ad.ones(2, requires_grad=True)
    >>> ad.detach((x, x * 2))
    (tensor([1., 1.]), tensor([2., 2.]))
    """
    if isinstance(input, Tensor):
        return input.detach()  # type: ignore[return-value]
    tensors, structure = take_apart(input, "detach")
    result: T = put_together(structure, apply(Tensor.detach, tensors))
    return result


def to(composite: T, *args: Any, **kwargs: Any) -> T:
    """Convert a composite as `Tensor.to` does a tensor: ``to(state, ad.float64)``.

    As for modules, a dtype is for floating-point and complex tensors only; integer and boolean
    tensors keep theirs.

    Examples
    --------
    >>> import adjoint as ad
    >>> ad.to({"x": ad.ones(1), "n": ad.tensor(3)}, ad.float64)
    {'x': tensor([1.], dtype=torch.float64), 'n': tensor(3)}
    """
    if isinstance(composite, Tensor):
        return composite.to(*args, **kwargs)  # type: ignore[return-value]
    tensors, structure = take_apart(composite, "to")
    example = _core.empty(0).to(*args, **kwargs)  # which dtype, if any
    if not can_have_gradient(example):
        raise TypeError(
            "to(): a composite is converted to floating point or complex dtypes only, got "
            f"{example.dtype}; use map(lambda t: t.to({example.dtype}), composite)"
        )

    def convert(tensor: Tensor) -> Tensor:
        return tensor.to(*args, **kwargs) if can_have_gradient(tensor) else tensor

    result: T = put_together(structure, apply(convert, tensors))
    return result


def map(f: Callable[..., Any], composite: T, *others: Any) -> T:
    """``f`` of each tensor of a composite, in its structure.

    Parameters
    ----------
    f
        Called with a tensor of ``composite`` and what stands in its place in each of ``others``.
    composite
        A structure of tensors. What is not a tensor is carried along.
    others
        Composites built like the first; in the places of its tensors anything may stand (None
        for a missing gradient, a number), elsewhere they must hold the same values.

    Returns
    -------
    composite
        The results in the structure of the first. A tensor that stands in several places is
        mapped once, so that it still is one tensor afterwards.

    Raises
    ------
    ValueError
        The structures differ; the message names the first place.

    Examples
    --------
    >>> import adjoint as ad
    >>> params = {"w": ad.ones(2), "b": ad.zeros(1)}
    >>> steps = {"w": ad.full((2,), 0.5), "b": ad.ones(1)}
    >>> ad.map(lambda p, s: p - s, params, steps)
    {'w': tensor([0.5000, 0.5000]), 'b': tensor([-1.])}
    """
    tensors, structure = take_apart(composite, "map")
    columns = [leaves_of_same(structure, other, "map") for other in others]
    result: T = put_together(structure, apply(f, tensors, *columns))
    return result


def numel(input: Any) -> int:
    """The number of elements; a tensor that stands in several places counts once."""
    return sum(t.numel() for t in distinct(take_apart(input, "numel")[0]))


def nbytes(composite: Any) -> int:
    """The bytes that the elements take; a tensor that stands in several places counts once.

    Examples
    --------
    >>> import adjoint as ad
    >>> ad.nbytes([ad.ones(3), {"x": ad.ones(2, dtype=ad.float64)}])
    28
    """
    return sum(t.nbytes for t in distinct(take_apart(composite, "nbytes")[0]))
