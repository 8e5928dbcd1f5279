"""uint16, uint32 and uint64 beside torch: every op on its samples, promotion, conversions, calls.

torch stores and moves these dtypes and computes with few ops. What it computes is computed here
with the same result, what it refuses is refused with its class; adjoint moves elements in some
places where torch has no loop for it.
"""

from __future__ import annotations

import io
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from tests.conformance.test_against_torch import error_of, same_error
from tests.ops.samples import OPS
from tests.ops.spec import (
    DTYPES,
    Arr,
    Array,
    Op,
    Sample,
    dtype_name,
    outputs,
    to_library,
    to_numpy,
)

torch = pytest.importorskip("torch")

pytestmark = [
    pytest.mark.filterwarnings(r"ignore:[\s\S]*Triggered internally:UserWarning"),
    pytest.mark.filterwarnings("ignore:Casting complex values to real:UserWarning"),
]

WIDE = ("uint16", "uint32", "uint64")
NAMES = [d for group in DTYPES.values() for d in group]

# Elements are moved, counted or found here, or made floats, which torch has no loop for.
MORE_HERE = {
    "argwhere", "channel_shuffle", "combinations", "count_nonzero", "flip", "fliplr", "flipud",
    "gather", "igamma", "igamma_by_x", "igammac", "igammac_by_x", "index_copy", "index_fill",
    "index_put", "index_put_added", "index_select", "local_response_norm", "masked_fill",
    "masked_scatter", "masked_select", "native_channel_shuffle", "nonzero", "nonzero_as_tuple",
    "pad_reflect", "pad_replicate", "pixel_shuffle", "pixel_unshuffle", "put", "put_added", "rot90",
    "scatter", "scatter_scalar", "take", "take_along_dim", "tensordot", "tril", "triu",
}  # fmt: skip
# torch has one case of each: powers of 0, a number among the arguments, elements of 0-d tensors.
REFUSED_HERE = {
    "bucketize", "cummax", "cummin", "index_reduce", "isin", "kthvalue", "mode", "pow",
    "pow_integers", "searchsorted", "topk",
}  # fmt: skip


def drawn(op: Op, sample: Sample, dtype: str, top: bool) -> Sample | None:
    """The sample with the arrays that have no dtype of their own in `dtype`; None if it has none.
    Small numbers, or (`top`) with the highest bit set.
    """
    found = False

    def draw(a: Any) -> Any:
        nonlocal found
        if not isinstance(a, Arr) or a.dtype is not None:
            return a
        found = True
        values: Array = a.draw("uint8", np.random.default_rng(7)).astype(dtype)
        highest = np.array(1 << (8 * values.itemsize - 1), dtype)
        return np.asarray(values | highest) if top else values

    made = sample.map(draw).draw("uint8", op.name)
    return made if found else None


def sizes(sample: Sample) -> list[int]:
    found: list[int] = []

    def look(a: Any) -> Any:
        if isinstance(a, np.ndarray):
            found.append(a.size)
        return a

    sample.map(look)
    return found


def call(library: Any, op: Op, sample: Sample) -> list[Any]:
    converted = sample.map(lambda a: to_library(a, library))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return outputs(op.function(library)(*converted.args, **converted.kwargs))


def check(name: str, dtype: str, sample: Sample, top: bool) -> str:
    """What is wrong with one call."""
    op = OPS[name]
    given = drawn(op, sample, dtype, top)
    if given is None:
        return ""
    theirs, ours = (error_of(partial(call, library, op, given)) for library in (torch, ad))
    label = f"{name}({sample}) in {dtype}"
    if theirs is not None:
        fine = same_error(ours, theirs) or (ours is None and name in MORE_HERE)
        return "" if fine else f"{label}: {ours}, torch {theirs}"
    if ours is not None:
        refused = name in REFUSED_HERE or 0 in sizes(given)  # torch finds nothing to compute
        fine = refused and issubclass(ours, RuntimeError)
        return "" if fine else f"{label}: {ours}, torch computes it"
    got, want = call(ad, op, given), call(torch, op, given)
    if [dtype_name(t) for t in got] != [dtype_name(t) for t in want]:
        return f"{label}: {got}, torch {want}"
    if top and any(dtype_name(t) not in ("bool", "int64", *WIDE) for t in want):
        return ""  # functions of huge numbers are another matter
    for a, b in zip(got, want, strict=True):
        rtol = 1e-5 if dtype_name(b) in ("float32", "complex64") else 0
        np.testing.assert_allclose(to_numpy(a), to_numpy(b), rtol, rtol, err_msg=label)
    return ""


