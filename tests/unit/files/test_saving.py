"""What `save` wrote comes back as it was: types, values, layouts, and what is shared.

Every test runs with both formats: PyTorch's, and safetensors.
"""

from __future__ import annotations

import enum
import io
import math
import re
import struct
from collections import Counter, OrderedDict, defaultdict, deque
from pathlib import PosixPath, PurePosixPath, PureWindowsPath
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint.serialization._formats import NAMES


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Word(enum.Enum):
    YES = "yes"


class File(io.BytesIO):
    """A file in memory with a name, which tells the format."""

    name = "file.pt"


@pytest.fixture(autouse=True, params=["file.pt", "file.safetensors"])
def kind(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(File, "name", request.param)
    return request.param


def again(obj: Any, **options: Any) -> Any:
    buffer = File()
    ad.save(obj, buffer)
    buffer.seek(0)
    return ad.load(buffer, **options)


VALUES = [
    None, True, False, 0, 1, -(2**53), 2**63, -(2**200), 0.0, -0.0, 0.1, math.inf,
    -math.inf, 1e-320, 1j, complex(-0.0, math.inf), "", "text", "\ud800\0é", b"", b"\xff\0",
    bytearray(b"ab"), (), (1,), (1, (2,)), [], [[]], {}, {1: 2}, {1.5: "a", "1.5": "b"}, set(),
    {1, 2}, frozenset(), frozenset({1}), OrderedDict(b=1, a=2), Counter("hello"), Counter(),
    defaultdict(list, a=[1]), defaultdict(None, a=1), deque([1, 2], 2), deque([1]), range(3),
    range(2**70, 0, -3), slice(1, None, 2), ..., ad.float32, ad.bool, ad.device("cpu"),
    ad.device("cpu", 0), ad.Size([2, 3]), ad.Size([]), Level.HIGH, Word.YES,
    PosixPath("/a/b"), PurePosixPath("a"), PureWindowsPath("c:\\a"),
]  # fmt: skip


@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
def test_values_come_back(value: Any) -> None:
    back = again(value)
    assert type(back) is type(value) and back == value
    assert repr(back)[:1000] == repr(value)[:1000]  # of -0.0, of orders and of factories
    (inside,) = again([value])
    assert type(inside) is type(value) and inside == value


def test_ints_of_any_length_come_back() -> None:
    for value in (10**5000, -(10**5000)):
        assert again(value) == value and again({value: [value]}) == {value: [value]}


def test_nan_keeps_its_sign_and_payload() -> None:
    for bits in ("7ff8000000000000", "fff8000000000000", "7ff8000000000123"):
        (value,) = struct.unpack(">d", bytes.fromhex(bits))
        assert struct.pack(">d", again(value)).hex() == bits
        assert struct.pack(">d", again(complex(0, value)).imag).hex() == bits


def test_keys_keep_their_types() -> None:
    for keys in ([1, "1", 1.5, None, (1, "1"), b"1"], [True, 2], [1, "True"], [0.0, "0"]):
        table = dict.fromkeys(keys)
        assert list(map(type, again(table))) == list(map(type, table))
        assert list(again(table)) == list(table)


SCALARS = [
    np.float64(0.1), np.float32(-0.0), np.float16(1.5), np.longdouble(0.1), np.int8(-3),
    np.uint64(2**63), np.longlong(3), np.bool_(True), np.complex64(1 + 2j), np.complex128(1j),
    np.str_("é"), np.str_(""), np.bytes_(b"ab"), np.datetime64("2020-01-02", "D"),
    np.timedelta64(3, "ns"), np.float64("nan"), np.datetime64("NaT", "ns"),
]  # fmt: skip


@pytest.mark.parametrize("value", SCALARS, ids=lambda value: f"{type(value).__name__} {value!r}")
def test_numpy_scalars_come_back(value: Any, kind: str) -> None:
    back = again({"x": value})["x"]
    # NumPy's own pickles make an int64 of a longlong, which has as many bytes.
    assert type(back) is type(value) or (kind == "file.pt" and type(value) is np.longlong)
    assert back.dtype == value.dtype
    assert back.tobytes() == value.tobytes()


ARRAYS = [
    np.arange(6).reshape(2, 3), np.arange(6).reshape(2, 3).T, np.arange(6.0)[::-2], np.array(3.0),
    np.zeros((0, 3)), np.array(["a", "bcd"]), np.array([b"a"]), np.arange(3, dtype=">i4"),
    np.array(["2020-01-01"], "M8[D]"), np.array([True]), np.arange(3, dtype="u2"),
    np.array([1 + 2j]), np.array([1.5], "f2"), np.broadcast_to(np.float32(2), (2, 2)),
]  # fmt: skip


@pytest.mark.parametrize("value", ARRAYS, ids=lambda value: f"{value.dtype} {value.shape}")
def test_arrays_come_back(value: Any, kind: str) -> None:
    back = again([value])[0]
    assert type(back) is np.ndarray and back.shape == value.shape
    if kind == "file.pt":  # in NumPy's pickles all arrays are writeable, in this machine's order
        assert back.dtype.newbyteorder("=") == value.dtype.newbyteorder("=")
        assert np.array_equal(back, value) and back.flags.writeable
    else:
        assert back.dtype == value.dtype and back.tobytes() == value.tobytes()
        assert back.flags.writeable == value.flags.writeable
    assert back.flags.f_contiguous >= value.flags.f_contiguous


def geometry(t: ad.Tensor) -> tuple[Any, ...]:
    kind = (type(t), t.dtype, tuple(t.shape), t.stride(), t.storage_offset(), t.requires_grad)
    return (*kind, t.untyped_storage().nbytes(), t.tolist())


x = ad.arange(24.0).reshape(2, 3, 4)
TENSORS = {
    "whole": x, "turned": x.permute(2, 0, 1), "row": x[1], "steps": x[:, ::2], "part": x[0, 1:, 1:],
    "spread": ad.ones(1).expand(3, 2), "number": ad.tensor(3), "empty": ad.ones(0, 3),
    "cut to nothing": x[:, 3:], "one long axis": ad.empty_strided((1, 3), (100, 1)).fill_(1),
    "leaf": ad.ones(2, requires_grad=True), "computed": ad.ones(2, requires_grad=True) * 2,
    "parameter": ad.nn.Parameter(x.t()) if x.dim() == 2 else ad.nn.Parameter(x.mT),
    "frozen": ad.nn.Parameter(ad.ones(2), requires_grad=False), "overlapping":
    ad.arange(5.0).as_strided((3, 3), (1, 1)), "half": ad.ones(3, dtype=ad.bfloat16)[1:],
    "complex": ad.ones(2, dtype=ad.complex64), "bool": ad.tensor([True, False]),
}  # fmt: skip


@pytest.mark.parametrize("name", TENSORS)
def test_tensors_come_back_with_their_layout(name: str) -> None:
    for back in (again(TENSORS[name]), again({"a": [TENSORS[name]]})["a"][0]):
        assert geometry(back) == geometry(TENSORS[name])
        assert back.is_leaf and back.grad is None


@pytest.mark.parametrize("dtype", sorted(map(str, NAMES)))
def test_every_dtype_comes_back(dtype: str) -> None:
    t = ad.tensor([[0, 1, 2]]).to(getattr(ad, dtype.removeprefix("torch."))).t()
    assert geometry(again(t)) == geometry(t)


def test_shared_memory_stays_shared() -> None:
    t = ad.arange(6.0)
    back = again([t, t[2:], t.view(2, 3).t(), t.view(ad.int32), t.detach()])
    assert [geometry(a) for a in back] == [
        geometry(a) for a in [t, t[2:], t.view(2, 3).t(), t.view(ad.int32), t.detach()]
    ]
    back[0][2] = 9.0
    assert back[1][0] == 9.0 and back[2][2, 0] == 9.0 and back[3][2] == 0x41100000
    assert back[4][2] == 9.0 and back[4] is not back[0]
    alone = again([ad.ones(2), ad.ones(2)])
    alone[0][0] = 5.0
    assert alone[1][0] == 1.0


def test_shared_memory_of_a_part_alone() -> None:
    t = ad.arange(10.0)
    a, b = again((t[2:5], t[4:6]))
    a[2] = 7.0
    assert b[0] == 7.0 and a.storage_offset() == 2


def test_shared_objects_stay_shared() -> None:
    inner, weight, array = [1], ad.nn.Parameter(ad.ones(2)), np.ones(2)
    back = again({"a": inner, "b": (inner, {"c": inner}), "w": [weight, weight], "n": [array] * 2})
    assert back["a"] is back["b"][0] is back["b"][1]["c"]
    assert back["w"][0] is back["w"][1] and type(back["w"][0]) is ad.nn.Parameter
    assert back["n"][0] is back["n"][1]
    a, b = again([[1], [1]])
    assert a is not b


def test_tied_parameters_stay_tied() -> None:
    model = ad.nn.Sequential(ad.nn.Linear(2, 2, bias=False), ad.nn.Linear(2, 2, bias=False))
    model[1].weight = model[0].weight
    back = again(dict(model.named_parameters(remove_duplicate=False)))
    assert back["0.weight"] is back["1.weight"]


def test_attributes_of_tensors_and_state_dicts_come_back() -> None:
    t = ad.ones(2)
    t.tag = {"a": 1}
    state = ad.nn.BatchNorm1d(2).state_dict()
    back_t, back_state = again([t, state])
    assert back_t.tag == {"a": 1}
    assert type(back_state) is OrderedDict and back_state._metadata == state._metadata


def test_a_generator_goes_on_where_it_was() -> None:
    generator = ad.Generator().manual_seed(3)
    ad.rand(5, generator=generator)
    back = again([generator])[0]
    assert ad.rand(3, generator=back).tolist() == ad.rand(3, generator=generator).tolist()


class Fresh:
    """Takes itself apart into lists that are gone at once."""

    def __init__(self, n: int) -> None:
        self.n = n

    def __tree_flatten__(self) -> Any:
        return ([self.n],), None

    @classmethod
    def __tree_unflatten__(cls, _: Any, parts: Any) -> Fresh:
        return cls(parts[0][0])

    def __reduce__(self) -> Any:
        return Fresh, (self.n,)


def test_objects_on_the_way_do_not_lend_their_identity() -> None:
    back = again([Fresh(i) for i in range(50)], classes=[Fresh])
    assert [f.n for f in back] == list(range(50))


def test_results_of_reductions_come_back() -> None:
    found = ad.ones(2, 3).max(dim=1)
    back = again(found)
    assert type(back) is type(found) and back.indices.tolist() == found.indices.tolist()


def test_files_of_the_first_version_are_read() -> None:
    """Tensors by name and flags, big ints in decimal digits."""
    import json

    structure = {
        "dict": [
            ["w", {"tensor": "t0", "requires_grad": True, "parameter": True}],
            ["v", {"tensor": "t0"}],
            [3, {"int": str(2**70)}],
            ["f", {"tuple": [{"float": "0x1.8p+0"}, {"float": "nan"}, {"bytes": "00ff"}]}],
            ["d", {"dtype": "float32"}],
        ]
    }
    header = {
        "__metadata__": {"adjoint": json.dumps(structure)},
        "t0": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]},
    }
    text = json.dumps(header).encode()
    data = len(text).to_bytes(8, "little") + text + struct.pack("<2f", 1, 2)
    back = ad.load(io.BytesIO(data))
    assert type(back["w"]) is ad.nn.Parameter and back["w"].tolist() == [1.0, 2.0]
    assert back[3] == 2**70 and back["f"][0] == 1.5 and math.isnan(back["f"][1])
    assert back["d"] is ad.float32 and not back["v"].requires_grad


