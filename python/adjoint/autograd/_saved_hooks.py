"""What happens to values that are saved for backward: hooks, saving on the CPU, allowed changes.

The mechanism is native (``src/dispatch/saved.h``); ``adjoint.autograd.graph`` exports these names.
"""

from __future__ import annotations

import contextlib
import threading
import weakref
from collections import defaultdict
from collections.abc import Callable, Generator
from typing import Any

from adjoint import _core
from adjoint._core import Tensor


class saved_tensors_hooks:
    """Pass every tensor that is saved for backward through a pair of functions.

    Inside the context, ``pack_hook`` is called with each tensor an operation saves, and what it
    returns (anything) is kept instead. When backward needs the value, ``unpack_hook`` is called
    with that and must return a tensor with the original's content.

    Parameters
    ----------
    pack_hook
        ``pack_hook(tensor) -> anything``; runs without recording and must not change its argument.
    unpack_hook
        ``unpack_hook(packed) -> Tensor``.

    Notes
    -----
    Contexts nest: the innermost pair is used. They hold for the thread that entered them. The
    version check of saved values does not apply to packed ones: whoever packs answers for them.

    Examples
    --------
    >>> import adjoint as ad
    >>> x = ad.tensor([1.0, 2.0], requires_grad=True)
    >>> kept = []
    >>> def pack(t):
    ...     kept.append(t.tolist())
    ...     return len(kept) - 1
    >>> with ad.autograd.graph.saved_tensors_hooks(pack, lambda i: ad.tensor(kept[i])):
    ...     y = x.exp().sum()
    >>> y.backward()
    >>> x.grad
    tensor([2.7183, 7.3891])
    """

    def __init__(
        self, pack_hook: Callable[[Tensor], Any], unpack_hook: Callable[[Any], Tensor]
    ) -> None:
        self.pack_hook = pack_hook
        self.unpack_hook = unpack_hook

    def __enter__(self) -> None:
        _core._push_saved_tensors_hooks(self.pack_hook, self.unpack_hook)

    def __exit__(self, *args: object) -> None:
        _core._pop_saved_tensors_hooks()


class save_on_cpu(saved_tensors_hooks):
    """Keep copies of saved tensors in host memory.

    All memory is host memory here, so that the effect is a copy: values saved inside may be changed
    in place afterwards.

    Parameters
    ----------
    pin_memory
        Accepted for compatibility.
    device_type
        Accepted for compatibility.
    """

    def __init__(self, pin_memory: bool = False, device_type: str = "cuda") -> None:
        super().__init__(_copied, lambda packed: packed)


def _copied(tensor: Tensor) -> Tensor:
    from .forward_ad import unpack_dual

    if unpack_dual(tensor).tangent is not None:
        raise RuntimeError(
            "save_on_cpu: a value saved for backward carries a tangent of forward mode (as in "
            "func.hessian or func.hvp), which its copy by these saved tensor hooks would lose.\n"
            "  fix: use func.jacrev(func.jacrev(f)), or leave save_on_cpu out"
        )
    return tensor.detach().clone()


class _DisableHooks(contextlib.ContextDecorator):
    def __init__(self, error_message: str) -> None:
        self.error_message = error_message
        self._before: list[str | None] = []

    def __enter__(self) -> None:
        self._before.append(_core._disable_saved_tensors_hooks(self.error_message))

    def __exit__(self, *args: object) -> None:
        _core._disable_saved_tensors_hooks(self._before.pop())


def disable_saved_tensors_hooks(error_message: str) -> _DisableHooks:
    """Refuse `saved_tensors_hooks` in this context, with a message.

    For code that would be wrong if values saved in it were packed.

    Parameters
    ----------
    error_message
        What the RuntimeError says.

    Examples
    --------
    >>> import adjoint as ad
    >>> with ad.autograd.graph.disable_saved_tensors_hooks("not here"):
    ...     with ad.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t):
    ...         pass
    Traceback (most recent call last):
        ...
    RuntimeError: not here
    """
    return _DisableHooks(error_message)