@pytest.mark.parametrize("start", range(8))
def test_ops_compute_and_refuse_what_torch_does(start: int) -> None:
    wrong = []
    for name in list(OPS)[start::8]:
        for k, sample in enumerate(OPS[name].samples[:6]):
            text = check(name, WIDE[k % 3], sample, top=k % 2 == 1)
            if text:
                wrong.append(text)
    assert not wrong, "\n".join(wrong)


def outcome(run: Callable[[], Any]) -> str:
    """The value as text, or the class of its error."""
    try:
        value = run()
    except (RuntimeError, TypeError, ValueError, IndexError, OverflowError) as error:
        kind = type(error)
        return "RuntimeError" if issubclass(kind, RuntimeError) else kind.__name__
    return str(value)


def made(library: Any, dtype: str, shape: tuple[int, ...]) -> Any:
    return library.ones(shape, dtype=getattr(library, dtype))


@pytest.mark.parametrize("left", WIDE)
def test_promotion_is_that_of_torch(left: str) -> None:
    for right in [*NAMES, *WIDE]:
        for function in ("promote_types", "can_cast"):
            for one, other in ((left, right), (right, left)):
                ours, theirs = (
                    outcome(
                        lambda m=m: getattr(m, function)(getattr(m, one), getattr(m, other))  # noqa: B023
                    )
                    for m in (ad, torch)
                )
                assert ours == theirs, (function, one, other)
    for shape in ((2,), ()):
        # A larger int counts as a tensor without axes here.
        for right in [*NAMES, *WIDE, True, 2, 2.5, 1 + 2j, *([2**63] if shape else [])]:
            for other_shape in ((2,), ()):
                ours, theirs = (
                    outcome(
                        lambda m=m: m.result_type(
                            made(m, left, shape),  # noqa: B023
                            made(m, right, other_shape) if isinstance(right, str) else right,  # noqa: B023
                        )
                    )
                    for m in (ad, torch)
                )
                assert ours == theirs, (left, shape, right, other_shape)


@pytest.mark.parametrize("dtype", WIDE)
def test_conversions_are_those_of_torch(dtype: str) -> None:
    bits = 8 * np.dtype(dtype).itemsize
    numbers = np.array([0, 1, 2, 255, 256, 2**15, 2**15 + 1, 2**16 - 1, 2 ** (bits - 1)], dtype)
    numbers = np.concatenate([numbers, np.array([2**bits - 1, 2**bits - 2], dtype)])
    for strided in (1, 2):
        for other in [*NAMES, *WIDE]:
            ours, theirs = (
                m.from_numpy(np.repeat(numbers, 3))[::strided].to(getattr(m, other))
                for m in (ad, torch)
            )
            np.testing.assert_array_equal(to_numpy(ours), to_numpy(theirs), f"to {other}")
        for other in [*NAMES, *WIDE]:
            floats = [0.0, 1.9, 100.5, 126.0, -1.0, -3.7]
            if other in ("float32", "float64", "complex64", "complex128"):
                floats += [65535.0, 2.0 ** (bits - 1), 2.0**bits * 0.75, 2.0 ** (bits - 1) - 2**40]
            ours, theirs = (
                m.tensor(floats).to(getattr(m, other)).repeat(9)[::strided].to(getattr(m, dtype))
                for m in (ad, torch)
            )
            np.testing.assert_array_equal(to_numpy(ours), to_numpy(theirs), f"from {other}")


def assigned(x: Any, key: Any, value: Any) -> Any:
    x[key] = value
    return x


def saved(m: Any, x: Any) -> Any:
    file = io.BytesIO()
    torch.save(torch.from_numpy(x.numpy()), file)
    file.seek(0)
    return m.load(file)


