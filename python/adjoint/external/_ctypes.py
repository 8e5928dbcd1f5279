"""Functions of C and Fortran libraries, called by address through ctypes.

The signature says for each parameter what it is; arrays that the routine writes are allocated here,
so that a routine never sees memory that somebody else holds. ctypes releases the GIL during the
call. Read next: _external.py, whose `external` gives the result a derivative.
"""

from __future__ import annotations

import ctypes
import os
import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from ._external import External, external

__all__ = ["CFunction", "ctypes_function"]

_KINDS = {
    "double": np.float64,
    "float": np.float32,
    "int": np.int32,
    "int32": np.int32,
    "int64": np.int64,
    "long": np.int64,
    "complex": np.complex128,
}
_PARAMETER = re.compile(r"(?:(in|out|inout) )?(\w+)(\*|\[[^\]]*\])?(?: (\w+))?$")


class _Parameter:
    """One parameter: its direction, element type, shape and name."""

    def __init__(self, text: str, position: int) -> None:
        match = _PARAMETER.match(text.strip())
        if match is None or match[2] not in _KINDS:
            raise ValueError(
                f"parameter {position}: {text!r} is not understood; write '[in|out|inout] "
                f"type[shape] name', such as 'in double[n] x', 'out double y' or 'int n'; types: "
                f"{', '.join(_KINDS)}"
            )
        self.dtype: Any = np.dtype(_KINDS[match[2]])
        self.shape = self._sizes(match[3])
        self.way = match[1] or "in"
        self.name = match[4] or f"p{position}"
        self.pointer = match[3] is not None or self.way != "in"

    @staticmethod
    def _sizes(text: str | None) -> tuple[str, ...] | None:
        """The axes: names or numbers; () for a single number, None for any shape."""
        if text is None:
            return ()
        if text == "*" or text == "[]":
            return None
        return tuple(part.strip() for part in text[1:-1].split(","))