# --- changes of saved values ----------------------------------------------------------------------


class _Handle:
    """What a saved tensor is packed as: the node holds it, the context finds the tensor by it."""

    __slots__ = ("__weakref__",)


_Id = tuple[int, ...]


def _memory_id(tensor: Tensor) -> int:
    return int(tensor.untyped_storage().data_ptr())


def _tensor_id(tensor: Tensor) -> _Id:
    bits = 2 * tensor.is_conj() + tensor.is_neg()
    return (tensor.data_ptr(), int(tensor._version), bits, *tensor.shape, -1, *tensor.stride())


class _AllowMutationOnSavedContext:
    """Which tensors are saved, and copies of those that were changed since."""

    def __init__(self) -> None:
        self.cloned: weakref.WeakKeyDictionary[_Handle, Tensor] = weakref.WeakKeyDictionary()
        self.original: weakref.WeakKeyDictionary[_Handle, Tensor] = weakref.WeakKeyDictionary()
        self.tid_to_weakhandle: weakref.WeakValueDictionary[_Id, _Handle] = (
            weakref.WeakValueDictionary()
        )
        self.sid_to_tid: dict[int, set[_Id]] = defaultdict(set)
        self.active = True

    def clear(self) -> None:
        """Forget everything: the graphs recorded inside cannot be run any more."""
        self.cloned.clear()
        self.original.clear()
        self.tid_to_weakhandle.clear()
        self.sid_to_tid.clear()
        self.active = False

    def _pack(self, tensor: Tensor) -> _Handle:
        key = _tensor_id(tensor)
        self.sid_to_tid[_memory_id(tensor)].add(key)
        handle = self.tid_to_weakhandle.get(key)
        if handle is None:
            handle = _Handle()
            self.tid_to_weakhandle[key] = handle
            self.original[handle] = tensor
        return handle

    def _unpack(self, handle: _Handle) -> Tensor:
        found = self.cloned.get(handle)
        if found is None:
            found = self.original.get(handle)
        if not self.active or found is None:
            raise AssertionError(
                "Trying to backward outside of the 'allow_mutation_on_saved_tensors' context"
                " in which the graph was originally recorded."
            )
        return found

    def _before_change(self, tensor: Tensor) -> None:
        for key in self.sid_to_tid.pop(_memory_id(tensor), ()):
            handle = self.tid_to_weakhandle.get(key)
            if handle is not None and handle not in self.cloned:
                with _core_no_grad():
                    self.cloned[handle] = self.original[handle].detach().clone()
                del self.original[handle]


@contextlib.contextmanager
def _core_no_grad() -> Generator[None]:
    before = _core.is_grad_enabled()
    _core._set_grad_enabled(False)
    try:
        yield
    finally:
        _core._set_grad_enabled(before)


_threads = threading.local()


@contextlib.contextmanager
def allow_mutation_on_saved_tensors() -> Generator[_AllowMutationOnSavedContext]:
    """Allow values saved for backward to be changed in place.

    A saved tensor is copied just before its first change, so that backward sees what was saved.
    Backward has to run inside the same context.

    Returns
    -------
    context manager
        Yields an object that holds the copies (``cloned``).

    Examples
    --------
    >>> import adjoint as ad
    >>> with ad.autograd.graph.allow_mutation_on_saved_tensors():
    ...     a = ad.ones(2, requires_grad=True)
    ...     b = a.clone()
    ...     out = (b**2).sum()
    ...     b.sin_()
    ...     out.backward()
    tensor([0.8415, 0.8415], grad_fn=<SinBackward0>)
    >>> a.grad
    tensor([2., 2.])
    """
    if getattr(_threads, "changes_allowed", False):
        raise RuntimeError("allow_mutation_on_saved_tensors contexts cannot be nested")
    context = _AllowMutationOnSavedContext()
    with saved_tensors_hooks(context._pack, context._unpack):
        _threads.changes_allowed = True
        _core._watch_changes(context._before_change)
        try:
            yield context
        finally:
            _core._watch_changes(None)
            _threads.changes_allowed = False
            context.clear()
