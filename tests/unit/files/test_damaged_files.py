"""Damaged and hostile files end in `LoadError`, in bounded memory, and run nothing."""

from __future__ import annotations

import io
import json
import re
import struct
import subprocess
import sys
import time
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import pytest

import adjoint as ad
from adjoint.serialization import LoadError
from tests.children import ROOT, WITH_CHECKOUT
from tests.errors.test_files import run, saved, structure, torch_zip, with_header
from tools.fuzz_files import PICKLE, RECORDS, legacy, library


def test_files_damaged_at_random_are_loaded_or_refused() -> None:
    """In a process that limits its memory and watches what the interpreter does."""
    out = subprocess.run(
        [sys.executable, "-m", "tools.fuzz_files", "--rounds", "4000", "--seed", "3"],
        cwd=ROOT, env=WITH_CHECKOUT,
        capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert out.returncode == 0, out.stderr[-3000:]
    assert "'loaded'" in out.stdout and "'refused'" in out.stdout


@pytest.mark.parametrize("keep", range(40))
def test_every_prefix_of_a_file_is_refused(keep: int) -> None:
    for data in (saved({"a": ad.arange(6.0), "b": [1, "x"]}), torch_zip(b"(K\1K\2l.")):
        with pytest.raises(LoadError):
            ad.load(io.BytesIO(data[: keep * len(data) // 40]))


def limited(code: str) -> str:
    """Run code in a process that may take 256 MB more than it has after importing adjoint."""
    begin = (
        "import io, resource, adjoint as ad\n"
        "from adjoint.serialization import LoadError\n"
        "from tests.errors.test_files import run, structure, torch_zip, loaded\n"
        "pages = int(open('/proc/self/statm').read().split()[0])\n"
        "limit = pages * resource.getpagesize() + (256 << 20)\n"
        "resource.setrlimit(resource.RLIMIT_AS, (limit, limit))\n"
        "def refused(f, *args):\n"
        "    try: f(*args)\n"
        "    except LoadError as error: print(str(error)[:200])\n"
        "    else: print('loaded')\n"
    )
    out = subprocess.run(
        [sys.executable, "-c", begin + code],
        cwd=ROOT, env=WITH_CHECKOUT,
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert out.returncode == 0, out.stderr[-2000:]
    return out.stdout


def test_lengths_are_compared_with_the_file() -> None:
    huge = limited(
        "refused(run, b'cbuiltins\\nbytearray\\n(J\\0\\0\\0\\x70tR.')\n"
        "refused(run, b'\\x96' + (3 << 30).to_bytes(8, 'little') + b'.')\n"
        "refused(run, b'\\x8e' + (3 << 30).to_bytes(8, 'little') + b'.')\n"
        "refused(run, b'\\x8b\\0\\0\\0\\x70.')\n"
        "refused(loaded, (3 << 30).to_bytes(8, 'little') + b'{}')\n"
        "row = {'dtype': 'U8', 'shape': [3 << 30], 'data_offsets': [0, 3 << 30]}\n"
        "refused(structure, {'tensor': 'a'}, {'a': row})\n"
    )
    assert huge.count("cannot load the file") == 6, huge


def test_a_zip_bomb_is_not_unpacked() -> None:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("archive/data.pkl", b"N.")
        file.writestr("archive/data/0", bytes(64 << 20))
    with pytest.raises(LoadError, match="is compressed"):
        ad.load(io.BytesIO(out.getvalue()))


def test_one_long_string_is_not_copied_again_and_again() -> None:
    shown = limited(
        "text = b'X' + (1 << 20).to_bytes(4, 'little') + b'a' * (1 << 20) + b'q\\0'\n"
        "pairs = b'c_codecs\\nencode\\nq\\1h\\0Vlatin1\\n\\x86q\\2'\n"
        "refused(run, b'(' + text + pairs + b'h\\1h\\2R' * 100000 + b't.')\n"
    )
    assert "makes far more data than it has" in shown


def test_deep_nesting_is_loaded_or_refused() -> None:
    made = run(b"]" * 200_000 + b"a" * 199_999 + b".")
    depth = 0
    while made:
        made, depth = made[0], depth + 1
    assert depth == 199_999
    with pytest.raises(LoadError, match="more than 2000 parts"):
        run(b"}" + b")" + b"\x85" * 100_000 + b"Ns.")
    text = '{"list": [' * 50_000 + "]}" * 50_000
    header = b'{"__metadata__": {"adjoint": "' + text.replace('"', '\\"').encode() + b'"}}'
    with pytest.raises(LoadError, match="nested too deeply"):
        ad.load(io.BytesIO(len(header).to_bytes(8, "little") + header))


def test_messages_do_not_print_what_doubles_with_every_level() -> None:
    doubled = b")q\0" + b"".join(b"h%ch%c\x86q%c" % (i, i, i + 1) for i in range(60))
    start = time.monotonic()
    for use in (b"Q.", b")R.", b"}b.", b"\x85Q."):
        with pytest.raises(LoadError):
            run(b"(" + doubled + b"1h\x3c" + use)
    for name in (b"builtins\nset", b"torch\nSize", b"builtins\nbytearray", b"_codecs\nencode"):
        with pytest.raises(LoadError):
            run(b"(" + doubled + b"1c" + name + b"\nh\x3c\x85R.")
    assert time.monotonic() - start < 5


def test_loading_changes_nothing_of_the_library() -> None:
    """BUILD would have set the defaults of a function, SETITEM an entry of a table."""
    with pytest.raises(LoadError):
        run(b"ctorch\nSize\nb.")  # what is imported on the way is there
    library()  # names that are loaded when they are asked for
    before = library()
    for target in (b"ctorch._utils\n_rebuild_tensor_v2\n", b"ccollections\nOrderedDict\n",
                   b"cbuiltins\nlist\n", b"ctorch\nfloat32\n", b"ctorch\nSize\n)R"):  # fmt: skip
        for change in (
            b"}V__defaults__\nN\x85sb",
            b"N}V__defaults__\nN\x85s\x86b",
            b"Va\nNs",
            b"Na",
        ):
            with pytest.raises(LoadError):
                run(target + change + b".")
    assert library() == before


def overlapping() -> bytes:
    """An archive in which two records have the same bytes."""
    data = bytearray(torch_zip(b"N.", {"data/0": bytes(64), "data/1": bytes(64)}))
    first = data.find(b"PK\x01\x02", data.find(b"PK\x01\x02") + 1)
    second = data.find(b"PK\x01\x02", first + 1)
    data[second + 42 : second + 46] = data[first + 42 : first + 46]
    return bytes(data)


def test_records_that_lie_over_each_other_are_refused() -> None:
    with pytest.raises(LoadError, match=r"lies over another or outside|like a zip archive"):
        ad.load(io.BytesIO(overlapping()))


def test_a_storage_that_is_too_short_for_its_tensor_is_refused() -> None:
    for count, size, stride, offset in (
        (2, 3, 1, 0), (2, 2, 2, 0), (2, 1, 1, 2), (2, 2, 1, -1), (2, 2**62, 4, 0), (2, 1, 1, 2**63),
    ):  # fmt: skip
        pickled = (
            b"\x80\x02ctorch._utils\n_rebuild_tensor_v2\n((Vstorage\nctorch\nFloatStorage\nV0\n"
            b"Vcpu\nI%d\ntQI%d\n(I%d\nt(I%d\nt\x89NtR." % (count, offset, size, stride)
        )
        with pytest.raises(LoadError):
            run(pickled, _0=struct.pack("<2f", 1, 2))


@pytest.mark.parametrize(
    "pickled", [b"ccollections\nOrderedDict\n\x85.", b"](ctorch\nFloatStorage\n\x85\x85e."]
)
def test_names_do_not_get_out_inside_of_tuples(pickled: bytes) -> None:
    with pytest.raises(LoadError, match=r"its pickle holds a tuple of .*, which is not data"):
        run(pickled)


@dataclass
class Watched:
    """Its property, hash and comparison tell that they ran."""

    x: int
    ran: ClassVar[list[str]] = []

    @property
    def y(self) -> int:
        return 1

    @y.setter
    def y(self, value: int) -> None:
        self.ran.append("y")

    def __hash__(self) -> int:
        self.ran.append("hash")
        return 1


@dataclass(frozen=True)
class Both:
    a: Any
    b: Any


def entry(cls: type, parts: dict[str, Any], **more: Any) -> dict[str, Any]:
    name = f"{cls.__module__}:{cls.__qualname__}"
    return {"object": {"class": name, "parts": list(parts.items()), **more}}


def test_methods_run_only_for_classes_that_were_given() -> None:
    with pytest.raises(LoadError, match="whose own methods would be run to rebuild it"):
        structure(entry(Watched, {"x": 1}, others=[["y", 2]]))
    with pytest.raises(LoadError, match=r"whose own __hash__ would be run.\n.*classes=\[Watched\]"):
        structure({"set": [entry(Watched, {"x": 1})]})
    assert Watched.ran == []
    assert structure({"list": [entry(Watched, {"x": 1})]}) == [Watched(1)]
    data = with_header(
        {"__metadata__": {"adjoint": json.dumps({"set": [entry(Watched, {"x": 1})]})}}
    )
    assert ad.load(io.BytesIO(data), classes=[Watched]) == {Watched(1)}


def test_keys_that_double_with_every_level_are_refused_in_objects_too() -> None:
    first = {**entry(Both, {"a": 1, "b": 1}), "id": 0}
    doubled = [entry(Both, {"a": {"again": i}, "b": {"again": i}}) for i in range(40)]
    rows = [first, *({**row, "id": i + 1} for i, row in enumerate(doubled))]
    whole = {"list": [*rows, {"set": [{"again": 40}]}]}
    data = with_header({"__metadata__": {"adjoint": json.dumps(whole)}})
    with pytest.raises(LoadError, match="a key in it has more than 2000 parts"):
        ad.load(io.BytesIO(data), classes=[Both])


def test_whatever_a_structure_raises_is_damage() -> None:
    with pytest.raises(LoadError, match="unpack requires a buffer of 8 bytes"):
        structure({"float": "nan:00"})


def test_messages_have_an_end() -> None:
    long = "a" * 1_000_000
    row = {"dtype": "F32", "shape": [1], "data_offsets": [0, 0]}
    for header in ({long: row}, {"x": {**row, "shape": [1.5] * 100_000}},
                   {"__metadata__": {"adjoint": json.dumps({long: 1})}},
                   {"__metadata__": {"adjoint": json.dumps({"again": long})}}):  # fmt: skip
        with pytest.raises(LoadError) as caught:
            ad.load(io.BytesIO(with_header(header)))
        assert len(str(caught.value)) < 1200


def test_sizes_are_multiplied_only_as_far_as_they_fit() -> None:
    long = b"\x8b" + struct.pack("<i", 1_000_000) + b"\x7f" * 1_000_000
    start = time.monotonic()
    with pytest.raises(LoadError, match="has the shape a list, which is too large"):
        run(
            b"ctorch._utils\n_rebuild_tensor_v2\n((Vstorage\nctorch\nFloatStorage\nV0\nVcpu\n"
            b"I2\ntQI0\n(" + long * 40 + b"t(t\x89NtR.",
            _0=bytes(8),
        )
    assert time.monotonic() - start < 10


def test_a_file_larger_than_memory_is_an_error_of_loading(tmp_path: Path) -> None:
    """A hole costs nothing on the disk."""
    size = 1 << 43
    head = with_header({"x": {"dtype": "U8", "shape": [size], "data_offsets": [0, size]}})
    with open(tmp_path / "file", "wb") as file:
        file.write(head)
        try:
            file.truncate(len(head) + size)
        except OSError:
            pytest.skip("no such large files here")
    with pytest.raises(LoadError, match="out of memory"):
        ad.load(tmp_path / "file")


def test_damaged_files_of_the_old_format_are_refused() -> None:
    data = legacy(PICKLE, RECORDS["data/0"])
    assert ad.load(io.BytesIO(data))["w"].tolist() == [[0, 1, 2], [3, 4, 5]]
    for cut in range(len(data)):
        with pytest.raises(LoadError):
            ad.load(io.BytesIO(data[:cut]))
    for old, new, message in (
        (b"M\xe9\x03", b"M\xea\x03", "has version 1002"),
        (b"\x88s.", b"\x89s.", "big-endian"),
        (b"X\x01\x00\x00\x000q\x01a.", b"X\x01\x00\x00\x001q\x01a.", "not those of its tensors"),
        (struct.pack("<q", 6), struct.pack("<q", 5), "a storage of 24 bytes has 5 elements"),
        (b"K\x06Nt", b"J\0\0\0\x7fNt", "wants 8522825728 bytes, which it does not have"),
        (b"K\x06Nt", b"K\x06K\1t", "a storage of 6 elements, viewed by [1]"),
    ):
        assert data.count(old) == 1
        with pytest.raises(LoadError, match=re.escape(message)):
            ad.load(io.BytesIO(data.replace(old, new)))
    file = io.BytesIO(data + data + b"x")  # in this format files follow each other
    for _ in range(2):
        assert ad.load(file)["w"].tolist() == [[0, 1, 2], [3, 4, 5]]
    assert file.read() == b"x"
