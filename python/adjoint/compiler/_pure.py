"""What is known to be free of state and effects: the table of docs/reference/pure.md, and `pure`.

A callable is *pure* here if what it returns and changes is determined by, and confined to, the
objects that it is given, as far as their state can be seen: `math.sin`, but also `list.append`,
since a list that was there before is compared after the call. What is not in these tables, and not
vouched for, is refused. Read next: `_walk`.
"""

from __future__ import annotations

import array
import collections
import functools
import itertools
import operator
import re
import sys
import threading
import types
import typing
import weakref
from collections.abc import Iterable
from contextvars import ContextVar
from typing import Any, ParamSpec, TypeVar, TypeVarTuple

import adjoint as ad
from adjoint._homes import home

__all__ = ["ARRAY_METHODS", "FUNCTIONS", "PYTHON", "TYPES", "is_vouched", "pure", "why_not"]

T = TypeVar("T")
ALL = frozenset("*")


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


# -- functions written in C ------------------------------------------------------------------------

#: By module: C functions that are pure. ``*`` stands for all of a module.
FUNCTIONS: dict[str, frozenset[str]] = {
    "builtins": _names(
        "abs all any ascii bin callable chr delattr divmod format getattr hasattr hash hex id "
        "isinstance issubclass iter len locals max min next oct ord pow repr round setattr sorted "
        "sum vars __build_class__"
    ),
    **dict.fromkeys(
        _names(
            "math cmath _operator operator itertools _functools _collections _collections_abc "
            "_bisect _heapq _abc _struct binascii zlib _json _sre unicodedata _statistics _codecs "
            "_weakref _string _opcode"
        ),
        ALL,
    ),
    "sys": _names("intern"),
    **dict.fromkeys(
        ("posix", "nt"), _names("fspath _path_normpath _path_splitroot _path_splitroot_ex")
    ),
    "_typing": _names("_idfunc"),
    "numpy": _names(
        "arange array asanyarray asarray ascontiguousarray asfortranarray bincount busday_count "
        "busday_offset can_cast concat concatenate copyto datetime_as_string datetime_data dot "
        "empty empty_like frombuffer fromiter fromstring inner is_busday lexsort may_share_memory "
        "min_scalar_type packbits promote_types putmask ravel_multi_index result_type "
        "shares_memory unpackbits unravel_index vdot where zeros"
    ),
    "adjoint._core": _names(
        "can_cast promote_types result_type is_grad_enabled is_inference is_inference_mode_enabled "
        "get_default_dtype _autocast_modes op_names op_table instruction_set _function_apply"
    ),
}

# -- types written in C ----------------------------------------------------------------------------

#: Methods of arrays and of NumPy's numbers that are pure.
ARRAY_METHODS = _names(
    "all any argmax argmin argpartition argsort astype byteswap choose clip compress conj "
    "conjugate copy cumprod cumsum diagonal dot fill flatten getfield is_integer item itemset max "
    "mean min nonzero partition prod ptp put ravel repeat reshape resize round searchsorted "
    "setfield setflags sort squeeze std sum swapaxes take tobytes tolist trace transpose var view "
    "as_integer_ratio fromhex hex bit_count"
)
LOCKS = (type(threading.Lock()), type(threading.RLock()))
_EMPTY: tuple[Any, ...] = ([], (), {}, set(), "", b"", range(1), range(2**70), collections.deque())
_DICT: dict[Any, Any] = {}
_ITERATORS: tuple[Any, ...] = (
    *(type(iter(one)) for one in (*_EMPTY, _DICT.values(), _DICT.items())),
    *(type(reversed(one)) for one in _EMPTY if hasattr(one, "__reversed__")),
    *(one for name, one in vars(itertools).items() if isinstance(one, type) and name[:2] != "__"),
)

# Parameters of generic functions and classes, and names for types: written in C since 3.12.
GENERIC: tuple[type, ...] = ()
if sys.version_info >= (3, 12):
    GENERIC = (TypeVar, ParamSpec, TypeVarTuple, type(vars(typing)["TypeAliasType"]("_", int)))

