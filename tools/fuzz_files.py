"""Damage files at random and load them: `python -m tools.fuzz_files --rounds 20000 --seed 1`.

`load` may succeed or raise `LoadError`. Any other exception, a file, process or module that it
touches on the way, a tensor outside its memory, an object that is not data, a change of the
library itself, or more memory than the files account for (the process limits itself) ends the run
with the seed and the damaged file. Every format that `load`
reads is damaged in two ways: byte by byte, and in its structure with lengths and checksums set
right again, which comes much deeper.
"""

from __future__ import annotations

import argparse
import dataclasses
import enum
import io
import itertools
import json
import pickle
import pickletools
import random
import resource
import struct
import sys
import zipfile
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

import numpy as np

import adjoint as ad
from adjoint.serialization import LoadError

# Beyond what the process has when it begins: the files have a few kilobytes.
ALLOWANCE = 512 << 20
# What loading must not do. The interpreter reports these itself.
FORBIDDEN = ("exec", "compile", "import", "open", "os.", "subprocess.", "socket.", "ctypes.",
             "shutil.", "code.__new__", "pickle.find_class", "object.__setattr__")  # fmt: skip
INTERESTING = (0, 1, -1, 2, 3, 64, 65, 127, 255, 2**31 - 1, 2**31, 2**32, 2**62, 2**63 - 1, 2**63,
               2**64, -(2**63), 0.5, None, True, "", "t0", "t1", [], {})  # fmt: skip

PICKLE = (
    b"\x80\x02}q\x00(X\x01\x00\x00\x00wq\x01ctorch._utils\n_rebuild_tensor_v2\nq\x02"
    b"((X\x07\x00\x00\x00storageq\x03ctorch\nFloatStorage\nq\x04X\x01\x00\x00\x000q\x05"
    b"X\x03\x00\x00\x00cpuq\x06K\x06tq\x07QK\x00K\x02K\x03\x86q\x08K\x03K\x01\x86q\x09\x89"
    b"ccollections\nOrderedDict\nq\x0a)Rq\x0btq\x0cRq\x0dX\x01\x00\x00\x00bq\x0e"
    b"c_codecs\nencode\nq\x0fX\x03\x00\x00\x00abcq\x10X\x06\x00\x00\x00latin1q\x11\x86q\x12Rq\x13"
    b"X\x01\x00\x00\x00lq\x14]q\x15(K\x01G?\xf0\x00\x00\x00\x00\x00\x00\x8a\x09\x00\x00\x00\x00"
    b"\x00\x00\x00\x00\x01Ncbuiltins\nset\nq\x16]q\x17(K\x01K\x02e\x85q\x18Rq\x19e"
    b"X\x01\x00\x00\x00cq\x1accollections\nCounter\nq\x1b}q\x1cK\x01K\x02s\x85q\x1dRq\x1eu."
)
RECORDS = {"data/0": struct.pack("<6f", *range(6)), "byteorder": b"little", "version": b"3\n"}