def test_what_is_nested_deeply_is_refused_or_comes_back() -> None:
    made: list[Any] = []
    for depth in range(1000):
        try:
            back = again(made)
        except (ValueError, RecursionError) as error:
            assert re.search("nested too deeply|recursion depth exceeded", str(error))
            assert depth > 100
            return
        assert repr(back) == repr(made)
        made = [made]


def test_a_pipe_is_read(tmp_path: Any) -> None:
    class Pipe(io.RawIOBase):
        """Cannot seek."""

        def __init__(self, data: bytes) -> None:
            self._data = io.BytesIO(data)

        def read(self, size: int = -1) -> bytes:
            return self._data.read(size)

    buffer = File()
    ad.save(ad.arange(3), buffer)
    assert ad.load(Pipe(buffer.getvalue())).tolist() == [0, 1, 2]


def test_a_file_that_reads_in_parts_is_read() -> None:
    class Parts(io.BytesIO):
        """Gives three bytes at a time, as a file without a buffer may."""

        def read(self, size: int | None = -1) -> bytes:
            return super().read(min(size or 0, 3))

        def readinto(self, target: Any) -> int:
            return super().readinto(memoryview(target)[:3])

    buffer = File()
    ad.save([ad.arange(3), "text"], buffer)
    assert ad.load(Parts(buffer.getvalue()))[0].tolist() == [0, 1, 2]


def test_a_text_file_is_refused(tmp_path: Any) -> None:
    (tmp_path / "file").write_bytes(b"some text, long enough")
    with open(tmp_path / "file") as file, pytest.raises(TypeError, match="mode 'rb'"):
        ad.load(file)


def test_a_file_is_read_from_where_it_stands() -> None:
    buffer = File()
    buffer.write(b"before")
    ad.save(ad.arange(3), buffer)
    buffer.seek(6)
    assert ad.load(buffer).tolist() == [0, 1, 2] and buffer.read() == b""


def test_hooks_are_said_not_to_be_saved(kind: str) -> None:
    t = ad.ones(2, requires_grad=True)
    t.register_hook(print)
    message = r"the hook <built-in function print> on the object\['t'\] is not saved"
    if kind == "file.pt":
        message = "backward hook <built-in function print> on tensor will not be serialized"
    with pytest.warns(UserWarning, match=message) as caught:
        ad.save({"t": t}, File())
    assert caught[0].filename == __file__
