"""Results of expensive evaluations kept on disk, by content: joblib's `Memory` does the keeping.

The key is what the function is (its name, its source and code, what it closes over and what its
globals are, functions that it calls and modules of the user's among them; a program's files) and
what it is given. Read next: _evaluate.py.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import inspect
import os
import sys
from collections.abc import Callable
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any

import numpy as np

from adjoint import _tree
from adjoint._core import Tensor

__all__ = ["Cached", "content_of_file", "identity_of"]

# What a function that has a name for it does not change, as far as names of methods tell.
_LASTING = (bool, int, float, complex, str, bytes, tuple, frozenset, np.ndarray, np.generic, Tensor)
_LASTING += (FunctionType, type, ModuleType, type(None))  # type: ignore[assignment]


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
    """A function whose results are kept in a folder.

    What it reads besides its arguments may change between its calls, and is looked at before each
    of them. What it changes itself (it may count its calls, or keep a log) does not tell of another
    function: that is looked at after its calls.
    """

    def __init__(self, function: Callable[..., Any], folder: str | os.PathLike[str]) -> None:
        self.function, self.folder = function, os.path.abspath(os.fspath(folder))
        self.identity = self._seen = identity_of(function)
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
        now = identity_of(self.function)
        if now != self._seen:
            self.identity = self._seen = now

        def run() -> Any:
            found = self.function(*args, **kwargs)
            self._seen = identity_of(self.function)
            return found

        return self.kept()(self.identity, _plain((args, kwargs)), run)


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
    return _identity(function, set())


def _identity(function: Any, within: set[int]) -> str:
    import joblib

    if hasattr(function, "identity"):  # a Command knows what it is
        return str(function.identity())
    if isinstance(function, functools.partial):
        rest = joblib.hash((function.args, function.keywords))
        return f"{_identity(function.func, within)} {rest}"
    if inspect.ismethod(function):
        mine = _hashed(function.__self__, function, within)
        return f"{_identity(function.__func__, within)} {mine}"
    if not inspect.isfunction(function):
        if isinstance(function, (np.ufunc, type(len))):
            return f"{getattr(function, '__module__', '')}.{function.__name__}"
        return f"{type(function).__qualname__} {_hashed(function, function, within)}"
    name = f"{function.__module__}.{function.__qualname__}"
    if id(function) in within:  # it calls itself, perhaps by way of others
        return name
    within = within | {id(function)}
    source = _source_of(function.__code__)
    read = [cell.cell_contents for cell in function.__closure__ or ()]
    read += [function.__defaults__, function.__kwdefaults__, *_globals_of(function)]
    inside = [_hashed(value, function, within) for value in read]
    # Two functions may stand in one line: the source does not tell them apart.
    return f"{name} {source} {_code(function.__code__)} {inside}"


@functools.cache
def _source_of(code: CodeType) -> str:
    try:
        return inspect.getsource(code)
    except (OSError, TypeError):
        return ""


def _code(code: CodeType) -> str:
    constants = [_code(c) if isinstance(c, CodeType) else repr(c) for c in code.co_consts]
    return f"{code.co_code.hex()} {code.co_names} {constants}"


def _names_in(code: CodeType) -> set[str]:
    inside = (_names_in(c) for c in code.co_consts if isinstance(c, CodeType))
    return set(code.co_names).union(*inside)


# Methods that change what they belong to: a function with such a name may keep a log in a global.
_CHANGING = {"append", "extend", "insert", "update", "setdefault", "pop", "popitem"}
_CHANGING |= {"remove", "discard", "clear", "write"}


def _globals_of(function: FunctionType) -> list[Any]:
    """The globals that it has names for, but for containers and objects that it may change."""
    space, names = function.__globals__, _names_in(function.__code__)
    found = [space[name] for name in sorted(names) if name in space]
    return [value for value in found if isinstance(value, _LASTING) or not names & _CHANGING]


def _is_installed(path: str) -> bool:
    return "site-packages" in path or path.startswith((os.path.dirname(os.__file__), "<frozen"))


def _module(module: ModuleType) -> str:
    """What a module is: one of the user's by its text, and those of the user's that it reads."""
    texts, waiting = {}, [module]
    while waiting:
        one = waiting.pop()
        if one.__name__ in texts:
            continue
        texts[one.__name__] = str(getattr(one, "__version__", ""))
        path = getattr(one, "__file__", None) or ""
        own = path.endswith(".py") and not _is_installed(path)
        if not own or one.__name__.partition(".")[0] == "adjoint":
            continue
        with contextlib.suppress(OSError):
            texts[one.__name__] += content_of_file(Path(path))
        for value in vars(one).values():
            made_in = sys.modules.get(
                str(getattr(value, "__module__", ""))
            )  # from made_in import f
            found = value if inspect.ismodule(value) else made_in
            waiting += [found] if found is not None else []
    return str(sorted(texts.items()))


def _hashed(value: Any, function: Any, within: set[int]) -> str:
    import joblib

    if inspect.isfunction(value):
        if _is_installed(value.__code__.co_filename):
            return f"{value.__module__}.{value.__qualname__}"
        return _identity(value, within)
    if inspect.ismodule(value):
        return _module(value)
    if inspect.isclass(value):
        return f"{value.__module__}.{value.__qualname__} {_source(value)}"
    wrapped = getattr(getattr(value, "definition", None), "function", None)
    if wrapped is not None:  # another external
        return _identity(wrapped, within)
    if isinstance(value, Tensor):
        value = value.detach().numpy()
    try:
        return str(joblib.hash(value))
    except Exception as error:
        raise ValueError(
            f"cache=: {getattr(function, '__name__', function)!r} reads a "
            f"{type(value).__name__}, whose content cannot be told ({error}).\n"
            "  fix: pass it as an argument (static= if it is not to be looked into), or make it in "
            "the function"
        ) from error


def _source(value: Any) -> str:
    try:
        return inspect.getsource(value)
    except (OSError, TypeError):
        return ""


def content_of_file(path: str | os.PathLike[str]) -> str:
    """A fingerprint of what a file holds."""
    return hashlib.blake2b(Path(path).read_bytes(), digest_size=16).hexdigest()
