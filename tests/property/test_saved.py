"""Structures drawn at random come back from a file as they were: types, values, sharing.

In both formats: PyTorch's, and safetensors.
"""

from __future__ import annotations

import enum
import io
import struct
from collections import Counter, OrderedDict, defaultdict, deque
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import adjoint as ad

DTYPES = (ad.float32, ad.float64, ad.int64, ad.uint8, ad.bool, ad.bfloat16, ad.complex64)

NUMPY = "?bBhHiIlLqQefdgFDG"
NAMES = st.sampled_from(["file.pt", "file.safetensors"])


class File(io.BytesIO):
    """A file in memory with a name, which tells the format."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name


class Level(enum.Enum):
    LOW = 1
    HIGH = "high"


class Pair(NamedTuple):
    a: Any
    b: Any


@dataclass
class Point:
    x: Any
    y: Any = None


@st.composite
def arrays(draw: st.DrawFn) -> Any:
    """A NumPy array, or one of its elements."""
    made = np.arange(12).astype(draw(st.sampled_from(NUMPY))).reshape(3, 4)
    kind = draw(st.integers(0, 5))
    if kind == 0:
        return made[1, 2]
    if kind == 1:
        made = made.T
    elif kind == 2:
        made = made[:, 4:]
    elif kind == 3:
        made = made[::2, ::-1].copy()
        made.flags.writeable = False
    elif kind == 4:
        made = np.array(made[0, 1])
    return made


scalars = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.complex_numbers(), st.text(),
    st.binary(), st.integers(-(2**200), 2**200), st.sampled_from(DTYPES),
    st.floats(width=32).map(np.float32), st.floats().map(np.float64), st.just(...),
    st.integers(0, 255).map(np.uint8), st.builds(range, st.integers(), st.integers()),
    arrays(), st.sampled_from(Level), st.lists(st.integers(0, 9)).map(ad.Size),
    st.sampled_from(["a", "/b/c", "."]).map(PurePosixPath), st.just(ad.device("cpu")),
    st.builds(slice, st.integers(), st.none() | st.integers()),
)  # fmt: skip
keys = st.one_of(
    st.booleans(), st.integers(), st.text(), st.none(), st.floats(allow_nan=False), st.binary(),
    st.tuples(st.integers(), st.text()), st.frozensets(st.integers()), st.sampled_from(Level),
    st.integers(0, 9).map(np.int64), st.builds(Pair, st.integers(), st.text()),
)  # fmt: skip


@st.composite
def storages(draw: st.DrawFn) -> list[Any]:
    """A few tensors on one storage."""
    base = ad.arange(24).to(draw(st.sampled_from(DTYPES)))
    made = [base]
    for _ in range(draw(st.integers(0, 3))):
        view = draw(st.sampled_from(made))
        kind = draw(st.integers(0, 5))
        if kind == 0 and view.dim():
            view = view[draw(st.integers(0, view.shape[0])) :]
        elif kind == 1 and view.dim():
            view = view[:: draw(st.integers(1, 4))]
        elif kind == 2 and view.shape == (24,):
            view = view.view(draw(st.sampled_from([(2, 12), (4, 3, 2), (1, 24)])))
        elif kind == 3 and view.dim() > 1:
            view = view.transpose(0, -1)
        elif kind == 4:
            view = view.unsqueeze(0).expand(2, *view.shape)
        elif kind == 5 and view.dtype.is_floating_point and view.is_leaf:
            view = view.detach().requires_grad_()
        made.append(view)
    return draw(st.lists(st.sampled_from(made), min_size=1, max_size=4))


def containers(inner: Any) -> Any:
    tables = st.dictionaries(keys, inner, max_size=4)
    return st.one_of(
        st.lists(inner, max_size=4), st.lists(inner, max_size=4).map(tuple), tables,
        tables.map(OrderedDict), tables.map(lambda t: defaultdict(list, t)), tables.map(Counter),
        st.lists(inner, max_size=4).map(deque), st.sets(keys, max_size=4),
        st.lists(inner, min_size=1, max_size=3).map(lambda items: [*items, items[0]]),
        st.builds(Pair, inner, inner), st.builds(Point, inner), st.builds(Point, inner, inner),
    )  # fmt: skip


structures = st.recursive(st.one_of(scalars, storages()), containers, max_leaves=12)


def bits(value: float) -> bytes:
    return struct.pack(">d", value)


def same(a: Any, b: Any, met: dict[int, int]) -> None:
    """Assert that ``b`` is what ``a`` was; ``met`` pairs the objects that were met before."""
    # NumPy's pickles make an int64 of a longlong, which has as many bytes.
    assert type(a) is type(b) or isinstance(a, np.longlong | np.ulonglong)
    if isinstance(a, list | dict | set | deque | Point | ad.Tensor | np.ndarray):
        assert met.setdefault(id(a), id(b)) == id(b)
    if isinstance(a, float):
        assert bits(a) == bits(b)
    elif isinstance(a, complex):
        assert bits(a.real) == bits(b.real) and bits(a.imag) == bits(b.imag)
    elif isinstance(a, np.generic | np.ndarray):
        assert a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()
        assert a.flags.c_contiguous <= b.flags.c_contiguous or a.flags.f_contiguous
    elif isinstance(a, Point):
        same(vars(a), vars(b), {})
    elif isinstance(a, ad.Tensor):
        same_tensor(a, b)
    elif isinstance(a, dict):
        assert getattr(a, "default_factory", None) is getattr(b, "default_factory", None)
        for (k, v), (key, w) in zip(a.items(), b.items(), strict=True):
            same(k, key, met)
            same(v, w, met)
    elif isinstance(a, list | tuple | deque):
        for v, w in zip(a, b, strict=True):
            same(v, w, met)
    else:
        assert a == b
        if isinstance(a, set | frozenset):
            assert {(type(v), v) for v in a} == {(type(v), v) for v in b}


def same_tensor(a: Any, b: Any) -> None:
    assert b.is_leaf  # histories are not saved
    for what in ("dtype", "shape", "requires_grad"):
        assert getattr(a, what) == getattr(b, what)
    assert a.stride() == b.stride() and a.storage_offset() == b.storage_offset()
    assert ad.equal(a.detach(), b.detach())


def tensors(obj: Any) -> list[Any]:
    if isinstance(obj, ad.Tensor):
        return [obj]
    if isinstance(obj, dict):
        obj = list(obj.values())
    if isinstance(obj, Point):
        obj = [obj.x, obj.y]
    return (
        [t for part in obj for t in tensors(part)] if isinstance(obj, list | tuple | deque) else []
    )


@settings(max_examples=150, deadline=None)
@given(structures, NAMES)
def test_structures_come_back(obj: Any, name: str) -> None:
    buffer = File(name)
    ad.save(obj, buffer)
    buffer.seek(0)
    back = ad.load(buffer)
    same(obj, back, {})
    # Memory is shared exactly where it was.
    ours, theirs = tensors(obj), tensors(back)
    for i, t in enumerate(ours):
        for j in range(i):
            shared = t.untyped_storage() == ours[j].untyped_storage()
            assert (theirs[i].untyped_storage() == theirs[j].untyped_storage()) == shared
    assert not any(t.untyped_storage() == s.untyped_storage() for t in ours for s in theirs)


@settings(max_examples=100, deadline=None)
@given(structures, st.data(), NAMES)
def test_what_is_cut_off_is_refused(obj: Any, data: Any, name: str) -> None:
    buffer = File(name)
    ad.save(obj, buffer)
    whole = buffer.getvalue()
    cut = data.draw(st.integers(0, len(whole) - 1))
    try:
        ad.load(io.BytesIO(whole[:cut]))
    except ad.serialization.LoadError as error:
        assert "cannot load the file" in str(error)
    else:
        raise AssertionError(f"the first {cut} of {len(whole)} bytes were loaded")


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3), structures), max_size=5))
def test_what_cannot_be_saved_is_named_by_its_place(around: list[Any]) -> None:
    obj: Any = test_structures_come_back  # a function
    place = ""
    for kind, n, other in around:
        if kind == 0:
            obj, step = [*[other] * n, obj], f"[{n}]"
        elif kind == 1:
            obj, step = {"other": other, "key": obj}, "['key']"
        elif kind == 2:
            obj, step = Pair(other, obj), ".b"
        else:
            obj, step = Point(obj, other), ".x"
        place = step + place
    buffer = File("file.safetensors")
    with pytest.raises(TypeError) as caught:
        ad.save(obj, buffer)
    assert str(caught.value).startswith(f"cannot save the object{place}: ")
    assert buffer.getvalue() == b""
