"""`swap_tensors`: two tensors exchange all they hold and stay the objects they are."""

from __future__ import annotations

import weakref
from typing import Any

from adjoint import Tensor, _core
from adjoint._C import DisableTorchFunctionSubclass

__all__ = ["swap_tensors"]


def swap_tensors(t1: Tensor, t2: Tensor) -> None:
    """Exchange memory, shape, dtype, gradient, class and attributes of two tensors.

    Whoever holds one of the objects sees the other's contents afterwards.

    Parameters
    ----------
    t1, t2 : Tensor
        Leaves: results of a recorded operation have a place in a graph that cannot be exchanged.

    Raises
    ------
    RuntimeError
        One of them is not a leaf, or a weak reference to it exists.

    Examples
    --------
    >>> import adjoint as ad
    >>> a, b = ad.zeros(2), ad.nn.Parameter(ad.ones(3))
    >>> ad.utils.swap_tensors(a, b)
    >>> a
    Parameter containing:
    tensor([1., 1., 1.], requires_grad=True)
    """
    if t1 is t2:
        return
    for name, tensor in (("t1", t1), ("t2", t2)):
        if not isinstance(tensor, Tensor):
            raise TypeError(f"swap_tensors: {name} is not a tensor, but {type(tensor).__name__}")
        if weakref.getweakrefs(tensor):
            raise RuntimeError(f"Cannot swap {name} because it has weakref associated with it")
        if tensor.grad_fn is not None:
            raise RuntimeError(
                f"Cannot swap {name} because it is a result of {tensor.grad_fn.name()}: the graph "
                "knows it; fix: swap what it was made from, or detach() it"
            )
    classes = type(t1), type(t2)
    contents = _taken(t1), _taken(t2)
    for tensor, cls, content in zip((t1, t2), reversed(classes), reversed(contents), strict=True):
        _give(tensor, cls, content)


def _taken(tensor: Any) -> tuple[Any, ...]:
    """The contents of a tensor, which is left without a gradient and attributes."""
    with DisableTorchFunctionSubclass():
        grad, needs = tensor.grad, tensor.requires_grad
        tensor.grad = None
        tensor.requires_grad_(False)
        data = tensor.detach()
    attributes = dict(tensor.__dict__)
    tensor.__dict__.clear()
    return data, grad, needs, attributes


def _give(tensor: Any, cls: type, content: tuple[Any, ...]) -> None:
    data, grad, needs, attributes = content
    with DisableTorchFunctionSubclass():
        tensor.data = data
        tensor.__class__ = cls
        _core._refresh_class(tensor)
        tensor.requires_grad_(needs)
        tensor.grad = grad
    tensor.__dict__.update(attributes)
