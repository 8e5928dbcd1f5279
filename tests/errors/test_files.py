"""Messages of `save` and `load`: what is refused, where in the structure or in the file."""

from __future__ import annotations

import enum
import io
import json
import pickle
import struct
import zipfile
from collections import defaultdict
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pytest

import adjoint as ad
from adjoint.autograd import forward_ad
from adjoint.serialization import LoadError
from tests.errors.table import Row, check, refusals


def loaded(data: bytes) -> Any:
    return ad.load(io.BytesIO(data))


def saved(obj: Any, name: str = "file.safetensors") -> bytes:
    """The file of an object, by default one that holds data alone."""
    out: Any = type("File", (io.BytesIO,), {"name": name})()
    ad.save(obj, out)
    found: bytes = out.getvalue()
    return found


def with_header(header: Any, body: bytes = b"") -> bytes:
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + body


def structure(entry: Any, header: Any = None, body: bytes = b"") -> Any:
    """What a file of adjoint with this structure gives."""
    head = {"__metadata__": {"adjoint": json.dumps(entry)}, **(header or {})}
    return loaded(with_header(head, body))


def torch_zip(pickled: bytes, records: dict[str, bytes] | None = None, **options: Any) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", **options) as file:
        file.writestr("archive/data.pkl", pickled)
        for name, data in (records or {}).items():
            file.writestr(f"archive/{name}", data)
    return out.getvalue()


def run(pickled: bytes, **records: bytes) -> Any:
    """What a file of torch.save with this pickle gives."""
    return loaded(torch_zip(pickled, {f"data/{k[1:]}": v for k, v in records.items()}))


def twice() -> bytes:
    """An archive with two records of one name."""
    data = torch_zip(b"N.", {"data/1": b"a", "data/2": b"b"})
    return data.replace(b"data/2", b"data/1")


def storage(kind: bytes = b"FloatStorage", count: int = 2) -> bytes:
    """The instructions that push a storage, and before it the function that makes tensors."""
    return (
        b"\x80\x02ctorch._utils\n_rebuild_tensor_v2\n((Vstorage\nctorch\n" + kind + b"\n"
        b"V0\nVcpu\nI" + str(count).encode() + b"\ntQ"
    )


ROW = {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}
TWO = struct.pack("<2f", 1, 2)
SAVED_T = "t0"


class Plain(int):
    """Not a composite class."""


class Colour(enum.Flag):
    RED = 1
    BLUE = 2


class Sub(ad.Tensor):
    """A tensor of the user's."""


class Words(str):
    """A string of the user's."""


@dataclass
class Mixed(dict[str, int]):
    """A dict with fields beside its items."""

    x: int = 3


class Pair(NamedTuple):
    x: Any
    y: Any


class MorePair(Pair):
    """A named tuple whose objects may have attributes."""


def more_pair() -> MorePair:
    made = MorePair(1, 2)
    made.extra = 3  # type: ignore[attr-defined]
    return made


def itself() -> Any:
    made: list[Any] = []
    made.append(made)
    return made


def deep() -> Any:
    made: list[Any] = []
    for _ in range(100_000):
        made = [made]
    return made


def with_tangent() -> None:
    with forward_ad.dual_level():
        saved([forward_ad.make_dual(ad.ones(2), ad.ones(2))])


base = np.arange(6.0)
record = np.zeros(2, dtype=[("a", "f4"), ("b", "i4")])