#: Types written in C that may be called, and the methods of theirs that are pure.
TYPES: dict[type, frozenset[str]] = dict.fromkeys(
    (
        *(int, float, complex, bool, str, bytes, type(None), type(...), type(NotImplemented)),
        *(range, slice, list, tuple, dict, set, frozenset, bytearray, memoryview, array.array),
        *(collections.deque, collections.OrderedDict, collections.defaultdict),
        *(type({}.keys()), type({}.values()), type({}.items()), types.MappingProxyType),
        *(object, type, super, property, staticmethod, classmethod, BaseException),
        *(enumerate, zip, map, filter, reversed, functools.partial, types.SimpleNamespace),
        *(operator.attrgetter, operator.itemgetter, operator.methodcaller),
        *(types.FunctionType, types.MethodType, types.BuiltinFunctionType, types.CellType),
        *(types.GeneratorType, types.CoroutineType, types.AsyncGeneratorType, types.ModuleType),
        *(types.MethodWrapperType, types.TracebackType, types.GenericAlias, types.UnionType),
        *(types.GetSetDescriptorType, types.MemberDescriptorType, types.WrapperDescriptorType),
        *(types.MethodDescriptorType, types.ClassMethodDescriptorType, types.CodeType),
        *(
            type(vars(collections.namedtuple("_", "a"))["a"]),
            re.Pattern,
            re.Match,
            weakref.ref,
            ContextVar,
        ),
        *(ContextVar, ad.Tensor, ad.Size, ad.dtype, ad.device, *_ITERATORS, *GENERIC),
    ),
    ALL,
)
# Held for a while, and free again, by `with`: acquire() can tell whether another thread holds one.
TYPES.update(dict.fromkeys(LOCKS, _names("__enter__ __exit__ acquire release locked")))

# -- Python code of libraries ----------------------------------------------------------------------

#: By module: functions and classes of libraries, written in Python, whose inside is trusted. What
#: they ask of objects by name counts; what else they read is taken to stay what it is.
PYTHON: dict[str, frozenset[str]] = {
    **dict.fromkeys(
        _names(
            "functools operator collections collections.abc _collections_abc enum types typing "
            "abc _py_abc numbers fractions re re._compiler re._parser re._casefix re._constants "
            "keyword heapq bisect weakref _weakrefset optree typing_extensions"
        ),
        ALL,
    ),
    "contextlib": _names(
        "contextmanager _GeneratorContextManager _GeneratorContextManagerBase ContextDecorator "
        "AbstractContextManager nullcontext suppress closing ExitStack _BaseExitStack"
    ),
    "numpy._core._ufunc_config": _names("errstate"),
    **dict.fromkeys(
        (
            f"numpy.{name}"
            for name in _names(
                "_core._asarray _core._dtype _core._methods _core._type_aliases _core.einsumfunc "
                "_core.fromnumeric _core.function_base _core.getlimits _core.multiarray "
                "_core.numeric _core.numerictypes _core.overrides _core.shape_base _core.umath "
                "exceptions fft._helper fft._pocketfft lib._array_utils lib._arraypad "
                "lib._arraysetops lib._function_base lib._histograms lib._index_tricks "
                "lib._nanfunctions lib._polynomial lib._shape_base lib._stride_tricks "
                "lib._twodim_base lib._type_check lib._ufunclike linalg._linalg linalg.linalg "
                "linalg matrixlib.defmatrix"
            )
        ),
        ALL,
    ),
}
#: The same of code that asks objects for attributes by names that nobody has spelt out.
WHOLE = _names("copy copyreg dataclasses")

#: Modules of which any name may be asked, a computed one too.
HARMLESS = _names("math cmath operator itertools functools collections numpy")

# What adjoint has that reads or sets a state of the process.
OWN_STATE = _names(
    "manual_seed seed initial_seed set_rng_state get_rng_state set_default_dtype "
    "set_default_device set_default_tensor_type set_num_threads get_num_threads save load "
    "set_num_interop_threads get_num_interop_threads set_printoptions set_anomaly_enabled "
    "set_warn_always use_deterministic_algorithms are_deterministic_algorithms_enabled "
    "is_deterministic_algorithms_warn_only_enabled is_anomaly_enabled is_warn_always_enabled "
    "set_deterministic_debug_mode get_deterministic_debug_mode memory_stats release_memory "
    "get_printoptions printoptions is_multithreading_enabled set_multithreading_enabled"
)

# -- what users vouch for --------------------------------------------------------------------------

_vouched: dict[int, Any] = {}  # by address; kept alive
_vouched_modules: set[str] = set()