# Calls of a library `m` with a dtype `d` and the tensor `x`: 0, 1, 5 and the largest number.
CALLS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "repr": lambda m, d, x: repr(x),
    "repr of many": lambda m, d, x: repr(x.repeat(600)),
    "repr of one": lambda m, d, x: (repr(x[3]), repr(m.zeros(0, dtype=d))),
    "item": lambda m, d, x: (x[3].item(), x.tolist(), float(x[2]), bool(x[1]), [7, 8][x[1]]),
    "dtype": lambda m, d, x: (d.is_signed, d.is_floating_point, d.itemsize, x.is_signed()),
    "iinfo": lambda m, d, x: repr(m.iinfo(d)),
    "type": lambda m, d, x: (x.type(), m.zeros(2).type(d), x.type(m.float32)),
    "type by name": lambda m, d, x: m.zeros(2).type(x.type()),
    "numpy": lambda m, d, x: (x.numpy().dtype, np.asarray(x).dtype, m.as_tensor(x.numpy())),
    "arrays": lambda m, d, x: (m.tensor(x.numpy()), m.asarray([1, 2], dtype=d)),
    "dlpack": lambda m, d, x: m.from_dlpack(x),
    "buffer": lambda m, d, x: m.frombuffer(bytearray(range(16)), dtype=d),
    "creation": lambda m, d, x: [
        m.zeros(2, dtype=d), m.ones(2, dtype=d), m.full((2,), 7, dtype=d), m.zeros_like(x),
        m.ones_like(x), m.full_like(x, 9), x.new_tensor([1, 2]), x.new_full((2,), 3),
        x.new_zeros(2), m.empty(2, dtype=d).fill_(3), m.scalar_tensor(4, dtype=d),
    ],
    "arange": lambda m, d, x: m.arange(4, dtype=d),
    "linspace": lambda m, d, x: m.linspace(0, 1, 4, dtype=d),
    "eye": lambda m, d, x: m.eye(2, dtype=d),
    "rand": lambda m, d, x: m.rand(2, dtype=d),
    "randperm": lambda m, d, x: m.randperm(4, dtype=d),
    "tril_indices": lambda m, d, x: m.tril_indices(2, 2, dtype=d),
    "bernoulli": lambda m, d, x: x.bernoulli_(0.5),
    "randint": lambda m, d, x: (m.manual_seed(3), m.randint(0, 60000, (50,), dtype=d))[1],
    "random": lambda m, d, x: (m.manual_seed(3), x.random_(5, 9))[1],
    "random_": lambda m, d, x: x.random_(),
    "randint too far": lambda m, d, x: m.randint(-1, 6, (2,), dtype=d),
    "views": lambda m, d, x: [
        x.view(2, 2), x.view(m.uint8), x.reshape(2, 2).t(), x[::2], x[1:], x[None], x[..., 0],
        x.expand(2, 4), x.unfold(0, 2, 1), x.view(2, 2).diagonal(), *x.chunk(2), *x.unbind(),
    ],
    "signed view": lambda m, d, x: x.view({2: m.int16, 4: m.int32, 8: m.int64}[d.itemsize]),
    "from view": lambda m, d, x: m.tensor([-1, 3]).view(d),
    "index": lambda m, d, x: [x[[0, 3]], x[m.tensor([3, 1])], x[x == 5], x[x != 0]],
    "as an index": lambda m, d, x: m.arange(9)[x[:3]],
    "as one index": lambda m, d, x: m.arange(9)[x[2]],
    "set": lambda m, d, x: [assigned(x, 0, 9), assigned(x, slice(1, 3), m.tensor([3.0, 4.0]))],
    "set too far": lambda m, d, x: assigned(x, 0, 2**63 - 1 if d.itemsize < 8 else 1),
    "set negative": lambda m, d, x: assigned(x, 0, -3),
    "set minus a half": lambda m, d, x: assigned(x, 0, -0.5),
    "fill": lambda m, d, x: [x.fill_(n).tolist() for n in (3, -1, 1.5, m.tensor(4))],
    "zero": lambda m, d, x: x.zero_(),
    "fill too far": lambda m, d, x: x.fill_(2**40 if d.itemsize < 8 else 1),
    "fill a large one": lambda m, d, x: x.fill_(2**64 - 1) if d.itemsize == 8 else x,
    "fill minus": lambda m, d, x: x.fill_(-0.5),
    "fill beyond": lambda m, d, x: x.fill_(1e20),
    "fill complex": lambda m, d, x: x.fill_(1j),
    "copy": lambda m, d, x: [x.copy_(m.tensor([1, 2, 3, 4])), x.copy_(m.tensor(2.5)), x.clone()],
    "tensor": lambda m, d, x: [m.tensor([[1, 2]], dtype=d), m.tensor(True, dtype=d)],
    "tensor negative": lambda m, d, x: m.tensor([-1], dtype=d),
    "tensor too far": lambda m, d, x: m.tensor([2**40], dtype=d),
    "tensor of the largest": lambda m, d, x: m.tensor([2**64 - 1], dtype=d),
    "tensor beyond": lambda m, d, x: m.tensor([2**64], dtype=d),
    "full too far": lambda m, d, x: m.full((1,), 2**40, dtype=d),
    "equal": lambda m, d, x: [
        x == 5, x != x.flatten(), m.equal(x, x.clone()), 5 in x, x == 2**64 - 1, x == -1,
        m.isclose(x, x), m.allclose(x, x), x == 1.5, x == True,  # noqa: E712
    ],
    "products": lambda m, d, x: [x * 3, x * x, 2 * x, x * 2.5, x * 1j, x * m.tensor(3), x * True],
    "quotients": lambda m, d, x: [x / 2, x / x, 1 / x],
    "product in place": lambda m, d, x: [x.mul_(3), x.__iand__(6)],
    "product of a float in place": lambda m, d, x: x.mul_(1.5),
    "quotient in place": lambda m, d, x: x.div_(2),
    "into a float": lambda m, d, x: [m.ones(4).mul_(x), m.ones(4).add_(x), x.float() + x],
    "bits": lambda m, d, x: [x & 5, x | 8, x ^ x, 3 & x, x & x],
    "bits of floats": lambda m, d, x: x & 1.5,
    "sum": lambda m, d, x: [x.sum(), x.sum(0, keepdim=True), x[:3].prod(), x.cumsum(0), x.any()],
    "sum in": lambda m, d, x: [x.sum(dtype=m.float64), x.all(), x.mean(dtype=m.float32)],
    "sum to": lambda m, d, x: x.sum(dtype=d),
    "sum of others to": lambda m, d, x: m.ones(3).sum(dtype=d),
    "cumsum to": lambda m, d, x: m.tensor([1, 2]).cumsum(0, dtype=d),
    "mean": lambda m, d, x: x.mean(),
    "sort": lambda m, d, x: [*x.sort(descending=True), x[[3, 0, 2]].argsort(), x.sort()[0]],
    "unique": lambda m, d, x: x.repeat(2).unique(return_inverse=True, return_counts=True),
    "where": lambda m, d, x: [m.where(x == 5, x, x * 2), m.where(x == 5, x, 3)],
    "cat": lambda m, d, x: [m.cat([x, x]), m.stack([x, x]), m.cat([x, m.ones(2)]), x.roll(1)],
    "cat of two": lambda m, d, x: m.cat([x, m.ones(2, dtype=m.int64)]),
    "out": lambda m, d, x: m.mul(m.tensor([1, 2]), 2, out=m.zeros(2, dtype=d)),
    "out of a sum": lambda m, d, x: m.add(m.tensor([1, 2]), 2, out=m.zeros(2, dtype=d)),
    "out of a float": lambda m, d, x: m.sin(m.ones(2), out=m.zeros(2, dtype=d)),
    "out of eq": lambda m, d, x: m.eq(m.ones(2), 1, out=m.zeros(2, dtype=d)),
    "add": lambda m, d, x: x + x,
    "minus": lambda m, d, x: -x,
    "less": lambda m, d, x: x < x,
    "less than a float": lambda m, d, x: [x < 2.5, x < m.ones(4), x.clamp(0.5, 2.5), x + 0.5],
    "max": lambda m, d, x: x.max(),
    "power": lambda m, d, x: x**2,
    "not": lambda m, d, x: ~x,
    "shift": lambda m, d, x: x << 1,
    "matrix product": lambda m, d, x: x.view(2, 2) @ x.view(2, 2),
    "product with a bool": lambda m, d, x: x * m.tensor([True] * 4),
    "product with an int": lambda m, d, x: x * m.ones(4, dtype=m.int64),
    "product with a byte": lambda m, d, x: x * m.ones(4, dtype=m.uint8),
    "into an int": lambda m, d, x: m.ones(4, dtype=m.int64).mul_(x),
    "comparison with an int": lambda m, d, x: x == m.ones(4, dtype=m.int64),
    "gradient": lambda m, d, x: x.requires_grad_(),
    "cast of a leaf": lambda m, d, x: m.ones(2, requires_grad=True).to(d).requires_grad,
    "default": lambda m, d, x: m.set_default_dtype(d),
    "vmap": lambda m, d, x: m.vmap(lambda t: t * t)(x),
    "deepcopy": lambda m, d, x: __import__("copy").deepcopy(x),
    "files": lambda m, d, x: saved(m, x),
    "format": lambda m, d, x: f"{x[2]:5d}",
    "storage": lambda m, d, x: x.untyped_storage().nbytes(),
    "bincount": lambda m, d, x: x[:2].bincount(),
    "embedding": lambda m, d, x: m.nn.functional.embedding(x[:2], m.ones(3, 2)),
    "large numbers": lambda m, d, x: [
        m.ones(2) * 2**63, m.tensor([1]) + 2**63, (x * 2**63).dtype,
    ],
    "a large number and a bool": lambda m, d, x: m.tensor([True]) * 2**63,
    "assert_close": lambda m, d, x: m.testing.assert_close(x, x.clone()),
}  # fmt: skip


@pytest.mark.parametrize("dtype", WIDE)
@pytest.mark.parametrize("name", CALLS)
def test_calls_are_those_of_torch(name: str, dtype: str) -> None:
    values = np.array([0, 1, 5, np.iinfo(dtype).max], dtype)

    def run(library: Any) -> str:
        x = library.from_numpy(values.copy())
        return outcome(lambda: CALLS[name](library, getattr(library, dtype), x))

    assert run(ad) == run(torch)