@refusals(
    (lambda: saved({"a": [1, len]}), TypeError, "save the object['a'][1]: files hold tensors"),
    (lambda: saved(ad.nn.Linear(2, 2)), TypeError, "not Linear objects. Save its state_dict()"),
    (lambda: saved([Plain(3)]), TypeError, "the object[0]: a file would hold the Plain as a plain"),
    (lambda: saved({Words("k"): 1}), TypeError, "the key 'k' of the object: a file would hold"),
    (lambda: saved([Mixed()]), TypeError, "would hold the Mixed as a plain dict"),
    (lambda: saved(more_pair()), TypeError, "would hold the MorePair as a plain tuple"),
    (lambda: saved([Colour.RED | Colour.BLUE]), TypeError, "a combination without a name"),
    (lambda: saved({Sub: 1}), TypeError, "files hold tensors"),
    (lambda: saved([ad.ones(2).as_subclass(Sub)]), TypeError, "would hold the Sub as a plain ten"),
    (with_tangent, TypeError, "the object[0]: the tensor has a tangent, which files do not hold"),
    (lambda: saved({"a": record}), TypeError, "not a numpy.ndarray of dtype [('a', '<f4')"),
    (lambda: saved([record[0]]), TypeError, "files hold NumPy's numbers"),
    (lambda: saved(np.array([len])), TypeError, "of dtype object"),
    (lambda: saved(np.dtype("f4")), TypeError, "files hold NumPy's numbers"),
    (lambda: saved(np.ma.array([1])), TypeError, "not a numpy.ma.MaskedArray of dtype int64"),
    (lambda: saved(defaultdict(lambda: 3)), TypeError, "must be None or one of list, dict"),
    (lambda: saved([base, base[::2]]), ValueError, "it shares memory with the object["),
    (lambda: saved([base, ad.from_numpy(base)]), ValueError, "Save a copy of one of them"),
    (lambda: saved({"a": itself()}), ValueError, "cannot save the object['a'][0]: it contains"),
    (lambda: saved(deep()), ValueError, "cannot save the object: it is nested too deeply"),
    (lambda: ad.save(1, 3), AttributeError, "a file-like object with a 'write' attribute, not int"),
    (lambda: ad.load(3), AttributeError, "a file-like object with a 'read' attribute, not int"),
)
def test_what_cannot_be_saved(row: Row) -> None:
    check(row)