class CFunction:
    """A routine with its parameters: takes the inputs, returns the outputs.

    Sizes that appear in the shapes (``n`` in ``double[n]``) are read off the inputs, and handed to
    the parameter of that name, if there is one.
    """

    def __init__(
        self, library: Any, name: str, parameters: Sequence[str], returns: str | None, fortran: bool
    ) -> None:
        self.path = None if hasattr(library, "_name") else os.fspath(library)
        self.library = ctypes.CDLL(self.path) if self.path is not None else library
        self.__name__ = name
        self.fortran = fortran
        self.parameters = [_Parameter(text, i) for i, text in enumerate(parameters)]
        self.returns = None if returns is None else _Parameter(returns, -1)
        self.texts, self.returned = list(parameters), returns
        self.symbol = self._find(name)
        axes = {axis for p in self.parameters for axis in (p.shape or ())}
        self.sizes = {p.name for p in self.parameters if p.name in axes and p.way == "in"}
        self.inputs = [p for p in self.parameters if p.way != "out" and p.name not in self.sizes]
        self.__signature__ = _signature([p.name for p in self.inputs])

    def _find(self, name: str) -> Any:
        for candidate in (name, name.lower() + "_") if self.fortran else (name,):
            try:
                symbol = getattr(self.library, candidate)
            except AttributeError:
                continue
            symbol.restype = None
            if self.returns is not None:
                symbol.restype = np.ctypeslib.as_ctypes_type(self.returns.dtype)
            return symbol
        raise AttributeError(
            f"{getattr(self.library, '_name', self.library)} has no symbol {name!r}"
            + (f" nor {name.lower() + '_'!r}" if self.fortran else "")
        )

    def __reduce__(self) -> Any:
        # A worker process opens the library again.
        path = self.path if self.path is not None else self.library._name
        return type(self), (path, self.__name__, self.texts, self.returned, self.fortran)

    def __call__(self, *args: Any, **named: Any) -> Any:
        """Call the routine on arrays and numbers."""
        if named:
            args = self.__signature__.bind(*args, **named).args
        if len(args) != len(self.inputs):
            wanted = ", ".join(p.name for p in self.inputs)
            raise TypeError(f"{self.__name__} takes {len(self.inputs)} ({wanted}), got {len(args)}")
        sizes: dict[str, int] = {}
        given = {p.name: self._array(p, a, sizes) for p, a in zip(self.inputs, args, strict=True)}
        held = [self._place(p, given, sizes) for p in self.parameters]
        result = self.symbol(
            *(self._pass(p, a) for p, a in zip(self.parameters, held, strict=True))
        )
        made = [] if self.returns is None else [self.returns.dtype.type(result)]
        made += [
            array[()] if array.ndim == 0 else array
            for p, array in zip(self.parameters, held, strict=True)
            if p.way != "in"
        ]
        return made[0] if len(made) == 1 else tuple(made)

    def _array(self, p: _Parameter, value: Any, sizes: dict[str, int]) -> Any:
        """An argument with the dtype and order that the routine expects; sizes are noted."""
        order: Any = "F" if self.fortran else "C"
        array = np.asarray(value)
        if array.dtype.kind == "c" and p.dtype.kind != "c":
            raise TypeError(
                f"{self.__name__}: {p.name} is {p.dtype}, but a complex value was given"
            )
        array = np.array(value, p.dtype, order=order, copy=True if p.way == "inout" else None)
        if p.shape is None:
            return array
        if array.ndim != len(p.shape):
            raise ValueError(
                f"{self.__name__}: {p.name} has {len(p.shape)} axes ({', '.join(p.shape)}), got an "
                f"array of shape {list(array.shape)}"
            )
        for axis, size in zip(p.shape, array.shape, strict=True):
            known = int(axis) if axis.isdigit() else sizes.setdefault(axis, size)
            if known != size:
                raise ValueError(
                    f"{self.__name__}: {p.name} has {size} along {axis}, which is {known} elsewhere"
                )
        return array

    def _place(self, p: _Parameter, given: dict[str, Any], sizes: dict[str, int]) -> Any:
        """The memory of one parameter."""
        if p.name in given:
            return given[p.name]
        if p.name in self.sizes:
            if p.name not in sizes:
                raise ValueError(f"{self.__name__}: no input tells the size {p.name}")
            return np.array(sizes[p.name], p.dtype)
        if p.shape is None:
            raise ValueError(f"{self.__name__}: the output {p.name} needs a shape, as in double[n]")
        unknown = [a for a in p.shape if not a.isdigit() and a not in sizes]
        if unknown:
            raise ValueError(f"{self.__name__}: no input tells the size {unknown[0]} of {p.name}")
        shape = [int(a) if a.isdigit() else sizes[a] for a in p.shape]
        return np.zeros(shape, p.dtype, order="F" if self.fortran else "C")

    def _pass(self, p: _Parameter, array: Any) -> Any:
        """By address, except for numbers that go into a C function."""
        if p.pointer or self.fortran:
            return ctypes.c_void_p(array.ctypes.data)
        if p.dtype.kind == "c":
            raise TypeError(f"{self.__name__}: pass the complex number {p.name} by address")
        return np.ctypeslib.as_ctypes_type(p.dtype)(array[()])


def _signature(names: Sequence[str]) -> Any:
    import inspect

    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    return inspect.Signature([inspect.Parameter(n, kind) for n in names])


def ctypes_function(
    library: Any,
    name: str,
    argtypes: Sequence[str],
    *,
    restype: str | None = None,
    fortran: bool = False,
    **options: Any,
) -> External:
    """Give a routine of a C or Fortran library a derivative.

    Parameters
    ----------
    library
        The path of a shared library, or a ``ctypes.CDLL``.
    name
        The symbol; with ``fortran`` also its lower-case name with an underscore.
    argtypes
        One text per parameter: ``"in double[n] x"``, ``"out double[n,m] y"``,
        ``"inout float* z"``, ``"int n"``. Directions are in, out and inout; types
        double, float, int, int64, long and complex. Sizes are read off the inputs and passed where
        a parameter has their name. Arrays and outputs go by address, other numbers by value (by
        address in Fortran).
    restype
        The type that the function returns, if any.
    fortran
        Arrays are stored by columns and everything goes by address.
    **options
        As for `external`.

    Returns
    -------
    External
        A callable that takes the inputs and returns what the function returns, then its outputs.

    Examples
    --------
    >>> import adjoint as ad
    >>> import ctypes.util
    >>> libm = ctypes.util.find_library("m")
    >>> cosh = ad.ctypes_function(libm, "cosh", ["double x"], restype="double")
    >>> x = ad.tensor(1.0, dtype=ad.float64, requires_grad=True)
    >>> cosh(x).backward()
    >>> x.grad
    tensor(1.1752, dtype=torch.float64)
    """
    made: External = external(CFunction(library, name, argtypes, restype, fortran), **options)
    return made
