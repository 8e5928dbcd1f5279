"""Whether a function may look at the memory of its arguments instead of at their numbers.

NumPy computes with any dtype. Code that is handed an address does not: C that expects floats
reads garbage from doubles, takes it for an index, or writes beyond an array whose bytes were
counted. A look at the result comes too late then: such a function must not be called with another
dtype at all. That is read off its code and off what it has names for, as far as they lead; what
cannot be read (an extension that is not known) counts as one that does. Read next: _double.py.
"""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Iterable
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType
from typing import Any

import numpy as np

from adjoint._core import Tensor

__all__ = ["may_read_memory"]

# Names of what hands out or takes memory as it is: to a library, a file, another process.
_RAW = frozenset(
    {
        "CDLL",
        "LoadLibrary",
        "POINTER",
        "__array_interface__",
        "__array_struct__",
        "__dlpack__",
        "_as_parameter_",
        "_ctypes",
        "addressof",
        "as_ctypes",
        "as_strided",
        "byref",
        "c_void_p",
        "carray",
        "cast",
        "cffi",
        "communicate",
        "ctypes",
        "data",
        "data_as",
        "data_ptr",
        "farray",
        "ffi",
        "from_address",
        "from_buffer",
        "from_buffer_copy",
        "frombuffer",
        "fromfile",
        "getbuffer",
        "load_library",
        "memmap",
        "memoryview",
        "mmap",
        "pack_into",
        "send",
        "sendall",
        "shared_memory",
        "to_dlpack",
        "tobytes",
        "tofile",
        "tostring",
        "unpack_from",
        "view",
        "write",
        "writelines",
    }
)
_MODULES = frozenset({"ctypes", "_ctypes", "mmap", "cffi", "_cffi_backend"})
_KNOWN = frozenset(  # they ask for the dtype of what they get
    {"adjoint", "jax", "jaxlib", "numba", "numexpr", "numpy", "pandas", "scipy", "sklearn", "sympy"}
    | {"statsmodels", "tensorflow", "torch", "xarray"}
)
_DATA = (np.ndarray, np.generic, np.dtype, np.ufunc, Tensor)
_MAKING = frozenset({"__init__", "__new__", "__post_init__", "__call__"})
_MOST = 2000  # things that are looked at
_HEAP = 1 << 9  # Py_TPFLAGS_HEAPTYPE: a class statement made it, or an extension

Found = Iterable[tuple[Any, frozenset[str]]]


def may_read_memory(function: Any) -> bool:
    """Whether it may; True as well where its code cannot be read."""
    kept: dict[Any, Any] = {}  # and alive, so that nothing else gets an id
    waiting: list[tuple[Any, frozenset[str]]] = [(function, frozenset())]
    while waiting:
        value, names = waiting.pop()
        if kept.setdefault((id(value), names), value) is value and len(kept) > _MOST:
            return True
        found = _behind(value, names)
        if found is None:
            return True
        waiting += (one for one in found if (id(one[0]), one[1]) not in kept)
    return False


def _behind(value: Any, names: frozenset[str]) -> Found | None:
    """What leads on from a value for code with these names; None if it may read memory."""
    kind = type(value)
    if isinstance(value, _DATA) or getattr(kind, "converts", False):
        return ()
    if isinstance(value, FunctionType):
        return _behind_code(value)
    if isinstance(value, ModuleType):
        if _is_known(value.__name__):
            return ()
        space = vars(value)
        return None if value.__name__ in _MODULES else [(space[n], names) for n in names & {*space}]
    if isinstance(value, type):
        return _behind_class(value, _names_of_methods(value, names | _MAKING))
    if isinstance(value, BuiltinFunctionType) and isinstance(value.__self__, ModuleType):
        return () if _is_known(value.__self__.__name__) else None
    if inspect.ismethod(value):
        return [(value.__func__, names), (value.__self__, frozenset({value.__name__}))]
    python = getattr(value, "py_func", None)
    if isinstance(python, FunctionType):  # Numba makes one for each dtype of it
        return [(python, names)]
    if not (_is_known(kind.__module__) or _is_of_python(kind)):
        return () if kind.__name__ == "fortran" else None  # F2PY's converts what it gets
    names = _names_of_methods(kind, names)
    return [*(_behind_class(kind, names) or ()), *_held(value, names)]