@refusals(
    (lambda: loaded(b"ab"), LoadError, "it has 2 bytes"),
    (lambda: loaded(b"\xff" * 16), LoadError, "bad header (of 18446744073709551615 bytes, in"),
    (lambda: loaded(b"\2\0\0\0\0\0\0\0{!"), LoadError, "its header is not JSON"),
    (lambda: loaded(b"\2\0\0\0\0\0\0\0[]"), LoadError, "the header is no table"),
    (lambda: loaded(with_header({"__metadata__": 3})), LoadError, "the __metadata__ of its header"),
    (lambda: loaded(b"\x15" + bytes(7) + b'{"a": {}, "a": {}, "b'), LoadError, "is not JSON"),
    (lambda: loaded(b"\x12" + bytes(7) + b'{"a": {}, "a": {}}'), LoadError, "stands there twice"),
    (
        lambda: loaded((10**6).to_bytes(8, "little") + b"[" * 10**6),
        LoadError,
        "is nested too deeply",
    ),
    (lambda: loaded(with_header({"x": {**ROW, "dtype": "Q9"}}, bytes(8))), LoadError, "'x' has a"),
    (lambda: loaded(with_header({"x": ROW}, bytes(4))), LoadError, "end at byte 8 after the head"),
    (lambda: loaded(with_header({"x": ROW}, bytes(9))), LoadError, "and the file at byte 9"),
    (
        lambda: loaded(with_header({"x": {**ROW, "shape": [3]}}, bytes(8))),
        LoadError,
        "tensor 'x' does not fit its place in the file",
    ),
    (
        lambda: loaded(with_header({"x": {**ROW, "shape": [-2]}}, bytes(8))),
        LoadError,
        "tensor 'x' has the shape [-2]",
    ),
    (
        lambda: loaded(with_header({"x": {**ROW, "shape": [1] * 102 + [2]}}, bytes(8))),
        LoadError,
        "tensor 'x' has 103 axes, and a tensor has at most 64",
    ),
    (
        lambda: loaded(
            with_header({"x": {**ROW, "shape": [0, 2**62, 2**62], "data_offsets": [0, 0]}})
        ),
        LoadError,
        "which is too large",
    ),
    (lambda: loaded(with_header({"x": ROW, "y": ROW}, bytes(8))), LoadError, "overlaps the entry"),
    (
        lambda: loaded(with_header({"x": {**ROW, "data_offsets": [8, 16]}}, bytes(16))),
        LoadError,
        "leaves a gap before it",
    ),
    (lambda: structure({"object": 3}), LoadError, "it has a bad entry for an object"),
    (
        lambda: structure({"object": {"class": f"{__name__}:Plain", "parts": []}}),
        LoadError,
        "Plain, and no such composite class or enum is imported",
    ),
    (
        lambda: ad.load(
            io.BytesIO(
                with_header(
                    {"__metadata__": {"adjoint": '{"object": {"class": "m:Plain", "parts": []}}'}}
                )
            ),
            classes=[Plain],
        ),
        LoadError,
        "m:Plain, which is not a composite class here",
    ),
    (
        lambda: structure({"enum": {"class": f"{__name__}:Colour", "member": "GREEN"}}),
        LoadError,
        "the member 'GREEN' of",
    ),
    (
        lambda: structure(
            {
                "object": {
                    "class": f"{__name__}:Mixed",
                    "parts": [["x", 1]],
                    "others": [["__class__", 1]],
                }
            }
        ),
        LoadError,
        "it would set x, __class__ of an object of",
    ),
    (lambda: structure({"zip": 3}), LoadError, "an entry of unknown kind 'zip'; is adjoint too"),
    (lambda: structure([1]), LoadError, "its structure has a bad entry: [1]"),
    (lambda: structure({"tensor": "t9"}), LoadError, "bad entry (KeyError: 't9')"),
    (lambda: structure({"list": 3}), LoadError, "expected a list, got 3"),
    (lambda: structure({"set": [{"list": []}]}), LoadError, "unhashable type: 'list'"),
    (
        lambda: structure({"OrderedDict": [], "attributes": [["__class__", 1]]}),
        LoadError,
        "it would set the attribute '__class__' of a OrderedDict",
    ),
    (
        lambda: structure({"array": SAVED_T, "numpy": "<f4", "size": [3]}, {SAVED_T: ROW}, TWO),
        LoadError,
        "the array 't0' has 8 bytes in the file, and its shape [3] of float32 wants 12",
    ),
    (
        lambda: structure({"array": SAVED_T, "numpy": "O", "size": [1]}, {SAVED_T: ROW}, TWO),
        LoadError,
        "'O' is not the name of a NumPy dtype that files hold",
    ),
    (lambda: structure({"numpy": ["<f8", "00"]}), LoadError, "1 bytes for one float64"),
    (lambda: structure({"float": "nan:3ff0000000000000"}), LoadError, "is not NaN"),
    (lambda: structure({"generator": 3}), LoadError, "the state of a generator is a int"),
    (
        lambda: structure({"tensor": SAVED_T, "stride": [1, 2]}, {SAVED_T: ROW}, TWO),
        LoadError,
        "a tensor of 1 axes has the strides (1, 2)",
    ),
    (
        lambda: structure({"tensor": SAVED_T, "stride": [2**40]}, {SAVED_T: ROW}, TWO),
        LoadError,
        "a tensor of shape [2] has the strides",
    ),
    (
        lambda: structure(
            {"tensor": SAVED_T, "dtype": "float64", "size": [2], "stride": [1], "offset": 0},
            {SAVED_T: ROW},
            TWO,
        ),
        LoadError,
        "are out of bounds for storage of 1 elements",
    ),
    (
        lambda: structure(
            {"tensor": SAVED_T, "dtype": "float32", "size": [2.0], "stride": [1], "offset": 0},
            {SAVED_T: ROW},
            TWO,
        ),
        LoadError,
        "expected ints, got [2.0]",
    ),
)
def test_damaged_files(row: Row) -> None:
    check(row)