def archive(pickled: bytes, records: dict[str, bytes]) -> bytes:
    """A file as torch.save writes it."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as file:
        for name, data in {"data.pkl": pickled, **records}.items():
            file.writestr(f"archive/{name}", data)
    return out.getvalue()


def legacy(pickled: bytes, storage: bytes) -> bytes:
    """A file as torch.save wrote it before version 1.6."""
    first = (0x1950A86A20F9469CFC6C, 1001, {"little_endian": True})
    head = b"".join(pickle.dumps(part, 2) for part in first)
    # In this format a persistent id has one more part, about views.
    body = pickled.replace(b"K\x06tq\x07Q", b"K\x06Ntq\x07Q")
    return head + body + pickle.dumps(["0"], 2) + struct.pack("<q", 6) + storage


@dataclasses.dataclass
class Point:
    """A class of which files may have objects."""

    x: Any
    y: Any = None


@dataclasses.dataclass(frozen=True, slots=True)
class Fixed:
    """One that can be a key, and has no ``__dict__``."""

    n: int


class Pair(NamedTuple):
    """A tuple with names."""

    a: Any
    b: Any


class Level(enum.Enum):
    """Names for numbers."""

    LOW = 1
    HIGH = 2


CLASSES = (Point, Fixed, Pair)


def structures() -> list[Any]:
    """What is saved, to be damaged."""
    x = ad.arange(12.0).reshape(3, 4)
    return [
        {"x": x, "row": x[1], "t": x.clone().t(), "bytes": x.view(ad.uint8), "again": [x, x]},
        [ad.nn.Linear(2, 2).state_dict(), ad.nn.Parameter(ad.ones(2)), ad.ones(0, 3)],
        (np.arange(6).reshape(2, 3, order="F"), np.float64(0.1), np.datetime64("2020-01-01")),
        {"c": Counter("abca"), "d": defaultdict(list, a=[1]), "o": OrderedDict(a=1), 3: deque([1])},
        [1, 2**70, 0.5, float("nan"), 1j, "text", b"raw", bytearray(b"x"), None, True, ...],
        {(1, (2, 3)): {4, 5}, frozenset({1}): range(3), "s": slice(1, None), "p": PurePosixPath()},
        [ad.float32, ad.device("cpu"), ad.Size([2, 3]), ad.Generator()],
        [Point(x, [x]), Pair(1, Point(2)), {Fixed(3): Fixed(4)}, Level.HIGH, {Level.LOW}],
        [ad.eye(3).to_sparse(), ad.eye(3).to_sparse_csr(), x.max(dim=1)],
    ]


class Named(io.BytesIO):
    """A file in memory with a name, which tells the format."""

    name = "file.safetensors"


def seeds() -> list[bytes]:
    """Files of every format that is read."""
    files = []
    for obj in structures():
        for out, new in ((io.BytesIO(), True), (io.BytesIO(), False), (Named(), True)):
            ad.save(obj, out, _use_new_zipfile_serialization=new)
            files.append(out.getvalue())
    header = {
        "a": {"dtype": "F32", "shape": [2, 2], "data_offsets": [0, 16]},
        "b": {"dtype": "BF16", "shape": [3], "data_offsets": [16, 22]},
        "__metadata__": {"format": "pt"},
    }
    files.append(_with_header(header, bytes(22)))
    files.append(archive(PICKLE, RECORDS))
    files.append(legacy(PICKLE, RECORDS["data/0"]))
    return files


def _with_header(header: Any, body: bytes) -> bytes:
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + body


# --- damage ---------------------------------------------------------------------------------------
def damage_bytes(rng: random.Random, data: bytes) -> bytes:
    """Change a few bytes, or cut, lengthen, repeat and overlay stretches of them."""
    made = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 4, 8))):
        if not made:
            break
        at, length = rng.randrange(len(made)), rng.choice((1, 2, 4, 8, 32, 200))
        kind = rng.randrange(9)
        if kind == 0:
            made[at] ^= 1 << rng.randrange(8)
        elif kind == 1:
            made[at] = rng.choice((0, 1, 0x28, 0x2E, 0x7F, 0x80, 0xFF, rng.randrange(256)))
        elif kind == 2:
            del made[at:]
        elif kind == 3:
            made += rng.randbytes(length)
        elif kind == 4:
            del made[at : at + length]
        elif kind == 5:
            made[at:at] = made[at : at + length]
        elif kind == 6:
            source = rng.randrange(len(made))
            made[at : at + length] = made[source : source + length]
        elif kind == 7:
            made[at : at + 8] = struct.pack("<Q", rng.randrange(2**64) >> rng.randrange(64))
        else:
            made[at : at + length] = rng.randbytes(length)
    return bytes(made)


def damage_header(rng: random.Random, data: bytes) -> bytes:
    """Change values of the JSON header, or of the structure inside it."""
    (length,) = struct.unpack_from("<Q", data)
    header = json.loads(data[8 : 8 + length])
    metadata = header.get("__metadata__", {})
    if "adjoint" in metadata and rng.random() < 0.7:
        structure = json.loads(metadata["adjoint"])
        metadata["adjoint"] = json.dumps(_changed(rng, structure))
    else:
        header = _changed(rng, header)
    return _with_header(header, data[8 + length :])


def _changed(rng: random.Random, value: Any) -> Any:
    """``value`` with one part replaced, removed, repeated or put into another place."""
    parts = _parts(value)
    if not parts or rng.random() < 0.02:
        return rng.choice(INTERESTING)
    for _ in range(rng.choice((1, 1, 2, 3))):
        holder, key = rng.choice(parts)
        other_holder, other_key = rng.choice(parts)
        kind = rng.randrange(6)
        try:
            if kind == 0:
                holder[key] = rng.choice(INTERESTING)
            elif kind == 1:
                holder[key] = json.loads(json.dumps(other_holder[other_key]))
            elif kind == 2:
                del holder[key]
            elif kind == 3 and isinstance(holder, dict):
                holder[str(rng.choice(list(other_holder)))] = holder.pop(key)
            elif kind == 4 and isinstance(holder[key], int):
                holder[key] += rng.choice((-1, 1, 8, -8, 2**31, 2**63))
            elif isinstance(holder, list):
                holder.insert(key, holder[key])
        except (KeyError, IndexError, TypeError):
            continue  # an earlier change took it away
    return value


def _parts(value: Any) -> list[tuple[Any, Any]]:
    found: list[tuple[Any, Any]] = []
    ahead = [value]
    while ahead:
        holder = ahead.pop()
        keys = holder if isinstance(holder, dict) else range(len(holder))
        for key in keys:
            found.append((holder, key))
            if isinstance(holder[key], dict | list):
                ahead.append(holder[key])
    return found


def damage_pickle(rng: random.Random, data: bytes) -> bytes:
    """Change the pickle of a file, or write one of random instructions, with a new checksum."""
    if data[:2] != b"PK":
        return legacy(damage_bytes(rng, PICKLE), RECORDS["data/0"])
    records, pickled = dict(RECORDS), PICKLE
    if rng.random() < 0.7:
        with zipfile.ZipFile(io.BytesIO(data)) as file:
            names = [name.partition("/")[2] for name in file.namelist()]
            records = {name: file.read(f"archive/{name}") for name in names}
        pickled = records.pop("data.pkl")
    if rng.random() < 0.2:
        name = rng.choice(list(records))
        records[name] = damage_bytes(rng, records[name])
    if rng.random() < 0.8:
        pickled = _damaged_pickle(rng, pickled)
    else:
        pickled = b"".join(_instruction(rng) for _ in range(rng.randrange(1, 60))) + b"."
    return archive(pickled, records)


def _damaged_pickle(rng: random.Random, data: bytes) -> bytes:
    """Change bytes, or put other instructions in the place of some."""
    if rng.random() < 0.4:
        return damage_bytes(rng, data)
    places = [at for _, _, at in pickletools.genops(data)] + [len(data)]
    parts = [data[a:b] for a, b in itertools.pairwise(places)]
    for _ in range(rng.choice((1, 1, 2, 4))):
        at, other = rng.randrange(len(parts)), rng.randrange(len(parts))
        kind = rng.randrange(5)
        if kind == 0:
            parts[at] = _instruction(rng)
        elif kind == 1:
            parts[at] = parts[other]
        elif kind == 2:
            parts[at] += parts[other]
        elif kind == 3:
            parts[at], parts[other] = parts[other], parts[at]
        elif len(parts) > 1:
            del parts[at]
    return b"".join(parts)


_GLOBALS = (b"builtins\nset", b"builtins\nbytearray", b"builtins\ncomplex", b"builtins\nlist",
            b"collections\nOrderedDict", b"collections\nCounter", b"collections\ndefaultdict",
            b"torch\nSize", b"torch\nFloatStorage", b"torch\nfloat64", b"torch\ndevice",
            b"torch._utils\n_rebuild_tensor_v2", b"torch._utils\n_rebuild_parameter",
            b"torch._tensor\n_rebuild_from_type_v2", b"torch\nTensor", b"_codecs\nencode",
            b"numpy\ndtype", b"numpy\nndarray", b"numpy._core.multiarray\n_reconstruct",
            b"numpy._core.multiarray\nscalar", b"pathlib\nPosixPath", b"collections\ndeque",
            b"types\nSimpleNamespace", b"__builtin__\nxrange", b"torch._C\nGenerator",
            b"torch._utils\n_rebuild_sparse_tensor", b"torch.serialization\n_get_layout",
            b"torch.return_types\nmax", b"__main__\nPoint", b"__main__\nLevel", b"__main__\nPair",
            b"tools.fuzz_files\nPoint", b"tools.fuzz_files\nLevel", b"tools.fuzz_files\nPair",
            b"os\nsystem", b"builtins\neval", b"builtins\ngetattr")  # fmt: skip


def _instruction(rng: random.Random) -> bytes:
    kind = rng.randrange(8)
    if kind == 0:
        return b"c" + rng.choice(_GLOBALS) + b"\n"
    if kind == 1:
        return rng.choice((b"h", b"q", b"K")) + bytes([rng.randrange(8)])
    if kind == 2:
        return b"X" + struct.pack("<I", 1) + rng.choice((b"0", b"a"))
    if kind == 3:
        return rng.choice((b"J", b"X", b"T", b"B", b"\x8b", b"r", b"j")) + rng.randbytes(4)
    if kind == 4:
        return rng.choice((b"\x8d", b"\x8e", b"\x96")) + struct.pack("<Q", rng.randrange(2**64))
    if kind == 5:
        return rng.choice((b"R", b"b", b"Q", b"\x81", b"\x93", b"s", b"u", b"e", b"a", b"\x90"))
    if kind == 6:
        return rng.choice((b"(", b"(", b"t", b")", b"]", b"}", b"\x85", b"\x86", b"\x87", b"2"))
    return bytes([rng.randrange(256)])


# --- the run --------------------------------------------------------------------------------------
class Watch:
    """Notes what the interpreter reports while a file is loaded."""

    def __init__(self) -> None:
        self.on, self.seen = False, set[str]()
        sys.addaudithook(self)

    def __call__(self, event: str, arguments: tuple[Any, ...]) -> None:
        if self.on and event.startswith(FORBIDDEN):
            self.seen.add(f"{event} {arguments!r:.100}")


def use(obj: Any, depth: int = 0) -> None:
    """Read every tensor that was loaded; everything else must be data."""
    if isinstance(obj, ad.Tensor):
        if obj.numel() <= 1 << 20:
            obj.detach().clone()
    elif depth < 50 and isinstance(obj, dict):
        for key, value in obj.items():
            use(key, depth + 1)
            use(value, depth + 1)
    elif depth < 50 and isinstance(obj, list | tuple | set | frozenset | deque):
        for value in obj:
            use(value, depth + 1)
    else:
        assert not type(obj).__module__.startswith("adjoint.serialization"), f"loaded {obj!r}"


def library() -> dict[str, Any]:
    """What modules, classes and functions of adjoint's hold, to be compared."""
    found: dict[str, Any] = {}
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] == "adjoint" and module is not None:
            for key, value in list(vars(module).items()):
                found[f"{name}.{key}"] = _content(value)
    return found


