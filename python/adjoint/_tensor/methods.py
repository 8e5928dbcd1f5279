"""Methods of ``Tensor`` that are written in Python; `adjoint._tensor` says where the others are."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

from adjoint import _core
from adjoint._core import Tensor
from adjoint._tensor.device import device
from adjoint.autograd import _register_hooks as _hooks
from adjoint.utils.hooks import RemovableHandle

_CPU = device("cpu")


def register_hook(self: Tensor, hook: Callable[[Tensor], Tensor | None]) -> RemovableHandle:
    """Call ``hook(grad)`` when the gradient of this tensor is complete.

    Parameters
    ----------
    hook
        May return another gradient of the same shape and dtype; None leaves it as it is.

    Returns
    -------
    RemovableHandle
        Its ``remove()`` takes the hook away, and so does the end of ``with handle:``.

    Raises
    ------
    RuntimeError
        The tensor does not require grad.

    Notes
    -----
    The hook is called with None where a backward pass comes by without a gradient: for other
    outputs of a node that got one, and behind a custom function that returned None.

    The hook belongs to the value: after an in-place change, it still sees the gradient of what the
    tensor was when the hook was registered.

    Examples
    --------
    >>> import adjoint as ad
    >>> x = ad.tensor(3.0, requires_grad=True)
    >>> handle = x.register_hook(lambda grad: grad * 10)
    >>> (x * 2).backward()
    >>> x.grad
    tensor(20.)
    """
    return _hooks.add(_core._tensor_hooks(self), hook)


def register_post_accumulate_grad_hook(
    self: Tensor, hook: Callable[[Tensor], None]
) -> RemovableHandle:
    """Call ``hook(leaf)`` after backward has added into ``leaf.grad``.

    Parameters
    ----------
    hook
        Returns None. It may use up the gradient: step an optimizer and set ``leaf.grad = None``.

    Returns
    -------
    RemovableHandle
        Its ``remove()`` takes the hook away.

    Raises
    ------
    RuntimeError
        The tensor is not a leaf, or does not require grad.

    Examples
    --------
    >>> import adjoint as ad
    >>> x = ad.tensor(3.0, requires_grad=True)
    >>> handle = x.register_post_accumulate_grad_hook(lambda leaf: print(leaf.grad))
    >>> (x * 2).backward()
    tensor(2.)
    """
    return _hooks.add(_core._post_accumulate_hooks(self), hook)


def new(self: Tensor, *args: Any, device: Any = None) -> Tensor:
    """A tensor of the same dtype: of a size, or from data (``new_empty`` and ``new_tensor``)."""
    from adjoint._tensor import legacy as _legacy

    return _legacy.of_dtype(self.dtype)(*args, device=device)


def is_conj(self: Tensor) -> bool:
    """False: `conj` computes its result at once, so no tensor waits to be conjugated."""
    return False


def is_neg(self: Tensor) -> bool:
    """False: negations are computed at once, so no tensor waits to be negated."""
    return False


def is_nonzero(self: Tensor) -> bool:
    """Whether the only element differs from zero; a RuntimeError if there are more, or none."""
    return bool(self)


def is_signed(self: Tensor) -> bool:
    """Whether the dtype has negative numbers."""
    return self.dtype not in (_core.bool, _core.uint8)


def __rdiv__(self: Tensor, other: Any) -> Tensor:
    """``other / self``, under the name that Python 2 had for it."""
    result: Tensor = self.reciprocal() * other
    return result


def _later(name: str, module: str, doc: str) -> Callable[..., Any]:
    """A method that is a function of a module loaded at its first use."""

    def method(self: Tensor, *args: Any, **kwargs: Any) -> Any:
        function = getattr(importlib.import_module(f"adjoint._tensor.{module}"), name)
        return function(self, *args, **kwargs)

    method.__name__ = method.__qualname__ = name
    method.__doc__ = doc
    return method


def _unsafe(name: str) -> Callable[..., Any]:
    doc = f"`{name.removeprefix('unsafe_')}` into tensors that may be changed in place."
    return _later(name, "view_copies", doc)


def lu(self: Tensor, pivot: bool = True, get_infos: bool = False) -> tuple[Tensor, ...]:
    """Return LU factors in one matrix and pivots; see `adjoint.lu`."""
    from adjoint.linalg._old_names import lu as factor

    return factor(self, pivot, get_infos)


METHODS: dict[str, Any] = {
    "__rdiv__": __rdiv__,
    "narrow_copy": _later("narrow_copy", "view_copies", "`narrow` as a copy instead of a view."),
    "nonzero_static": _later(
        "nonzero_static", "functions", "The first `size` positions that are not zero, as rows."
    ),
    "unsafe_chunk": _unsafe("unsafe_chunk"),
    "unsafe_split": _unsafe("unsafe_split"),
    "unsafe_split_with_sizes": _unsafe("unsafe_split_with_sizes"),
    "is_conj": is_conj,
    "is_neg": is_neg,
    "is_nonzero": is_nonzero,
    "is_signed": is_signed,
    "lu": lu,
    "new": new,
    "register_hook": register_hook,
    "register_post_accumulate_grad_hook": register_post_accumulate_grad_hook,
    "device": property(lambda self: _CPU, doc="The CPU: adjoint computes nowhere else."),
}