@refusals(
    (lambda: loaded(b"PK\3\4 and more"), LoadError, "like a zip archive but is not one"),
    (
        lambda: loaded(torch_zip(b"N.").replace(b"data.pkl", b"data.pkX")),
        LoadError,
        "it has no data.pkl",
    ),
    (
        lambda: loaded(torch_zip(b"N.", {"byteorder": b"mixed"})),
        LoadError,
        "it has the order of bytes b'mixed'",
    ),
    (
        lambda: loaded(torch_zip(b"N.", compression=zipfile.ZIP_DEFLATED)),
        LoadError,
        "the record 'archive/data.pkl' of its archive is compressed",
    ),
    (lambda: loaded(twice()), LoadError, "two records named 'archive/data/1'"),
    (
        lambda: loaded(torch_zip(b"(]q\0e.").replace(b"(]q\0e.", b"(]q\1e.")),
        LoadError,
        "its checksum differs",
    ),
    (lambda: run(b"N"), LoadError, "wants 1 bytes at byte 1 and has 0"),
    (lambda: run(b"N.N."), LoadError, "its pickle ends at byte 2 of 4"),
    (lambda: run(b"NN."), LoadError, "ends in the middle of something"),
    (lambda: run(b"(N."), LoadError, "ends in the middle of something"),
    (lambda: run(b"0."), LoadError, "no mark at byte"),
    (lambda: run(b"a."), LoadError, "takes from an empty stack"),
    (lambda: run(b"NNa."), LoadError, "wants to append to NoneType"),
    (lambda: run(b"]NNs."), LoadError, "wants to set items of list"),
    (lambda: run(b"](N\x90."), LoadError, "wants to add to list"),
    (lambda: run(b"}(Nu."), LoadError, "a key without a value"),
    (lambda: run(b"}]Ns."), LoadError, "a key of type list"),
    (lambda: run(b"}]\x85Ns."), LoadError, "unhashable type: 'list'"),
    (lambda: run(b"q\0N."), LoadError, "remembers nothing"),
    (lambda: run(b"h\7."), LoadError, "asks for number 7, which it did not make"),
    (lambda: run(b"\x80\x09N."), LoadError, "of protocol 9; up to 5 are known"),
    (lambda: run(b"X\xff\xff\xff\x7fabc."), LoadError, "wants 2147483647 bytes at byte 5"),
    (lambda: run(b"\x8b\xff\xff\xff\xff."), LoadError, "wants -1 bytes"),
    (lambda: run(b"\x8b\0\0\0\x70."), LoadError, "wants 1879048192 bytes"),
    (lambda: run(b"Iabc\n."), LoadError, "has the number b'abc'"),
    (lambda: run(b"I" + b"9" * 5000 + b"\n."), LoadError, "has the number b'999"),
    (lambda: run(b"Fabc\n."), LoadError, "has the number b'abc'"),
    (lambda: run(b"I1"), LoadError, "a line without an end"),
    (lambda: run(b"X\1\0\0\0\xff."), LoadError, "a damaged string"),
    (lambda: run(b"V\\uZZ\n."), LoadError, "a damaged string"),
    (lambda: run(b"Nb."), LoadError, "gives nothing a state"),
    (lambda: run(b"]}b."), LoadError, "wants to set attributes of a list"),
    (lambda: run(b"cos\nsystem\n."), LoadError, "GLOBAL os.system whose module os is bloc"),
    (lambda: run(b"NN\x93."), LoadError, "its pickle names None and None"),
    (lambda: run(b"ctorch\nSize\n."), LoadError, "its pickle holds torch.Size, which is not data"),
    (lambda: run(b"](ctorch\nSize\ne."), LoadError, "which is not data"),
    (lambda: run(b"ctorch\nSize\n}b."), LoadError, "wants to set attributes of a Name"),
    (
        lambda: run(b"ctorch._utils\n_rebuild_tensor_v2\n}V__defaults__\nNsb."),
        LoadError,
        "wants to set attributes of a Name",
    ),
    (lambda: run(b"N)R."), LoadError, "wants to call None"),
    (lambda: run(b"ctorch\nFloatStorage\n)R."), LoadError, "wants to call torch.FloatStorage"),
    (lambda: run(b"ctorch\nTensor\n)R."), LoadError, "wants to call torch.Tensor"),
    (lambda: run(b"ctorch\nSize\n)\x81."), LoadError, "wants to call torch.Size"),
    (lambda: run(b"(iclass\nname\n."), LoadError, "the instruction b'i' at byte 1"),
    (lambda: run(b"\x82\1."), LoadError, "the instruction b'\\x82'"),
    (
        lambda: run(b"cbuiltins\nbytearray\n(J\0\0\0\x70tR."),
        LoadError,
        "a bytearray of (1879048192",
    ),
    (
        lambda: run(
            b"cbuiltins\nbytearray\nq\0C\xff" + bytes(255) + b"q\1\x85q\2"
            b"(" + b"h\0h\2R" * 3000 + b"t."
        ),
        LoadError,
        "makes far more data than it has",
    ),
    (lambda: run(b"cbuiltins\nset\n(K\1tR."), LoadError, "makes a container of (1)"),
    (lambda: run(b"cbuiltins\ncomplex\n(VA\ntR."), LoadError, "makes a complex number of ('A', 0."),
    (lambda: run(b"ccollections\ndefaultdict\n(K\1tR."), LoadError, "makes a defaultdict of 1"),
    (lambda: run(b"c_codecs\nencode\n(Va\nVrot13\ntR."), LoadError, "encodes a str as 'rot13'"),
    (lambda: run(b"c_codecs\nencode\n(V\\u1234\nVlatin1\ntR."), LoadError, "damaged bytes"),
    (lambda: run(b"ctorch\nSize\n((Va\nttR."), LoadError, "has the size ('a')"),
    (lambda: run(b"(Va\ntQ."), LoadError, "unknown persistent id: ('a')"),
    (
        lambda: run(b"(Vstorage\nI3\nV0\nVcpu\nI1\ntQ."),
        LoadError,
        "a storage of an unknown type: ('storage', 3, '0', 'cpu', 1)",
    ),
    (lambda: run(storage(count=-1) + b"."), LoadError, "a storage of -1 elements"),
    (lambda: run(storage() + b"."), LoadError, "no record 'archive/data/0'"),
    (
        lambda: run(storage(count=2**40) + b".", _0=TWO),
        LoadError,
        "'archive/data/0' has 8 bytes, and its tensors want 4398046511104",
    ),
    (
        lambda: run(
            storage() + b"0" + storage(b"DoubleStorage").removeprefix(b"\x80\x02") + b".", _0=TWO
        ),
        LoadError,
        "the storage '0' has 8 bytes, and its tensors want 16",
    ),
    (
        lambda: run(storage()[2:].split(b"\n(", 1)[0] + b"\n)R."),
        LoadError,
        "has a bad torch._utils",
    ),
    (
        lambda: run(storage() + b"I0\n(I3\nt(I1\nt\x89NtR.", _0=TWO),
        LoadError,
        "strides [1], storage offset 0 requiring 3 elements are out of bounds for storage of 2",
    ),
    (
        lambda: run(storage() + b"I0\n(I2\nt(I-1\nt\x89NtR.", _0=TWO),
        LoadError,
        "negative strides are not supported",
    ),
    (lambda: run(storage() + b"I0\n(I-2\nt(I1\nt\x89NtR.", _0=TWO), LoadError, "the shape [-2]"),
    (
        lambda: run(storage() + b"Va\n(I2\nt(I1\nt\x89NtR.", _0=TWO),
        LoadError,
        "has the storage a TypedStorage from 'a' on",
    ),
    (
        lambda: run(storage().replace(b"_v2", b"_v3") + b"I0\n(I2\nt(I1\nt\x89NVf\ntR.", _0=TWO),
        LoadError,
        "has the dtype 'f'",
    ),
    (
        lambda: run(b"ctorch._utils\n_rebuild_parameter\n(N\x88NtR."),
        LoadError,
        "a parameter in it is made of a NoneType",
    ),
    (
        lambda: run(b"ctorch._tensor\n_rebuild_from_type_v2\n(Va\nVb\n)NtR."),
        LoadError,
        "made by 'a' of the type 'b'",
    ),
    (
        lambda: run(b"ccollections\nOrderedDict\n)R}V__class__\nNsb."),
        LoadError,
        "its pickle has the attributes a dict",
    ),
)
def test_damaged_files_of_torch(row: Row) -> None:
    check(row)


def test_keys_that_take_forever_to_hash_are_refused() -> None:
    doubled = b")q\0" + b"".join(b"h%ch%c\x86q%c" % (i, i, i + 1) for i in range(60))
    with pytest.raises(LoadError, match="a key in it has more than 2000 parts"):
        run(b"(" + doubled + b"1}h\x3cNs.")


def test_the_error_names_the_file_and_is_both_classes(tmp_path: Any) -> None:
    path = tmp_path / "weights.bin"
    path.write_bytes(b"abc")
    for target in (path, str(path)):
        with pytest.raises(LoadError, match=r"cannot load .*weights\.bin: it is not a file of"):
            ad.load(target)
    with open(path, "rb") as file, pytest.raises(LoadError, match=r"weights\.bin"):
        ad.load(file)
    assert issubclass(LoadError, RuntimeError) and issubclass(LoadError, pickle.UnpicklingError)
