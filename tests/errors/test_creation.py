"""Messages of making tensors: from data, ranges, random numbers, other libraries' memory, casts."""

from __future__ import annotations

import array
import ctypes
import io
import re
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint import _core
from tests.errors.table import Row, check, refusals

f = ad.arange(4.0)  # never changed: every call below is refused
i = ad.arange(4)
z = ad.ones(2, dtype=ad.complex64)
inf = float("inf")


def nested(depth: int) -> Any:
    data: Any = 1.0
    for _ in range(depth):
        data = [data]
    return data


@refusals(
    (lambda: ad.tensor(nested(65)), ValueError, "lists are nested deeper than 64"),
    (lambda: ad.tensor([1, [2]]), TypeError, "item at depth 1 is a int where a list of 1 was exp"),
    (
        lambda: ad.tensor([[1], 2]),
        TypeError,
        "item at depth 1 is a int where a list of 1 was expec",
    ),
    (
        lambda: ad.tensor([[1], [2, 3]]),
        ValueError,
        "expected sequence of length 1 at dim 1 (got 2)",
    ),
    (lambda: ad.tensor([1, 2**64]), ValueError, "the int needs over 64 bits"),
    (lambda: ad.tensor([1j], dtype=ad.float32), TypeError, "must be real number, not complex"),
    (lambda: ad.tensor([-1.5], dtype=ad.uint8), RuntimeError, "uint8 without overflow: -1.5"),
    (lambda: ad.tensor([f, f]), ValueError, "only one element tensors can be converted to Python"),
    (lambda: ad.tensor([1], dtype="f4"), TypeError, "dtype"),
    (lambda: ad.zeros(2, layout="sparse"), NotImplementedError, "use layout=torch.strided"),
    (lambda: ad.zeros(2, pin_memory=True), RuntimeError, "leave pin_memory out"),
    (lambda: ad.zeros(2, device="cuda"), RuntimeError, "cuda"),
    (lambda: ad.full((2,), 300, dtype=ad.uint8), RuntimeError, "uint8 without overflow: 300"),
    (lambda: ad.full((2,), 1j, dtype=ad.float32), RuntimeError, "float32 without overflow: 0+1j"),
    (
        lambda: ad.empty_strided((2,), (1, 1)),
        RuntimeError,
        "(1) must match dimensionality of strid",
    ),
    (
        lambda: ad.empty_strided((2,), (2**62,)),
        RuntimeError,
        "overflowed with sizes=[2] and stride",
    ),
    (
        lambda: ad.zeros(2**40, 2**40),
        RuntimeError,
        "Storage size calculation overflowed with sizes",
    ),
    (lambda: ad.zeros(2, out=f, dtype=ad.int64), RuntimeError, "does not match dtype of out param"),
    (lambda: ad.Tensor(2, 3, dtype=ad.int64), TypeError, "only the keyword 'device' is known"),
    (lambda: ad.Tensor(2, "a"), TypeError, "expected sizes (ints) or one sequence of data"),
    (lambda: ad.Tensor("ab"), TypeError, "new(): invalid data type 'str'"),
    (lambda: ad.Tensor(object()), TypeError, "data must be a sequence (got object)"),
    (lambda: f.as_subclass(int), TypeError, "cls must be a subclass of Tensor"),
    (
        lambda: ad.zeros(2**70),
        ValueError,
        "Overflow when unpacking long long: 1180591620717411303424 does",
    ),
    (lambda: ad.zeros((2, 2**70)), TypeError, "failed to unpack the object at pos 2 with error"),
    (lambda: ad.zeros(10**5000), ValueError, "long long: the integer does not fit into 64 bits"),
    (
        lambda: f + 2**70,
        OverflowError,
        "int too big to convert: 1180591620717411303424 does not fit",
    ),
    (lambda: f[2**70], ValueError, "Overflow when unpacking long long"),
    (lambda: f[..., -(2**70)], ValueError, "Overflow when unpacking long long"),
)
def test_from_data(row: Row) -> None:
    check(row)


