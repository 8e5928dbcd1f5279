"""`compile`: which calls are recorded, which are replayed, and what is said of the others.

Calls are sorted by kind: how the arguments are nested, what is no tensor among them, whether
gradients are recorded. Of each kind there are a few recordings, which differ in the shapes, dtypes
and memory order of tensors and in the Python values that were found (`_guards`); a call takes the
first that fits. Read next: _recorded.py.
"""

from __future__ import annotations

import functools
import threading
import warnings
from collections.abc import Callable, Sequence
from typing import Any

from adjoint import _core, _tree
from adjoint._core import Tensor

from ._controls import compiled
from ._recorded import Recorded, Refused, record
from ._watch import Watch

__all__ = ["CompileError", "CompileWarning", "Compiled", "compile"]

_TENSOR_ONLY = {Tensor}
# So many recordings of one kind of call; afterwards it runs eagerly.
LIMIT = 16


class CompileWarning(UserWarning):
    """A compiled function runs eagerly, for the reason that is given."""


class CompileError(RuntimeError):
    """The same for ``fullgraph=True``."""


class Compiled:
    """A function that is recorded once and replayed.

    Attributes
    ----------
    programs
        The recordings there are.
    """

    def __init__(self, function: Callable[..., Any], fullgraph: bool = False) -> None:
        functools.update_wrapper(self, function, updated=())
        self.function = function
        self.fullgraph = fullgraph
        self._kinds: dict[Any, list[Recorded]] = {}
        self._eager: dict[Any, Refused] = {}
        self._recording = threading.Lock()
        compiled.add(self)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function, by a program where there is one."""
        if _core._is_unusual_mode():
            return self.function(*args, **kwargs)
        mode = _core.is_grad_enabled(), _core.get_default_dtype()
        if not kwargs and set(map(type, args)) == _TENSOR_ONLY:  # as most calls are
            tensors: list[Tensor] = list(args)
            kind: Any = (len(args), mode)
        else:
            leaves, spec = _tree.flatten((args, kwargs))
            tensors = [leaf for leaf in leaves if isinstance(leaf, Tensor)]
            values = tuple(None if isinstance(leaf, Tensor) else _key(leaf) for leaf in leaves)
            kind = (spec, mode, values)
        recordings = self._kinds.get(kind)
        if recordings is not None:
            for one in recordings:
                if one.fits(tensors):
                    return one(tensors)
        if kind in self._eager:
            return self.function(*args, **kwargs)
        return self._record(kind, (args, kwargs), tensors)

    def _record(
        self,
        kind: Any,
        arguments: tuple[tuple[Any, ...], dict[str, Any]],
        tensors: list[Tensor],
    ) -> Any:
        """Run the function, and take down what it does."""
        function = self.function
        leaves, spec = _tree.flatten(arguments)

        def rebuild(others: Sequence[Tensor]) -> Any:
            given = iter(others)
            args, kwargs = _tree.unflatten(
                spec, [next(given) if isinstance(x, Tensor) else x for x in shown]
            )
            return function(*args, **kwargs)

        # Without the tensors of this call, which are none of the recording's business.
        stand_in = _core.empty(0)
        shown = [stand_in if isinstance(x, Tensor) else x for x in leaves]
        there = self._kinds.setdefault(kind, [])
        if len(there) >= LIMIT:
            why = there[-1].misfit(tensors)
            self._refuse(kind, Refused(f"it was recorded {LIMIT} times, the last time: {why}", ""))
            return function(*arguments[0], **arguments[1])
        if not self._recording.acquire(blocking=False):  # recursion, or another thread
            return function(*arguments[0], **arguments[1])
        try:
            recording = _core._Recording(tensors)
            with Watch(function, arguments) as watch:
                recording.start()
                try:
                    result = function(*arguments[0], **arguments[1])
                finally:
                    recording.stop()
            try:
                if watch.refusals and recording.refused() is None:
                    first = watch.refusals[0]
                    raise Refused(first.reason, first.where)
                there.append(record(recording, result, tensors, rebuild, watch.guards()))
            except Refused as refused:
                self._refuse(kind, refused)
            return result
        finally:
            self._recording.release()

    def _refuse(self, kind: Any, refused: Refused) -> None:
        self._eager[kind] = refused
        name = getattr(self.function, "__qualname__", repr(self.function))
        message = f"{name} runs eagerly: {refused.reason}"
        if refused.where:
            message += f"\n  at  {refused.where}"
        if self.fullgraph:
            raise CompileError(message)
        warnings.warn(message, CompileWarning, stacklevel=4)

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        """A compiled method: the object is one of the arguments."""
        return self if instance is None else functools.partial(self, instance)

    def __repr__(self) -> str:
        """Show the function."""
        return f"<compiled {self.function!r}>"

    @property
    def programs(self) -> list[Recorded]:
        """The recordings there are."""
        return [one for kind in self._kinds.values() for one in kind]

    def forget(self) -> None:
        """Forget all programs."""
        self._kinds.clear()
        self._eager.clear()


def _key(leaf: Any) -> Any:
    """What stands for an argument that is no tensor: its value, or the object itself."""
    kind = type(leaf)
    if kind in (bool, int, str, bytes, type(None)):
        return kind, leaf
    if kind is float:
        return kind, leaf.hex()
    if kind is complex:
        return kind, leaf.real.hex(), leaf.imag.hex()
    return kind, _Same(leaf)


class _Same:
    """An object, equal to itself alone."""

    __slots__ = ("object",)

    def __init__(self, thing: Any) -> None:
        self.object = thing

    def __hash__(self) -> int:
        return id(self.object)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and other.object is self.object


def compile(
    model: Callable[..., Any] | None = None,
    *,
    fullgraph: bool = False,
    dynamic: bool | None = None,
    backend: Any = "adjoint",
    mode: str | None = None,
    options: dict[str, Any] | None = None,
    disable: bool = False,
) -> Any:
    """Record a function once, and run it natively from then on.

    Parameters
    ----------
    model
        A function, a method or a module; left away, a decorator is returned.
    fullgraph
        Raise `CompileError` where the function would run eagerly.
    dynamic, backend, mode, options
        There for PyTorch's signature. Another shape is another recording; there is one backend.
    disable
        Return the function as it is.

    Returns
    -------
    callable
        The same function: the same results to the last bit, gradients included.
    """
    if model is None:
        return lambda f: compile(f, fullgraph=fullgraph, disable=disable)
    if not callable(model):
        raise TypeError(f"compile() expects a function or a module, not {type(model).__name__}")
    if disable:
        return model
    if isinstance(model, type):
        raise TypeError(f"compile() expects a function or a module, not the class {model!r}")
    from adjoint import nn

    if isinstance(model, nn.Module):
        from ._module import OptimizedModule

        return OptimizedModule(model, fullgraph)
    return Compiled(model, fullgraph)
