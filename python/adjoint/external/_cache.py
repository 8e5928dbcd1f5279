"""Results of expensive evaluations kept on disk, by content: joblib's `Memory` does the keeping.

The key is what the function is (its name, its source, what it closes over; a program's files) and
what it is given. Read next: _evaluate.py.
"""

from __future__ import annotations

import functools
import hashlib
import inspect
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from adjoint import _tree
from adjoint._core import Tensor

__all__ = ["Cached", "content_of_file", "identity_of"]


def _memory(folder: str) -> Any:
    try:
        import joblib
    except ImportError:
        raise ImportError(
            "cache= keeps results with joblib, which is not installed.\n"
            "  fix: pip install 'adjoint[cache]', or pip install joblib"
        ) from None
    return joblib.Memory(folder, verbose=0)


def _result(identity: str, given: Any, run: Callable[[], Any]) -> Any:
    """What joblib keeps: it looks at the first two arguments, and calls the third if it has to."""
    return run()


class Cached:
    """A function whose results are kept in a folder."""

    def __init__(self, function: Callable[..., Any], folder: str | os.PathLike[str]) -> None:
        self.function, self.folder = function, os.path.abspath(os.fspath(folder))
        self.identity = identity_of(function)
        self._kept: Any = None
        self.kept()  # says at once if joblib is missing

    def kept(self) -> Any:
        """The function of joblib's, made where it is used: workers make their own."""
        if self._kept is None:
            self._kept = _memory(self.folder).cache(_result, ignore=["run"])
        return self._kept

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_kept": None}

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The result that is kept for these arguments; evaluated if there is none."""
        return self.kept()(
            self.identity, _plain((args, kwargs)), lambda: self.function(*args, **kwargs)
        )


def _plain(tree: Any) -> Any:
    """Arguments as something that joblib can hash: tensors as arrays, with their structure."""
    leaves, spec = _tree.flatten(tree)
    arrays = [
        np.ascontiguousarray(leaf.detach().numpy()) if isinstance(leaf, Tensor) else leaf
        for leaf in leaves
    ]
    return [str(spec), *arrays]


def identity_of(function: Any) -> str:
    """What a function is, as far as that can be read off it."""
    import joblib

    if hasattr(function, "identity"):  # a Command knows what it is
        return str(function.identity())
    if isinstance(function, functools.partial):
        rest = joblib.hash((function.args, function.keywords))
        return f"{identity_of(function.func)} {rest}"
    if inspect.ismethod(function):
        return f"{identity_of(function.__func__)} {_hashed(function.__self__, function)}"
    if not inspect.isfunction(function):
        if isinstance(function, (np.ufunc, type(len))):
            return f"{getattr(function, '__module__', '')}.{function.__name__}"
        return f"{type(function).__qualname__} {_hashed(function, function)}"
    try:
        source = inspect.getsource(function)
    except (OSError, TypeError):
        source = repr((function.__code__.co_code, function.__code__.co_consts))
    cells = [cell.cell_contents for cell in function.__closure__ or ()]
    inside = [_hashed(value, function) for value in (*cells, function.__defaults__)]
    return f"{function.__module__}.{function.__qualname__} {source} {inside}"


def _hashed(value: Any, function: Any) -> str:
    import joblib

    if inspect.isfunction(value):
        return identity_of(value)
    if inspect.ismodule(value):
        return str(value.__name__)
    try:
        return str(joblib.hash(value))
    except Exception as error:
        raise ValueError(
            f"cache=: {getattr(function, '__name__', function)!r} holds a "
            f"{type(value).__name__}, whose content cannot be told ({error}).\n"
            "  fix: pass it as an argument (static= if it is not to be looked into), or make it in "
            "the function"
        ) from error


def content_of_file(path: str | os.PathLike[str]) -> str:
    """A fingerprint of what a file holds."""
    return hashlib.blake2b(Path(path).read_bytes(), digest_size=16).hexdigest()