@refusals(
    (lambda: ad.arange(0, 1, 0), RuntimeError, "step must be nonzero"),
    (lambda: ad.arange(0, 9, 0.5, dtype=ad.int64), ValueError, "but 0.5 is cut to 0 in int64"),
    (lambda: ad.arange(0, 1, 0.0), RuntimeError, "step must be nonzero"),
    (lambda: ad.arange(0.0, inf), RuntimeError, "unsupported range: 0 -> inf"),
    (lambda: ad.arange(0.0, 1, float("nan")), RuntimeError, "step must not be nan"),
    (lambda: ad.arange(1.0, 0), RuntimeError, "inconsistent with step sign: from 1 to 0 by 1"),
    (lambda: ad.arange(1, 0), RuntimeError, "inconsistent with step sign: from 1 to 0 by 1"),
    (lambda: ad.arange(0.0, 1e300), RuntimeError, "invalid size, possible overflow"),
    (lambda: ad.arange(-(2**63), 2**63 - 1), RuntimeError, "invalid size, possible overflow: from"),
    (lambda: ad.arange(1j), RuntimeError, "arange of complex"),
    (lambda: ad.arange(3, dtype=ad.bool), NotImplementedError, "not implemented for 'bool'"),
    (lambda: ad.arange(1e30, dtype=ad.int64), RuntimeError, "unsupported range: 0 -> 1e+30"),
    (lambda: ad.linspace(0, 1, -1), RuntimeError, "number of steps must be non-negative, got -1"),
    (lambda: ad.linspace(0, 1j, 3, dtype=ad.float32), RuntimeError, "can't be cast to float32"),
    (lambda: ad.eye(-1), RuntimeError, "n must be greater or equal to 0, got -1"),
    (lambda: ad.eye(1, -2), RuntimeError, "m must be greater or equal to 0, got -2"),
)
def test_ranges(row: Row) -> None:
    check(row)


def fresh(dtype: Any = ad.float32) -> Any:
    return ad.zeros(3, dtype=dtype)


@refusals(
    (lambda: fresh().bernoulli_(1.5), RuntimeError, "p to be in [0, 1], but got p=1.5"),
    (lambda: fresh().bernoulli_(i), NotImplementedError, "not implemented for 'int64'"),
    (lambda: fresh().bernoulli_(f / 9), RuntimeError, "(4)"),
    (lambda: fresh().bernoulli_(ad.ones(2, 3)), RuntimeError, "doesn't match the broadcast shape"),
    (lambda: fresh().bernoulli_(ad.full((3,), 2.0)), RuntimeError, "[0, 1]"),
    (lambda: fresh(ad.complex64).bernoulli_(0.5), NotImplementedError, "complex64"),
    (lambda: fresh(ad.complex64).bernoulli_(fresh()), NotImplementedError, "complex64"),
    (lambda: ad.randperm(-1), RuntimeError, "n must be non-negative, got -1"),
    (lambda: ad.randperm(3, dtype=ad.bool), NotImplementedError, "bool"),
    (lambda: ad.randperm(300, dtype=ad.uint8), RuntimeError, "uint8, but randperm got n=300"),
    (lambda: ad.normal(f, z), RuntimeError, "standard deviation to be non-complex"),
    (lambda: ad.normal(f, -f), RuntimeError, "all elements of std >= 0.0, but found -1"),
    (lambda: ad.normal(i, f), NotImplementedError, "not implemented for 'int64'"),
    (
        lambda: ad.multinomial(ad.ones(1, 1, 1), 1),
        RuntimeError,
        "1 or 2 dim, but it has shape [1, 1",
    ),
    (lambda: ad.multinomial(i, 1), RuntimeError, "floating-point dtypes for input, got: int64"),
    (lambda: ad.multinomial(f, 0), RuntimeError, "n_sample <= 0 samples, got 0"),
    (lambda: ad.multinomial(f, 9), RuntimeError, "samples without replacement: 9 of 4"),
    (lambda: ad.multinomial(-f, 1), RuntimeError, "probability tensor contains either"),
    (lambda: ad.multinomial(0 * f, 1), RuntimeError, "sum of probabilities <= 0) in row"),
    (lambda: ad.multinomial(ad.ones(1).expand(2**24 + 1), 1), RuntimeError, "exceed 2^24"),
    (lambda: ad.nn.functional.dropout(f, 1.5), ValueError, "between 0 and 1, but got 1.5"),
    (lambda: fresh(ad.int64).uniform_(), NotImplementedError, "int64"),
    (lambda: fresh().uniform_(1, 0), RuntimeError, "[from, to) range, but found from=1"),
    (lambda: fresh().uniform_(1e300, 2), RuntimeError, "from is out of bounds for float32"),
    (lambda: fresh().uniform_(1, 1e300), RuntimeError, "to is out of bounds for float32"),
    (lambda: fresh().uniform_(-3e38, 3e38), RuntimeError, "expects to - from to be at most"),
    (lambda: fresh().normal_(0, -1), RuntimeError, "std >= 0.0, but found std -1"),
    (lambda: fresh(ad.int64).normal_(), NotImplementedError, "int64"),
    (lambda: fresh().log_normal_(0, 0), RuntimeError, "std > 0.0, but found std=0"),
    (lambda: fresh(ad.int64).log_normal_(), NotImplementedError, "int64"),
    (lambda: fresh().exponential_(0), RuntimeError, "lambda > 0.0, but found lambda=0"),
    (lambda: fresh(ad.int64).exponential_(), RuntimeError, "Exponential distribution is a continu"),
    (lambda: fresh().cauchy_(0, 0), RuntimeError, "sigma > 0.0, but found sigma=0"),
    (lambda: fresh(ad.int64).cauchy_(), RuntimeError, "Cauchy distribution is a continuous"),
    (lambda: fresh().geometric_(1), RuntimeError, "p to be in (0, 1), but got p=1"),
    (lambda: fresh(ad.bool).geometric_(0.5), NotImplementedError, "bool"),
    (lambda: fresh().random_(3, 3), RuntimeError, "'from' to be less than 'to', but"),
    (lambda: fresh(ad.uint8).random_(0, 300), RuntimeError, "is out of bounds for uint8: random_"),
    (lambda: fresh(ad.complex64).random_(), NotImplementedError, "complex64"),
    (lambda: fresh(ad.complex64).random_(0, 2), RuntimeError, "but got complex64"),
    (
        lambda: fresh(ad.int32).random_(-(2**63), None),
        RuntimeError,
        "int64, float64, float32 and bf",
    ),
    (lambda: fresh(ad.bool).random_(-(2**63), None), NotImplementedError, "bool"),
    (lambda: fresh(ad.float64).random_(2**63 - 1, None), RuntimeError, "holds no integer above"),
    (lambda: ad.Generator().manual_seed(-(2**70)), ValueError, "a seed is an int from -2^63 to"),
    (lambda: ad.Generator().set_state(3), TypeError, "must be a torch.ByteTensor, but got int"),
    (lambda: ad.Generator().set_state(f), TypeError, "but got a tensor of dtype float32"),
    (lambda: ad.Generator().set_state(f.byte()), RuntimeError, "bytes, but got 4 bytes"),
    (lambda: ad.rand(2, generator=3), TypeError, "generator"),
)
def test_random(row: Row) -> None:
    check(row)


