"""What one says about compiling from inside a function, or to all compiled functions."""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable
from typing import Any, TypeVar

from adjoint import _core
from adjoint._recording import runs_again

__all__ = ["compiled", "disable", "is_compiling", "is_dynamo_compiling", "is_exporting", "reset"]

F = TypeVar("F", bound=Callable[..., Any])

compiled: weakref.WeakSet[Any] = weakref.WeakSet()


def is_compiling() -> bool:
    """Whether the calling code runs to be recorded.

    A recorded function runs once for each kind of arguments; what stands under
    ``if not is_compiling():`` is left out of the program.

    Returns
    -------
    bool
        True during the call that is recorded, and where a derivative makes a compiled function
        run once more. A replay runs no Python that could ask.

    Examples
    --------
    >>> import adjoint as ad
    >>> @ad.compile
    ... def f(x):
    ...     if not ad.compiler.is_compiling():
    ...         print("called with", x)
    ...     return 2 * x
    >>> f(ad.tensor(1.0)), f.function(ad.tensor(1.0))
    called with tensor(1.)
    (tensor(2.), tensor(2.))
    """
    return _core._is_recording() or runs_again.get()


is_dynamo_compiling = is_compiling


def is_exporting() -> bool:
    """Whether a program is made for export: never, adjoint exports none."""
    return False


def disable(fn: F | None = None, recursive: bool = True, *, reason: str | None = None) -> Any:
    """Keep a function out of programs: one that calls it runs eagerly, and says so.

    PyTorch would run the rest of the caller compiled. Here a program is all of a call or nothing,
    so the whole call is eager; compile the parts around it instead.

    Parameters
    ----------
    fn : callable, optional
        The function; if omitted, a decorator is returned.
    recursive : bool
        There for PyTorch's signature: what the function calls is left out as well.
    reason : str, optional
        What the report gives as the reason.

    Returns
    -------
    callable
        The function.

    Examples
    --------
    >>> import adjoint as ad
    >>> @ad.compiler.disable(reason="it is to be looked at in a debugger")
    ... def inspect(x):
    ...     return x
    >>> ad.compile(lambda x: inspect(2 * x), fullgraph=True)(ad.ones(1))
    Traceback (most recent call last):
    adjoint.compiler...CompileError: <lambda> runs eagerly: it is to be looked at in a debugger...
    """
    if fn is None:
        return lambda f: disable(f, recursive, reason=reason)
    why = reason or f"`{getattr(fn, '__qualname__', fn)}` is kept out of programs by disable()"

    @functools.wraps(fn)
    def outside(*args: Any, **kwargs: Any) -> Any:
        _core._refuse_recording(why)
        return fn(*args, **kwargs)

    return outside


def allow_in_graph(fn: F) -> F:
    """Return the function itself: recording follows calls through all functions."""
    return fn


def assume_constant_result(fn: F) -> F:
    """Return the function itself: it is called when the program is recorded."""
    return fn


def substitute_in_graph(original_fn: Any, **_: Any) -> Callable[[F], F]:
    """Return a decorator that changes nothing: recording runs the original."""
    return lambda f: f


def nested_compile_region(fn: Any = None, **_: Any) -> Any:
    """Return the function itself, or a decorator that does."""
    return allow_in_graph if fn is None else fn


def wrap_numpy(fn: Callable[..., Any]) -> Callable[..., Any]:
    """A function of tensors from one of NumPy's arrays; its results are tensors without history."""

    @functools.wraps(fn)
    def with_arrays(*args: Any, **kwargs: Any) -> Any:
        from adjoint._tensor.creation import as_tensor

        found = fn(*map(_as_array, args), **{key: _as_array(v) for key, v in kwargs.items()})
        if isinstance(found, tuple | list):
            return type(found)(as_tensor(one) for one in found)
        return as_tensor(found)

    return with_arrays


def _as_array(value: Any) -> Any:
    return value.detach().numpy() if isinstance(value, _core.Tensor) else value


def list_backends(exclude_tags: Any = ("debug", "experimental")) -> list[str]:
    """The names of ways to compile: adjoint has one, and takes any name."""
    return ["adjoint"]


def cudagraph_mark_step_begin() -> None:
    """Do nothing: there are no graphs of a GPU."""


class set_stance:
    """How compiled functions run, for a ``with`` block, a function or from now on.

    PyTorch's stances choose when to record anew. They are accepted, and change nothing here: what a
    function computes is the same.
    """

    _STANCES = (
        "default", "force_eager", "eager_on_recompile", "fail_on_recompile", "eager_then_compile",
        "aot_eager_then_compile",
    )  # fmt: skip

    def __init__(self, stance: str = "default", **_: Any) -> None:
        if stance not in self._STANCES:
            raise RuntimeError(f"invalid torch.compile stance {stance!r}")

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        pass

    def __call__(self, fn: F) -> F:
        return fn


def reset() -> None:
    """Forget all programs: every compiled function is recorded anew.

    Examples
    --------
    >>> import adjoint as ad
    >>> f = ad.compile(lambda x: 2 * x)
    >>> _ = f(ad.ones(1))
    >>> ad.compiler.reset()
    >>> f.programs
    []
    """
    for one in list(compiled):
        one.forget()
