"""How a tensor prints: `tensor_repr`, and the options that steer it.

The text is PyTorch's, character for character. Values are read with `tolist()`, and of a large
tensor only the corners that will be shown, so printing needs no op beyond slicing. The steps, in
order: `_read` (nested values) -> `_columns` (one string per value) -> `_layout` (brackets and
lines) -> `_with_suffixes` (dtype, grad_fn, ...). Read `tensor_repr` at the end first.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from adjoint import Tensor

__all__ = ["get_printoptions", "printoptions", "set_printoptions", "tensor_repr"]


# ---------------------------------------------------------------------------------------------
# Options


class PrintOptions:  # not a dataclass: that would cost each import of adjoint two milliseconds
    """The state that `set_printoptions` changes; there is one, `PRINT_OPTS`."""

    precision: int = 4
    threshold: float = 1000
    edgeitems: int = 3
    linewidth: float = 80
    sci_mode: bool | None = None


PRINT_OPTS = PrintOptions()

_Number = TypeVar("_Number", int, float)

_PROFILES: dict[str, dict[str, Any]] = {
    "default": {"precision": 4, "threshold": 1000, "edgeitems": 3, "linewidth": 80},
    "short": {"precision": 2, "threshold": 1000, "edgeitems": 2, "linewidth": 80},
    "full": {"precision": 4, "threshold": math.inf, "edgeitems": 3, "linewidth": 80},
}


def set_printoptions(
    precision: int | None = None,
    threshold: float | None = None,
    edgeitems: int | None = None,
    linewidth: float | None = None,
    profile: str | None = None,
    sci_mode: bool | None = None,
) -> None:
    """Choose how tensors print, for the whole process.

    Parameters
    ----------
    precision : int, optional
        Digits after the decimal point (4 at first).
    threshold : float, optional
        A tensor of more elements than this is summarised (1000 at first; ``inf`` for never).
    edgeitems : int, optional
        Elements shown at each end of an axis of a summarised tensor (3 at first).
    linewidth : float, optional
        Characters per line (80 at first).
    profile : {"default", "short", "full"}, optional
        A set of the options above, in small or capital letters; those given explicitly win over it.
    sci_mode : bool, optional
        Whether to print in scientific notation. None, also when left out, lets the values decide.

    Raises
    ------
    ValueError
        If the profile is unknown or a number is out of range; no option has changed then.

    Notes
    -----
    Options left out keep their value, except `sci_mode`, which goes back to None, as in PyTorch.
    """
    chosen: dict[str, Any] = {}
    if profile is not None:
        if profile.lower() not in _PROFILES:
            raise ValueError(
                f"set_printoptions(): unknown profile {profile!r}; use one of "
                + ", ".join(repr(name) for name in _PROFILES)
            )
        chosen.update(_PROFILES[profile.lower()])
    if precision is not None:
        chosen["precision"] = _at_least_zero("precision", operator.index(precision))
    if threshold is not None:
        chosen["threshold"] = _at_least_zero("threshold", threshold)
    if edgeitems is not None:
        chosen["edgeitems"] = _at_least_zero("edgeitems", operator.index(edgeitems))
    if linewidth is not None:
        chosen["linewidth"] = _at_least_zero("linewidth", linewidth)
    for name, value in chosen.items():
        setattr(PRINT_OPTS, name, value)
    PRINT_OPTS.sci_mode = sci_mode


def _at_least_zero(name: str, value: _Number) -> _Number:
    if not value >= 0:  # also catches nan
        raise ValueError(f"set_printoptions(): {name} must not be negative, got {value}")
    return value


def get_printoptions() -> dict[str, Any]:
    """Return the present options as a dict that `set_printoptions` takes."""
    return {name: getattr(PRINT_OPTS, name) for name in PrintOptions.__annotations__}


@contextmanager
def printoptions(**options: Any) -> Iterator[None]:
    """Set print options for a ``with`` block; takes what `set_printoptions` takes."""
    before = get_printoptions()
    try:
        set_printoptions(**options)
        yield
    finally:
        set_printoptions(**before)


# ---------------------------------------------------------------------------------------------
# Reading the values that will be shown


def _is_cut(size: int, summarize: bool) -> bool:
    return summarize and size > 2 * PRINT_OPTS.edgeitems


def _read(t: Tensor, summarize: bool, axis: int = 0) -> Any:
    """Return `t.tolist()`, with only the ends of each long axis when summarising."""
    while axis < t.ndim and not _is_cut(t.shape[axis], summarize):
        axis += 1
    if axis == t.ndim:
        return t.tolist()
    edge = PRINT_OPTS.edgeitems
    before = (slice(None),) * axis
    head = _read(t[(*before, slice(0, edge))], summarize, axis + 1)
    size = t.shape[axis]
    tail = _read(t[(*before, slice(size - edge, size))], summarize, axis + 1)
    return _join(head, tail, axis)


def _join(head: list[Any], tail: list[Any], axis: int) -> list[Any]:
    if axis == 0:
        return head + tail
    return [_join(h, t, axis - 1) for h, t in zip(head, tail, strict=True)]


def _flatten(nested: Any, ndim: int) -> list[Any]:
    if ndim == 0:
        return [nested]
    for _ in range(ndim - 1):
        nested = chain.from_iterable(nested)
    return list(nested)


# ---------------------------------------------------------------------------------------------
# One string per value


def _columns(t: Tensor, values: list[Any]) -> tuple[list[str], int]:
    """Return the padded text of each value, and the width that decides where lines break."""
    if t.is_complex():
        real, real_width = _float_texts([v.real for v in values])
        imag, imag_width = _float_texts([v.imag for v in values])
        texts = [
            r.rjust(real_width) + (i if i.startswith("-") else "+" + i) + "j"
            for r, i in zip(real, imag, strict=True)
        ]
        return texts, real_width + imag_width + 1
    if t.is_floating_point():
        texts, width = _float_texts(values)
    else:
        texts = [str(v) for v in values]
        width = max(map(len, texts))
    return [text.rjust(width) for text in texts], width


def _float_texts(values: list[float]) -> tuple[list[str], int]:
    """Return the text of each value, not yet padded, and the width of the column.

    Zeros, infinities and nans have no say in notation or width: they overhang when they are wider.
    """
    decisive = [v != 0 and math.isfinite(v) for v in values]
    fmt = _float_format([abs(v) for v, counts in zip(values, decisive, strict=True) if counts])
    texts = [fmt(v) for v in values]
    width = max((len(s) for s, counts in zip(texts, decisive, strict=True) if counts), default=1)
    return texts, width


def _float_format(magnitudes: list[float]) -> Callable[[float], str]:
    """Choose between `1.`, `1.0000` and `1.0000e+00` for a column of finite nonzero magnitudes."""
    if not magnitudes:
        return _integral_text
    integral = all(v.is_integer() for v in magnitudes)
    scientific = PRINT_OPTS.sci_mode
    if scientific is None:
        smallest, largest = min(magnitudes), max(magnitudes)
        scientific = (
            largest / smallest > 1000.0 or largest > 1.0e8 or (smallest < 1.0e-4 and not integral)
        )
    if integral and not scientific:
        return _integral_text
    return f"{{:.{PRINT_OPTS.precision}{'e' if scientific else 'f'}}}".format


def _integral_text(value: float) -> str:
    return f"{value:.0f}." if math.isfinite(value) else f"{value:.0f}"


# ---------------------------------------------------------------------------------------------
# Brackets, commas and lines


def _layout(
    cells: Iterator[str], shape: Sequence[int], indent: int, width: int, summarize: bool
) -> str:
    """Lay out the next cells as a (nested) list that starts at column `indent`."""
    if not shape:
        return next(cells)
    size, *inner = shape
    cut = _is_cut(size, summarize)
    shown = 2 * PRINT_OPTS.edgeitems if cut else size
    items = [
        _layout(cells, inner, indent + 1, width, summarize) if inner else next(cells)
        for _ in range(shown)
    ]
    if cut:
        # The extra space in front of the dots of an innermost axis is PyTorch's.
        items.insert(PRINT_OPTS.edgeitems, "..." if inner else " ...")
    margin = " " * (indent + 1)
    if inner:
        return "[" + ("," + "\n" * len(inner) + margin).join(items) + "]"
    per_line = int(max(1, min(len(items), (PRINT_OPTS.linewidth - indent) // (width + 2))))
    lines = [", ".join(items[i : i + per_line]) for i in range(0, len(items), per_line)]
    return "[" + (",\n" + margin).join(lines) + "]"


def _contents(t: Tensor, indent: int) -> str:
    if t.numel() == 0:
        return "[]"
    summarize = t.numel() > PRINT_OPTS.threshold
    if summarize and PRINT_OPTS.edgeitems == 0 and t.ndim > 0:
        return "[...]"
    cells, width = _columns(t, _flatten(_read(t, summarize), t.ndim))
    return _layout(iter(cells), tuple(t.shape), indent, width, summarize)


# ---------------------------------------------------------------------------------------------
# What stands behind the values


def _dtype_is_evident(dtype: str, default: str, empty: bool) -> bool:
    """Whether a reader, and `tensor(...)` called on the text, can tell the dtype from the values.

    Both are short names, such as ``"float32"``; `default` is that of the default dtype.
    """
    if empty:
        return dtype == default
    default_complex = "complex128" if default == "float64" else "complex64"
    return dtype in (default, default_complex, "int64", "bool")


def _short_name(dtype: object) -> str:
    return str(dtype).rpartition(".")[2]


def _history(t: Tensor) -> list[str]:
    try:
        node = t.grad_fn
        history = "" if node is None else node.name().rpartition("::")[2]
    except RuntimeError:  # a view whose base was changed since, in a way that has no history
        history = "Invalid"
    if history:
        return [f"grad_fn=<{history}>"]
    return ["requires_grad=True"] if t.requires_grad else []


def _suffixes(t: Tensor) -> list[str]:
    from adjoint import get_default_dtype
    from adjoint.autograd import forward_ad

    found = []
    empty = t.numel() == 0
    # With no edge items a summarised tensor shows no values; PyTorch then gives the size of any.
    if t.ndim != 1 if empty else PRINT_OPTS.edgeitems == 0:
        found.append(f"size={tuple(t.shape)}")
    if not _dtype_is_evident(_short_name(t.dtype), _short_name(get_default_dtype()), empty):
        found.append(f"dtype={t.dtype}")
    found += _history(t)
    if (tangent := forward_ad.unpack_dual(t).tangent) is not None:
        found.append(f"tangent={tangent!r}")
    return found


def _with_suffixes(text: str, suffixes: list[str], indent: int, *, new_line: bool = False) -> str:
    """Close the text with its suffixes, each on a new line where it would not fit."""
    parts = [text]
    # One more than the line has, two when it is the only one: where PyTorch breaks depends on it.
    column = len(text) - text.rfind("\n") + 1
    for suffix in suffixes:
        if new_line or column + len(suffix) + 2 > PRINT_OPTS.linewidth:
            new_line = False
            parts.append(",\n" + " " * indent + suffix)
            column = indent + len(suffix)
        else:
            parts.append(", " + suffix)
            column += len(suffix) + 2
    return "".join(parts) + ")"


# ---------------------------------------------------------------------------------------------
# Sparse tensors

_PARTS = {
    "sparse_coo": ("_indices", "_values"),
    "sparse_csr": ("crow_indices", "col_indices", "_values"),
    "sparse_csc": ("ccol_indices", "row_indices", "_values"),
}


def _part_text(name: str, part: Tensor, indent: int) -> str:
    prefix = f"{name.lstrip('_')}=tensor("
    empty = f", size={tuple(part.shape)}" if part.numel() == 0 else ""
    return prefix + _contents(part, indent + len(prefix)) + empty + ")"


def _sparse_text(t: Tensor, prefix: str) -> str:
    """The parts, each on lines of its own, and the suffixes."""
    from adjoint import get_default_dtype

    indent = len(prefix)
    parts = [_part_text(name, getattr(t, name)(), indent) for name in _PARTS[t._layout_name]]
    suffixes = [f"size={tuple(t.shape)}", f"nnz={t._nnz()}"]
    if not _dtype_is_evident(_short_name(t.dtype), _short_name(get_default_dtype()), False):
        suffixes.append(f"dtype={t.dtype}")
    suffixes.append(f"layout={t.layout}")
    suffixes += _history(t)
    text = prefix + (",\n" + " " * indent).join(parts)
    return _with_suffixes(text, suffixes, indent, new_line=t.is_sparse)


# ---------------------------------------------------------------------------------------------
# The whole


def _is_own_class(cls: type, name: str) -> bool:
    # By name, so that printing neither loads `nn` nor cares under which alias it was imported.
    return cls.__name__ == name and cls.__module__.partition(".")[0] in ("adjoint", "torch")


def tensor_repr(t: Tensor, *, tensor_contents: str | None = None) -> str:
    """Return what `repr` shows of a tensor, a parameter or an instance of a subclass.

    Parameters
    ----------
    t : Tensor
        The tensor; nothing is recorded in its graph.
    tensor_contents : str, optional
        Text to show in place of the values, for subclasses that print themselves.
    """
    from adjoint import _core

    if level := _core._batch_level((t,)):
        from adjoint.func._vmap import depth_of

        held = _core._take_off(t, level, _core._size_at(t, level))

        return f"BatchedTensor(lvl={depth_of(level)}, bdim=0, value=\n    {tensor_repr(held)}\n)"
    cls = type(t)
    declared_parameter = any(_is_own_class(base, "Parameter") for base in cls.__mro__)
    plain = _is_own_class(cls, "Tensor") or _is_own_class(cls, "Parameter")
    prefix = "tensor(" if plain else f"{cls.__name__}("
    indent = len(prefix)
    if t._layout_name != "strided":
        return _sparse_text(t, prefix)
    if tensor_contents is None:
        tensor_contents = _contents(t.detach(), indent)
    text = _with_suffixes(prefix + tensor_contents, _suffixes(t), indent)
    if not plain and (declared_parameter or getattr(t, "_is_param", False)):
        text = f"Parameter({text})"
    return f"Parameter containing:\n{text}" if declared_parameter else text