@pytest.mark.parametrize(
    ("changes", "part"),
    [
        ({12: 2}, "its `seeded` mark is 2, not 1"),
        ({8: 200, 17: 2}, "position 512 with 200 words left lies outside its 624 words"),
        ({28: 1}, "does not fit into 32 bits"),
    ],
)
def test_a_spoilt_generator_state_is_refused(changes: dict[int, int], part: str) -> None:
    g = ad.Generator().manual_seed(3)
    state = g.get_state()
    spoilt = state.clone()
    for byte, value in changes.items():
        spoilt[byte] = value
    with pytest.raises(RuntimeError, match=part):
        g.set_state(spoilt)
    assert (g.get_state() == state).all()


def view_of(t: Any) -> memoryview:
    return memoryview(t)


read_only = ad.frombuffer(b"1234", dtype=ad.uint8)


@refusals(
    (lambda: view_of(f.bfloat16()), BufferError, "bfloat16 has no buffer format; use .float()"),
    (lambda: view_of(f.clone().requires_grad_()), BufferError, "share tensor.detach() instead"),
    (lambda: array.array("b").frombytes(f[::2]), BufferError, "not contiguous; use .contiguous()"),
    (lambda: io.BytesIO(b"1234").readinto(read_only), TypeError, "read-write"),
    (lambda: ad.from_numpy(np.ones(2, ">f8")), ValueError, "byte order different from the native"),
    (lambda: ad.from_numpy(np.array(["a"])), TypeError, "The only supported types are: float64"),
    (lambda: ad.from_numpy(np.ones(2)[::-1]), ValueError, "making a copy of your array with arra"),
    (
        lambda: ad.from_numpy(np.zeros(2, "i1,f4")["f1"]),
        ValueError,
        "strides not a multiple of the element byte size: stride 5 of axis 0",
    ),
    (lambda: ad.frombuffer(b"1234", dtype="f4"), TypeError, "must be torch.dtype, not str"),
    (lambda: ad.frombuffer(3, dtype=ad.uint8), ValueError, "does not implement Python buffer pro"),
    (
        lambda: ad.frombuffer(b"", dtype=ad.uint8),
        ValueError,
        "both buffer length (0) and count (-1",
    ),
    (lambda: ad.frombuffer(b"1234", dtype=ad.uint8, offset=4), ValueError, "offset (4 bytes) must"),
    (lambda: ad.frombuffer(b"12345", dtype=ad.float32), ValueError, "multiple of element size (4)"),
    (lambda: ad.frombuffer(b"1234", dtype=ad.float32, count=2), ValueError, "(2 * 4 bytes) after"),
    (lambda: f.clone().requires_grad_().__dlpack__(), BufferError, "use tensor.detach()"),
    (lambda: ad.from_dlpack(np.ones(2)[::-1]), BufferError, "negative strides are not supported"),
    (lambda: read_only.__dlpack__(), BufferError, "by version 1.0 of DLPack or later"),
)
def test_shared_memory(row: Row) -> None:
    check(row)


