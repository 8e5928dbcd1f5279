"""Structures made twice, of adjoint's tensors and of PyTorch's; saved by one, loaded by the other.

`Maker` draws a random one with a seed; `same` compares across the two libraries.
"""

from __future__ import annotations

import enum
import io
import random
from collections import Counter, OrderedDict, defaultdict, deque
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import torch

import adjoint as ad

DTYPES = (
    "float32", "float64", "float16", "bfloat16", "int8", "int16", "int32", "int64", "uint8",
    "bool", "complex64", "complex128",
)  # fmt: skip


class Level(enum.Enum):
    LOW = 1
    HIGH = "high"


class Flags(enum.IntFlag):
    A = 1
    B = 2


class Pair(NamedTuple):
    a: Any
    b: Any


@dataclass
class Point:
    x: Any
    y: Any = None
    more: list[Any] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Fixed:
    n: Any


class Thing:
    """An object of the user's, with a state of its own."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __getstate__(self) -> dict[str, Any]:
        return {"kept": self.value}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.value = state["kept"]


def ours_to_theirs(obj: Any, weights_only: bool = False, **options: Any) -> Any:
    """What PyTorch loads of what adjoint saved."""
    file = io.BytesIO()
    ad.save(obj, file, **options)
    file.seek(0)
    return torch.load(file, weights_only=weights_only)


def theirs_to_ours(obj: Any, weights_only: bool = False, **options: Any) -> Any:
    """What adjoint loads of what PyTorch saved."""
    file = io.BytesIO()
    torch.save(obj, file, **options)
    file.seek(0)
    return ad.load(file, weights_only=weights_only)


class Maker:
    """Makes the same random structure for either library."""

    def __init__(self, library: Any, seed: Any) -> None:
        self.lib, self.rng = library, random.Random(seed)
        self.bases: list[Any] = []
        self.shared: list[Any] = []

    def tensor(self) -> Any:
        rng, lib = self.rng, self.lib
        if not self.bases or rng.random() < 0.4:
            dtype = getattr(lib, rng.choice(DTYPES))
            self.bases.append(lib.arange(24).to(dtype))
        t = rng.choice(self.bases)
        for _ in range(rng.randrange(4)):
            t = self._view(t)
        kind = rng.randrange(8)
        if kind == 0 and t.dtype.is_floating_point:
            t = lib.nn.Parameter(t.detach(), requires_grad=rng.random() < 0.5)
        elif kind == 1 and t.dtype.is_floating_point:
            t = t.detach().requires_grad_()
        elif kind == 2:
            t = t.detach()
            t.note = rng.choice(["a", 3, None])
        return t

    def _view(self, t: Any) -> Any:
        rng, kind = self.rng, self.rng.randrange(7)
        if kind == 0 and t.dim() and t.shape[0]:
            return t[rng.randrange(t.shape[0]) :]
        if kind == 1 and t.dim():
            return t[:: rng.randrange(1, 4)]
        if kind == 2 and t.is_contiguous() and t.numel() == 24:
            return t.reshape(rng.choice([(2, 12), (4, 3, 2), (1, 24), (24,)]))
        if kind == 3 and t.dim() > 1:
            return t.transpose(0, -1)
        if kind == 4:
            return t.unsqueeze(0).expand(2, *t.shape)
        if kind == 5 and t.dim() and t.shape[0]:
            return t[0]
        return t[:0] if kind == 6 and t.dim() else t

    def sparse(self) -> Any:
        dense = self.lib.eye(3) * self.rng.randrange(1, 5)
        return dense.to_sparse() if self.rng.random() < 0.5 else dense.to_sparse_csr()

    def scalar(self) -> Any:
        rng, lib = self.rng, self.lib
        kind = rng.randrange(18)
        if kind < 4:
            return rng.choice([None, True, False, 0, -1, 255, 256, 2**31, -(2**40), 2**70, 10**40])
        if kind < 6:
            return rng.choice([0.5, -0.0, 1e300, float("inf"), 1j, complex(-0.0, 2.0)])
        if kind < 8:
            return rng.choice(["", "a", "é\ud800\0", "cadjoint\nSize\n", "x" * 300, b"", b"\xff\0"])
        made: list[Any] = [
            lib.float32, lib.device("cpu"), lib.Size([2, 3]), Level.HIGH, Flags.A | Flags.B,
            PurePosixPath("a/b"), range(3, 9), slice(1, None), ..., bytearray(b"xy"),
        ]  # fmt: skip
        return made[kind - 8]

    def array(self) -> Any:
        code = self.rng.choice("?bBhHiIlLefdFD")
        made = np.arange(12).astype(code).reshape(3, 4)
        return self.rng.choice([made, made.T, made[:, 4:], made[1, 2], made[::2], np.array(code)])

    def key(self) -> Any:
        return self.rng.choice([1, "a", "b", (1, "c"), 2.5, None, True, frozenset({1}), b"k"])

    def any(self, depth: int = 0) -> Any:
        rng = self.rng
        if self.shared and rng.random() < 0.1:
            return rng.choice(self.shared)
        kind = rng.random()
        if depth > 4 or kind < 0.25:
            return self.scalar()
        if kind < 0.5:
            return self.tensor()
        if kind < 0.55:
            return self.array()
        if kind < 0.57:
            return self.sparse()
        made = self._container(depth + 1)
        self.shared.append(made)
        return made

    def _container(self, depth: int) -> Any:
        items = [self.any(depth) for _ in range(self.rng.randrange(4))]
        kind = self.rng.randrange(14)
        table = {self.key(): item for item in items}
        first = items[0] if items else None
        plain: list[Any] = [
            items, tuple(items), table, OrderedDict(table), defaultdict(list, table),
            deque(items, 5), {self.key() for _ in items}, Counter({"a": 1}),
            SimpleNamespace(**{f"n{i}": item for i, item in enumerate(items)}),
        ]  # fmt: skip
        if kind < len(plain):
            return plain[kind]
        if kind == 9:
            return Pair(first, items)
        if kind == 10:
            return Point(first, items)
        if kind == 11:
            return Fixed(first)
        return Thing(items) if kind == 12 else [items, items]


def same(a: Any, t: Any, met: dict[int, int] | None = None) -> None:
    """Assert that adjoint's ``a`` is what PyTorch's ``t`` is."""
    met = {} if met is None else met
    if isinstance(a, list | dict | set | deque | ad.Tensor | Point | Thing | np.ndarray):
        assert met.setdefault(id(a), id(t)) == id(t), "another sharing"
    if isinstance(a, ad.Tensor):
        same_tensor(a, t)
        return
    if isinstance(a, ad.dtype | ad.device):
        assert str(a) == str(t) and type(a).__name__ == type(t).__name__
        return
    assert type(a) is type(t) or type(a) is ad.Size, f"{type(a)} and {type(t)}"
    if isinstance(a, Point | Thing | SimpleNamespace):
        same(vars(a), vars(t), {**met})
    elif isinstance(a, Fixed):
        same(a.n, t.n, met)
    elif isinstance(a, dict):
        assert list(a) == list(t) and list(map(type, a)) == list(map(type, t))
        assert getattr(a, "default_factory", 0) == getattr(t, "default_factory", 0)
        for v, w in zip(a.values(), t.values(), strict=True):
            same(v, w, met)
    elif isinstance(a, list | tuple | deque):
        for v, w in zip(a, t, strict=True):
            same(v, w, met)
        assert getattr(a, "maxlen", None) == getattr(t, "maxlen", None)
    elif isinstance(a, np.ndarray | np.generic):
        assert a.dtype == t.dtype and a.shape == t.shape and a.tobytes() == t.tobytes()
    elif isinstance(a, set | frozenset):
        assert {(type(v), v) for v in a} == {(type(v), v) for v in t}
    else:
        assert repr(a) == repr(t)


def same_tensor(a: Any, t: Any) -> None:
    """Assert that two tensors have the same values, geometry and flags."""
    assert str(a.dtype) == str(t.dtype) and tuple(a.shape) == tuple(t.shape)
    assert type(a).__name__ == type(t).__name__
    assert a.requires_grad == t.requires_grad and a.is_leaf and t.is_leaf
    assert str(a.layout) == str(t.layout)
    if str(a.layout) == "torch.strided":
        assert a.stride() == t.stride() and a.storage_offset() == t.storage_offset()
        assert a.untyped_storage().nbytes() == t.untyped_storage().nbytes()
        assert a.detach().tolist() == t.detach().tolist()
    else:
        assert a.detach().to_dense().tolist() == t.detach().to_dense().tolist()
    assert vars(a) == vars(t)


def tensors(obj: Any) -> list[Any]:
    """The strided tensors in a structure, in order."""
    if isinstance(obj, ad.Tensor | torch.Tensor):
        return [obj] if str(obj.layout) == "torch.strided" else []
    if isinstance(obj, dict):
        obj = list(obj.values())
    elif isinstance(obj, Point | Thing | SimpleNamespace):
        obj = list(vars(obj).values())
    elif isinstance(obj, Fixed):
        obj = [obj.n]
    if isinstance(obj, list | tuple | deque):
        return [t for part in obj for t in tensors(part)]
    return []


def sharing(obj: Any) -> list[int]:
    """For each tensor, the first one on the same storage."""
    found, first = [], dict[int, int]()
    for i, t in enumerate(tensors(obj)):
        storage = t.untyped_storage()
        place = storage.data_ptr() if storage.nbytes() else -i - 1
        found.append(first.setdefault(place, i))
    return found
