"""The result of an external: taken apart into arrays, checked, and made into tensors.

Read next: _point.py.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any
from weakref import getweakrefcount

import numpy as np

from adjoint import _core, _tree
from adjoint._core import Tensor
from adjoint._tensor import creation as _creation
from adjoint.numeric._errors import EvaluationError

from ._arguments import as_array

__all__ = ["PLAIN", "Outputs", "owned", "plain_leaves"]


_ZERO = bytes(32)
PLAIN = (np.dtype(np.float64), np.dtype(np.float32))  # NumPy has one object of each


def plain_leaves(raw: Any) -> tuple[list[Any], Any]:
    """The leaves of a result, tensors as arrays; and its structure (None for one leaf)."""
    if isinstance(raw, np.ndarray):
        return [raw], None
    leaves, spec = _tree.flatten(raw)
    arrays = [leaf.numpy(force=True) if isinstance(leaf, Tensor) else leaf for leaf in leaves]
    return arrays, None if spec.is_leaf() else spec


def _is_numeric(leaf: Any) -> bool:
    return isinstance(leaf, (np.ndarray, np.generic)) or type(leaf) in (float, complex)


def owned(leaves: list[Any]) -> list[Any]:
    """Copy arrays that somebody else holds too.

    A function may return its argument, a view, or a buffer that its next call overwrites. An array
    that is new is held by the list and by the argument of getrefcount only.
    """
    for k in range(len(leaves)):
        if not isinstance(leaves[k], np.ndarray):
            if _is_numeric(leaves[k]):
                leaves[k] = np.asarray(leaves[k])
            continue
        alone = sys.getrefcount(leaves[k]) == 2  # asked first: .flags holds the array too
        flags = leaves[k].flags
        new = alone and flags.owndata and flags.writeable and not getweakrefcount(leaves[k])
        del flags
        if not new:
            leaves[k] = leaves[k].copy()
    return leaves


class Outputs:
    """The leaves of one result; those that are numbers, and those that are differentiable."""

    __slots__ = ("differentiable", "leaves", "name", "spec", "weak")

    def __init__(self, box: list[Any], declared: Sequence[int | str], name: str) -> None:
        # The result comes in a box, so that nobody up the stack holds it: see owned.
        self.name = name
        raw = box.pop()
        leaves, self.spec = plain_leaves(raw)
        del raw
        self.weak = [type(leaf) in (float, complex) for leaf in leaves]
        owned(leaves)
        self.leaves: list[Any] = leaves
        excluded = self._declared(declared) if declared else ()
        self.differentiable = [
            k
            for k, leaf in enumerate(self.leaves)
            if isinstance(leaf, np.ndarray) and leaf.dtype.kind in "fc" and k not in excluded
        ]

    @classmethod
    def of_arrays(cls, leaves: list[Any], several: bool, name: str) -> Outputs:
        """A result of one float array or number, or of a tuple of them."""
        made: Outputs = object.__new__(cls)
        made.name, made.leaves = name, leaves
        made.spec = _tree.flatten(tuple(leaves))[1] if several else None
        made.weak, made.differentiable = [False] * len(leaves), list(range(len(leaves)))
        return made

    def _declared(self, declared: Sequence[int | str]) -> set[int]:
        """The leaves that ``nondifferentiable=`` names, by position or entry."""
        if self.spec is None:
            entries: list[Any] = [0]
            counts = [1]
        else:
            entries = self.spec.entries()
            counts = [child.num_leaves for child in self.spec.children()]
        starts = [0, *np.cumsum(counts).tolist()]
        found: set[int] = set()
        for item in declared:
            if item not in entries:
                raise ValueError(
                    f"nondifferentiable={list(declared)!r}: {self.name} returned "
                    f"{', '.join(repr(e) for e in entries)}, not {item!r}"
                )
            at = entries.index(item)
            found |= set(range(starts[at], starts[at + 1]))
        return found

    def let_go(self) -> None:
        """Drop the memory of arrays, which the tensors made of them own now; keep their form."""
        for k, leaf in enumerate(self.leaves):
            if isinstance(leaf, np.ndarray) and leaf.ndim:
                flat = (0,) * leaf.ndim  # every element is the same one
                self.leaves[k] = np.ndarray(leaf.shape, leaf.dtype, _ZERO, 0, flat)

    def filled(self, tensors: Sequence[Any]) -> Outputs:
        """The same with the values of tensors again; single numbers have kept theirs."""
        return self._of(tensors, lambda leaf, tensor: as_array(tensor) if leaf.ndim else leaf)

    def of_numbers(self, tensors: Sequence[Any]) -> Outputs:
        """The same form of another call: single numbers are those of its tensors."""
        return self._of(
            tensors,
            lambda leaf, tensor: leaf if leaf.ndim else np.asarray(tensor.item(), leaf.dtype),
        )

    def _of(self, tensors: Sequence[Any], of: Callable[[Any, Any], Any]) -> Outputs:
        """The same with other arrays, each made of one that is there and its tensor."""
        again: Outputs = object.__new__(Outputs)
        again.name, again.spec, again.weak = self.name, self.spec, self.weak
        again.differentiable = self.differentiable
        rest = iter(tensors)
        again.leaves = [
            of(leaf, next(rest)) if isinstance(leaf, np.ndarray) else leaf for leaf in self.leaves
        ]
        return again

    def refuse_other(self, other: Outputs, sample: int) -> None:
        """Raise if the result of another sample of a batch cannot be put beside this one."""
        if other.spec != self.spec or len(other.leaves) != len(self.leaves):
            raise EvaluationError(
                f"{self.name} returned a result of another form for sample {sample} of the batch: "
                f"{_form(other.spec)}, where the first one gave {_form(self.spec)}"
            )
        for name, one, two in zip(self.names(), self.leaves, other.leaves, strict=True):
            arrays = isinstance(one, np.ndarray), isinstance(two, np.ndarray)
            if (arrays == (False, False) and not _is_same(one, two)) or arrays[0] != arrays[1]:
                shown = [
                    repr(v.item() if v.size == 1 else v) if isinstance(v, np.ndarray) else repr(v)
                    for v in (one, two)
                ]
                raise EvaluationError(
                    f"{self.name} returned {name} = {shown[0]} for the first sample of the batch "
                    f"and {shown[1]} for sample {sample}, which cannot be put together.\n"
                    "  fix: return it as a float (0.0 for 0), or as an array (np.asarray(n))"
                )

    def numeric(self) -> list[int]:
        """The leaves that become tensors."""
        return [k for k, leaf in enumerate(self.leaves) if isinstance(leaf, np.ndarray)]

    def names(self) -> list[str]:
        """Where each leaf stands: ``output['drag']``."""
        return ["output"] if self.spec is None else _tree.paths(self.spec, "output")

    def tensors(self, dtype: Any) -> list[Any]:
        """The numbers as tensors; plain Python floats get ``dtype``, that of the inputs."""
        made: list[Any] = []
        for leaf, weak in zip(self.leaves, self.weak, strict=True):
            if not isinstance(leaf, np.ndarray):
                continue
            tensor = _core_tensor(leaf, self.name)
            if weak and dtype is not None:  # a Python number has the digits of the inputs
                kind = tensor.dtype if leaf.dtype.kind == "c" else dtype
                tensor = tensor.to(_of_kind(kind, dtype))
            made.append(tensor)
        return made

    def rebuild(self, tensors: Sequence[Tensor]) -> Any:
        """The result with tensors in the place of its numbers."""
        rest = iter(tensors)
        return self.structured(
            [next(rest) if isinstance(leaf, np.ndarray) else leaf for leaf in self.leaves]
        )

    def structured(self, leaves: Sequence[Any]) -> Any:
        """Something built like the result, of other leaves."""
        return leaves[0] if self.spec is None else _tree.unflatten(self.spec, leaves)

    def same_form(self, raw: Any, where: str) -> list[Any]:
        """The differentiable arrays of another evaluation, which must have the same form."""
        leaves, spec = plain_leaves(raw)
        if spec != self.spec or len(leaves) != len(self.leaves):
            raise EvaluationError(
                f"{self.name} returned a result of another form{_at(where)}: "
                f"{_form(spec)}, where the first call gave {_form(self.spec)}",
                where,
            )
        names = self.names()
        return [self._checked(leaves[k], k, names[k], where) for k in self.differentiable]

    def _checked(self, leaf: Any, k: int, name: str, where: str) -> Any:
        wanted = self.leaves[k]
        # A whole number where there was a float: max(0.0, x) and the like.
        array = np.asarray(float(leaf) if type(leaf) is int and wanted.dtype.kind == "f" else leaf)
        if array.shape != wanted.shape:
            raise EvaluationError(
                f"{self.name} returned {name} of shape {list(array.shape)}{_at(where)}, "
                f"but of shape {list(wanted.shape)} for the unperturbed input",
                where,
            )
        if array.dtype != wanted.dtype:
            raise EvaluationError(
                f"{self.name} returned {name} of dtype {array.dtype}{_at(where)}, "
                f"but of dtype {wanted.dtype} for the unperturbed input",
                where,
            )
        return array


def _is_same(one: Any, two: Any) -> bool:
    try:
        return bool(one == two) or one is two
    except Exception:
        return one is two


def _core_tensor(array: Any, name: str) -> Tensor:
    try:
        if array.ndim == 0 or not array.dtype.isnative:
            made: Tensor = _creation.tensor(array)
            return made
        return _creation.from_numpy(array)
    except TypeError as error:
        raise TypeError(f"{name} returned an array of dtype {array.dtype}: {error}") from None


def _of_kind(kind: Any, dtype: Any) -> Any:
    """The dtype with the digits of one, and complex if the other is."""
    if not kind.is_complex or dtype.is_complex:
        return dtype
    return _core.complex128 if dtype == _core.float64 else _core.complex64


def _at(where: str) -> str:
    return f" at {where}" if where else ""


def _form(spec: Any) -> str:
    return "one value" if spec is None else str(spec)


def tensor_dtype(dtypes: Sequence[Any]) -> Any:
    """The dtype that plain floats of a result get: the common one of the input tensors."""
    result = None
    for dtype in dtypes:
        result = dtype if result is None else _core.promote_types(result, dtype)
    return result