# Where a managed tensor of DLPack 1.0 keeps its fields: bytes from its beginning.
VERSION, DEVICE, AXES, CODE = 0, 40, 48, 52


@pytest.mark.parametrize(
    ("at", "value", "part"),
    [
        (VERSION, 2, "from_dlpack: version 2 is newer than 1"),
        (DEVICE, 2, "the array is on device type 2; adjoint computes on the CPU only"),
        (AXES, 99, "from_dlpack: the array has 99 axes"),
        (CODE, 77, "unsupported element type: code 77, 0 bits, 0 lanes"),
    ],
)
def test_a_dlpack_capsule_that_cannot_be_read(at: int, value: int, part: str) -> None:
    capsule = f.__dlpack__(max_version=(1, 0))
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    address = pointer(capsule, b"dltensor_versioned")
    field = ctypes.c_int32.from_address(address + at)
    before, field.value = field.value, value
    with pytest.raises(BufferError, match=re.escape(part)):
        _core._from_dlpack(capsule)
    field.value = before
    assert (ad.from_dlpack(capsule) == f).all()  # it was not used up


def test_a_dlpack_capsule_serves_once() -> None:
    capsule = f.__dlpack__()
    ad.from_dlpack(capsule)
    with pytest.raises(RuntimeError, match="capsules can be consumed only once"):
        ad.from_dlpack(capsule)


@refusals(
    (lambda: f.to("tpu"), RuntimeError, "tpu"),
    (lambda: f.to("cuda"), RuntimeError, "use 'cpu' or leave the device out"),
    (lambda: f.to(), TypeError, "to() missing 1 required argument"),
    (lambda: f.to(1, 2, 3, 4, 5), TypeError, "at most 4 positional arguments but 5 were given"),
    (lambda: f.to([]), TypeError, "expected a dtype, a device or a tensor, not list"),
    (lambda: f.to(copy=1), TypeError, "to(): argument 'copy' must be bool, not int"),
    (lambda: f.to(dtype="f4"), TypeError, "to(): argument 'dtype' must be dtype, not str"),
    (lambda: f.to(device=1.5), TypeError, "'device' must be device or str, not float"),
    (lambda: f.to(other=1), TypeError, "to(): argument 'other' must be Tensor, not int"),
    (lambda: f.to(kind=1), TypeError, "to() got an unexpected keyword argument 'kind'"),
    (lambda: f.double(kind=1), TypeError, "got an unexpected keyword argument 'kind'"),
    (lambda: f.double(1), TypeError, "takes no positional arguments; use .to(dtype)"),
    (lambda: f.type_as(1), TypeError, "type_as(): argument 'other' must be Tensor, not int"),
    (lambda: f.type(3), TypeError, "type(): dtype must be a type, str, or dtype object, not int"),
    (lambda: f.type("torch.NoTensor"), ValueError, "invalid type: 'torch.NoTensor'"),
    (lambda: f.type(1, 2, 3), TypeError, "takes a dtype and non_blocking, but 3 arguments were"),
    (lambda: f.cuda(), RuntimeError, "there is no CUDA device"),
    (lambda: ad.promote_types("f4", ad.int8), TypeError, "must be dtype, not str"),
    (lambda: ad.result_type("f4", 1), TypeError, "must be Tensor or Number, not str"),
    (lambda: f.size("a"), TypeError, "size(): argument 'dim' must be int, not str"),
    (lambda: f.stride("a"), TypeError, "stride(): argument 'dim' must be int, not str"),
    (lambda: f.item(), RuntimeError, "a Tensor with 4 elements cannot be converted to Scalar"),
    (lambda: bool(f), RuntimeError, "more than one value is ambiguous"),
    (lambda: bool(f[:0]), RuntimeError, "with no values is ambiguous"),
    (lambda: float(1j * z[0]), RuntimeError, "to type double without overflow: it is complex"),
    (lambda: range(4)[ad.tensor(1.5)], TypeError, "index"),
)
def test_conversions(row: Row) -> None:
    check(row)