def _names_of_methods(kind: type, names: frozenset[str]) -> frozenset[str]:
    """Those names, and what the methods that they lead to may look up in their object."""
    found = {*names, "__call__"}
    waiting = set(found)
    while waiting:
        method = inspect.getattr_static(kind, waiting.pop(), None)
        method = method.fget if isinstance(method, property) else method
        more = _names_in(getattr(inspect.unwrap(method), "__code__", None)) if method else set()
        waiting |= more - found
        found |= more
    return frozenset(found)


def _held(value: Any, names: frozenset[str]) -> Found:
    """What is in a container, or in an object: under these names, or all of one of NumPy's."""
    if isinstance(value, dict):
        inside: Iterable[Any] = value.values()
    elif isinstance(value, (list, tuple, set, frozenset)):
        inside = value
    elif isinstance(value, functools.partial):
        inside = (value.func, *value.args, *value.keywords.values())
    else:
        kept = getattr(value, "__dict__", {})
        every = _is_known(type(value).__module__)
        slots = {n for n in names if n not in kept and _is_slot(type(value), n)}
        inside = [v for n, v in kept.items() if every or n in names]
        inside += [getattr(value, n, None) for n in slots]
        inside += [getattr(value, n, None) for n in ("__wrapped__", "__func__", "__self__", "fget")]
    return [(one, names) for one in inside]


def _is_slot(kind: type, name: str) -> bool:
    return inspect.ismemberdescriptor(getattr(kind, name, None))


def _behind_code(function: FunctionType) -> Found | None:
    known, names = _is_known(function.__module__ or ""), frozenset(_names_in(function.__code__))
    if names & _RAW and not known:
        return None
    found = [getattr(function, "__wrapped__", None)]
    for cell in function.__closure__ or ():
        try:
            found.append(cell.cell_contents)
        except ValueError:  # not filled: nothing is called through it
            continue
    if not known:
        space = function.__globals__
        found += [space[n] if n in space else sys.modules.get(n) for n in names]
        found += [*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()]
    return [(value, names) for value in found]


def _behind_class(kind: type, names: frozenset[str]) -> Found | None:
    if _is_known(kind.__module__):
        return ()
    if not _is_of_python(kind):
        return None
    spaces = [vars(base) for base in kind.__mro__ if not _is_known(base.__module__)]
    return [(s[n], names) for s in spaces for n in names & {*s} if not _is_member(s[n])]


def _is_member(value: Any) -> bool:
    return inspect.ismemberdescriptor(value) or inspect.isgetsetdescriptor(value)


def _names_in(code: CodeType | None) -> set[str]:
    if code is None:
        return set()
    inside = (_names_in(c) for c in code.co_consts if isinstance(c, CodeType))
    # Keywords stand among the constants: ndarray(shape, float32, buffer=x).
    keywords = {"frombuffer" for c in code.co_consts if isinstance(c, tuple) and "buffer" in c}
    return {*code.co_names, *keywords}.union(*inside)


def _is_of_python(kind: type) -> bool:
    module = sys.modules.get(kind.__module__)
    path = getattr(module, "__file__", None) or ""
    root = kind.__module__.partition(".")[0]
    return (
        bool(kind.__flags__ & _HEAP) and root not in _MODULES and not path.endswith((".so", ".pyd"))
    )


def _is_known(module: str) -> bool:
    """Whether what is in it takes numbers of any dtype, or raises."""
    root = module.partition(".")[0]
    return root in _KNOWN or (root in sys.stdlib_module_names and root not in _MODULES)
