"""Methods of ``Tensor`` that are written in Python; `adjoint._tensor` says where the others are."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any, cast

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


def conj_view(self: Tensor) -> Tensor:
    """`conj()`, under PyTorch's own name for the view."""
    return self.conj()


def is_nonzero(self: Tensor) -> bool:
    """Whether the only element differs from zero; a RuntimeError if there are more, or none."""
    return bool(self)


def is_signed(self: Tensor) -> bool:
    """Whether the dtype has negative numbers."""
    return self.dtype.is_signed


def __rdiv__(self: Tensor, other: Any) -> Tensor:
    """``other / self``, under the name that Python 2 had for it."""
    result: Tensor = self.reciprocal() * other
    return result


def module_load(self: Tensor, other: Tensor, assign: bool = False) -> Tensor:
    """What `Module.load_state_dict` swaps this tensor with, if it is told to swap.

    Parameters
    ----------
    other : Tensor
        The value in the state dict.
    assign : bool, default False
        Whether ``other`` itself is to be used (detached), not a copy of its values in this tensor.
    """
    asked = [t for t in (other, self) if _asks_its_class(t)]
    for given in sorted(asked, key=lambda t: -len(type(t).__mro__)):
        types = tuple(type(t) for t in asked)
        cls: Any = type(given)
        result: Any = cls.__torch_function__(
            Tensor.module_load, types, (self, other), {"assign": assign}
        )
        if result is not NotImplemented:
            return cast(Tensor, result)
    if assign:
        return other.detach()
    return self.copy_(other).detach()


def _asks_its_class(tensor: Any) -> bool:
    """Whether the class of a tensor has a say in what functions do with it."""
    plain = _core._plain_tensors(True)  # this tells what it was, too
    _core._plain_tensors(plain)
    handler = getattr(type(tensor), "__torch_function__", _core._disabled_torch_function_impl)
    return (
        not plain
        and type(tensor) is not Tensor
        and handler is not _core._disabled_torch_function_impl
    )


def _later(name: str, module: str, doc: str) -> Callable[..., Any]:
    """A method that is a function of a module loaded at its first use."""

    def method(self: Tensor, *args: Any, **kwargs: Any) -> Any:
        function = getattr(importlib.import_module(f"adjoint.{module}"), name)
        return function(self, *args, **kwargs)

    method.__name__ = method.__qualname__ = name
    method.__doc__ = doc
    return method


def __array_namespace__(self: Tensor, /, *, api_version: str | None = None) -> Any:
    """Give the module whose functions take this tensor: adjoint."""
    from adjoint._array_api import array_namespace

    return array_namespace(self, api_version=api_version)


def to_device(self: Tensor, device: Any, /, *, stream: Any = None) -> Tensor:
    """Give the tensor on a device: itself, since there is only the CPU."""
    if stream is not None:
        raise ValueError(f"to_device: the CPU has no streams, got {stream!r}")
    return self.to(device)


def _unsafe(name: str) -> Callable[..., Any]:
    doc = f"`{name.removeprefix('unsafe_')}` into tensors that may be changed in place."
    return _later(name, "_tensor.view_copies", doc)


METHODS: dict[str, Any] = {
    "__array_namespace__": __array_namespace__,
    "__rdiv__": __rdiv__,
    "_repr_html_": _later(
        "tensor_html", "notebook", "What a notebook shows: a brief and a heat map."
    ),
    "histogram": _later("histogram", "_tensor.histograms", "See `adjoint.histogram`."),
    "narrow_copy": _later(
        "narrow_copy", "_tensor.view_copies", "`narrow` as a copy instead of a view."
    ),
    "nonzero_static": _later(
        "nonzero_static",
        "_tensor.functions",
        "The first `size` positions that are not zero, as rows.",
    ),
    "unsafe_chunk": _unsafe("unsafe_chunk"),
    "unsafe_split": _unsafe("unsafe_split"),
    "unsafe_split_with_sizes": _unsafe("unsafe_split_with_sizes"),
    "_conj": conj_view,
    "is_nonzero": is_nonzero,
    "is_signed": is_signed,
    "lu": _later("lu", "linalg._old_names", "See `adjoint.lu`."),
    "module_load": module_load,
    "new": new,
    "register_hook": register_hook,
    "register_post_accumulate_grad_hook": register_post_accumulate_grad_hook,
    "to_device": to_device,
    "device": property(lambda self: _CPU, doc="The CPU: adjoint computes nowhere else."),
}