def pure(callable: T) -> T:
    """Say of something callable that it depends on its arguments alone, and changes nothing.

    A compiled function may call what `adjoint.compiler` knows to be free of state and effects. Of
    anything else it has to be told: a call of an unknown C function, or of a function whose inside
    must not be followed, runs eagerly otherwise.

    Parameters
    ----------
    callable : callable or module
        A function (this can be used as a decorator), a C function, a class with its methods, or a
        module with all that is in it.

    Returns
    -------
    callable
        What was given.

    See Also
    --------
    adjoint.external : a function that runs in each call, with derivatives.

    Notes
    -----
    The result of the recorded call is used in all later ones with the same arguments, as numbers
    and objects among the arguments of the compiled function, and what these have in them, are
    compared. What the function reads besides is not looked at: that is what is vouched for.

    Examples
    --------
    >>> import adjoint as ad, time
    >>> @ad.compiler.pure
    ... def order(n):
    ...     started = time.perf_counter()  # nobody depends on it
    ...     return n + 1
    >>> ad.compile(lambda x: x ** order(2), fullgraph=True)(ad.tensor(3.0))
    tensor(27.)
    """
    if isinstance(callable, types.ModuleType):
        _vouched_modules.add(callable.__name__)
    else:
        _vouched[id(callable)] = callable
        code = getattr(callable, "__code__", None)
        if code is not None:
            _vouched[id(code)] = code
    return callable


def is_vouched(thing: Any) -> bool:
    """Whether somebody has said `pure` of something, or of its module."""
    if _vouched.get(id(thing)) is thing:
        return True
    if not _vouched_modules:
        return False
    module = getattr(thing, "__module__", None) or getattr(
        getattr(thing, "__self__", None), "__name__", None
    )
    return isinstance(module, str) and any(
        module == one or module.startswith(one + ".") for one in _vouched_modules
    )


# -- questions -------------------------------------------------------------------------------------


def _all_numpy() -> Any:
    return sys.modules.get("numpy")


def methods_of(cls: type) -> frozenset[str] | None:
    """Which methods of a class written in C are pure; None if it is not known at all."""
    known = TYPES.get(cls)
    if known is not None:
        return known
    if issubclass(cls, BaseException):
        return ALL
    numpy = _all_numpy()
    if numpy is not None:
        if cls is numpy.ndarray or issubclass(cls, numpy.generic):
            return ARRAY_METHODS
        if cls in (numpy.ufunc, numpy.dtype, numpy.flatiter, numpy.nditer, numpy.broadcast):
            return ALL
    if home(cls).partition(".")[0] == "adjoint" and cls.__name__ != "Generator":
        return ALL
    return None


def why_not(function: Any) -> str | None:
    """Why a C function is not known to be pure; None if it is."""
    if is_vouched(function):
        return None
    owner, name = getattr(function, "__self__", None), getattr(function, "__name__", "?")
    if isinstance(
        function,
        types.MethodDescriptorType | types.WrapperDescriptorType | types.ClassMethodDescriptorType,
    ):
        return _why_not_method(function.__objclass__, name)
    if owner is None or isinstance(owner, types.ModuleType):
        return _why_not_function(function, owner, name)
    cls = owner if isinstance(owner, type) else type(owner)
    definer = next((one for one in cls.__mro__ if name in one.__dict__), cls)
    if is_vouched(cls) or is_vouched(definer):
        return None
    return _why_not_method(definer, name)


_UNKNOWN = (
    "is not known to be free of state and effects; fix: call it outside, or vouch for it "
    "(adjoint.compiler.pure)"
)


def _why_not_function(function: Any, owner: Any, name: str) -> str | None:
    module = str(getattr(function, "__module__", None) or getattr(owner, "__name__", "?"))
    known = FUNCTIONS.get(module.replace("numpy._core._multiarray_umath", "numpy"))
    if known is not None and (known is ALL or name in known):
        return None
    if type(function) is type(ad.zeros):
        return None  # an op
    shown = name if module == "builtins" else f"{module.lstrip('_')}.{name}"
    return f"`{shown}()` {_UNKNOWN}"


def _why_not_method(cls: type, name: str) -> str | None:
    known = methods_of(cls)
    # Special methods are what operators and built-in functions do.
    if known is not None and (known is ALL or name in known or name[:2] == "__"):
        return None
    return f"`{cls.__name__}.{name}()` {_UNKNOWN}"


def is_known(names: Iterable[str], qualname: str) -> bool:
    """Whether a function is among the names of a module, by itself or by its class."""
    return names is ALL or qualname.partition(".")[0] in names