def _content(value: Any) -> Any:
    if isinstance(value, dict):
        return id(value), [(id(k), id(v)) for k, v in value.items()]
    if isinstance(value, list | tuple | set):
        return id(value), [id(v) for v in value]
    parts = ("__defaults__", "__kwdefaults__", "__code__")
    held = [(k, id(v)) for k, v in getattr(value, "__dict__", {}).items()]
    return id(value), held, [id(getattr(value, name, None)) for name in parts]


def run(rounds: int, seed: int) -> Counter[str]:
    """Damage and load ``rounds`` files; how often they were loaded and refused."""
    files, counts, watch = seeds(), Counter[str](), Watch()
    for data in files:
        use(ad.load(io.BytesIO(data), classes=CLASSES))
    before = library()
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * resource.getpagesize() + ALLOWANCE
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    for i in range(rounds):
        rng = random.Random(f"{seed}/{i}")
        data = rng.choice(files)
        ways: list[Callable[[random.Random, bytes], bytes]] = [damage_bytes]
        ways.append(damage_pickle if data[:1] in (b"P", b"\x80") else damage_header)
        data = rng.choice(ways)(rng, data)
        watch.on = True
        try:
            found = ad.load(io.BytesIO(data), classes=CLASSES)
            watch.on = False
            use(found)
            counts["loaded"] += 1
        except LoadError as error:
            watch.on = False
            counts["refused"] += 1
            assert len(str(error)) < 2000, f"seed {seed}, round {i}: a message without an end"
        except BaseException:
            print(f"seed {seed}, round {i}: {data!r}", file=sys.stderr)
            raise
        if watch.seen:
            raise SystemExit(f"seed {seed}, round {i}: loading did {watch.seen}: {data!r}")
    after = library()
    changed = [name for name in before if after.get(name) != before[name]]
    if changed:
        raise SystemExit(f"seed {seed}: loading changed {', '.join(changed)}")
    return counts


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    print(dict(run(arguments.rounds, arguments.seed)))


if __name__ == "__main__":
    main()
