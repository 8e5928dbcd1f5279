"""Functions of C and Fortran libraries, called by address through ctypes.

The signature says for each parameter what it is; arrays that the routine writes are allocated here,
so that a routine never sees memory that somebody else holds. ctypes releases the GIL during the
call. Read next: _sizes.py for the sizes in a shape; _external.py, whose `external` gives the result
a derivative.
"""

from __future__ import annotations

import ctypes
import inspect
import os
import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from ._external import External, external
from ._sizes import Size, read_off

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
    def _sizes(text: str | None) -> tuple[Size, ...] | None:
        """The axes; () for a single number, None for any shape."""
        if text is None:
            return ()
        if text == "*" or text == "[]":
            return None
        return tuple(Size(part) for part in text[1:-1].split(","))


class CFunction:
    """A routine with its parameters: takes the inputs, returns the outputs.

    Sizes in the shapes of inputs (``n`` in ``double[n]`` or ``double[n-1]``) are read off these,
    and handed to the parameter of that name, if there is one. A size that only outputs have is an
    argument.
    """

    converts = True  # what it is given, to the types of the parameters: see _raw_memory.py

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
        axes = [a for p in self.parameters if p.way != "out" for a in (p.shape or ())]
        told = {axis.tells for axis in axes if axis.tells is not None}
        self.sizes = {p.name for p in self.parameters if p.name in told and p.way == "in"}
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
        mangled = name.lower() + "_"
        hint = f" nor {mangled!r}" if self.fortran else ""
        if not self.fortran and hasattr(self.library, mangled):
            hint = f", but {mangled!r}, a Fortran routine; fix: fortran=True"
        raise AttributeError(
            f"{getattr(self.library, '_name', self.library)} has no symbol {name!r}{hint}"
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
            known = f"; {', '.join(sorted(self.sizes))} is read off them" if self.sizes else ""
            raise TypeError(
                f"{self.__name__} takes {len(self.inputs)} arguments ({wanted}), got {len(args)}"
                f"{known}"
            )
        given = {p.name: self._array(p, a) for p, a in zip(self.inputs, args, strict=True)}
        sizes = self._sizes(given)
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

    def _array(self, p: _Parameter, value: Any) -> Any:
        """An argument with the dtype and order that the routine expects."""
        order: Any = "F" if self.fortran else "C"
        array = np.asarray(value)
        if array.dtype.kind == "c" and p.dtype.kind != "c":
            raise TypeError(
                f"{self.__name__}: {p.name} is {p.dtype}, but a complex value was given"
            )
        array = np.array(value, p.dtype, order=order, copy=True if p.way == "inout" else None)
        if p.shape is not None and array.ndim != len(p.shape):
            raise ValueError(
                f"{self.__name__}: {p.name} has {len(p.shape)} axes "
                f"({', '.join(a.text for a in p.shape)}), got an array of shape {list(array.shape)}"
            )
        return array

    def _sizes(self, given: dict[str, Any]) -> dict[str, int]:
        """The sizes by name: arguments of that name, and what the shapes of the inputs tell."""
        numbers = {name: a for name, a in given.items() if a.ndim == 0 and a.dtype.kind == "i"}
        sizes = {name: int(a) for name, a in numbers.items()}
        axes = [
            (p.name, axis, size)
            for p in self.inputs
            for axis, size in zip(
                p.shape or (), given[p.name].shape if p.shape else (), strict=True
            )
        ]
        return read_off(axes, sizes, self.__name__)

    def _place(self, p: _Parameter, given: dict[str, Any], sizes: dict[str, int]) -> Any:
        """The memory of one parameter."""
        if p.name in given:
            return given[p.name]
        if p.name in self.sizes:
            return np.array(sizes[p.name], p.dtype)
        if p.shape is None:
            raise ValueError(f"{self.__name__}: the output {p.name} needs a shape, as in double[n]")
        shape = [axis.value(sizes, self.__name__, p.name) for axis in p.shape]
        return np.zeros(shape, p.dtype, order="F" if self.fortran else "C")

    def _pass(self, p: _Parameter, array: Any) -> Any:
        """By address, except for numbers that go into a C function."""
        if p.pointer or self.fortran:
            return ctypes.c_void_p(array.ctypes.data)
        if p.dtype.kind == "c":
            raise TypeError(f"{self.__name__}: pass the complex number {p.name} by address")
        return np.ctypeslib.as_ctypes_type(p.dtype)(array[()])


def _signature(names: Sequence[str]) -> inspect.Signature:
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
        One text for each parameter of the routine, and none left out, as it would read and write
        through whatever stands in its place: ``"in double[n] x"``, ``"out double[n,m] y"``,
        ``"inout float* z"``, ``"int n"``. Directions are in, out and inout; types
        double, float, int, int64, long and complex. Sizes are names, numbers, or put together by
        ``+``, ``-``, ``*`` and ``//`` (``double[n-1]``); they are read off the inputs and passed
        where a parameter has their name. One that only outputs have (``"int steps"`` with
        ``"out double[steps] y"``) is an argument. Arrays and outputs go by address, other numbers
        by value (by address in Fortran).
    restype
        The type that the function returns, if any. An exit status is the first of the results; it
        is not looked at.
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
