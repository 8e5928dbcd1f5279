"""Arguments of `load` and settings: places of tensors, mapped files, checksums, byte order."""

from __future__ import annotations

import io
import mmap
import pickle
import zipfile
import zlib
from pathlib import Path
from typing import Any

import pytest

import adjoint as ad
from adjoint import serialization
from adjoint.serialization import LoadEndianness, LoadError


@pytest.fixture
def path(tmp_path: Path) -> Path:
    ad.save([ad.arange(4.0), ad.ones(0), ad.arange(3)], tmp_path / "file.pt")
    return tmp_path / "file.pt"


def test_places_of_tensors(path: Path) -> None:
    seen = []

    def where(storage: Any, place: str) -> Any:
        seen.append((storage.nbytes(), place))
        return storage if storage.nbytes() == 16 else None

    for place in (None, "cpu", ad.device("cpu"), b"cpu", {"cuda:0": "cpu"}, {"cpu": "cpu"}, where):
        assert ad.load(path, map_location=place)[0].tolist() == [0, 1, 2, 3]
    assert seen == [(16, "cpu"), (0, "cpu"), (24, "cpu")]
    for wrong in ("cuda", ad.device("cuda", 1), {"cpu": "cuda:0"}):
        with pytest.raises(RuntimeError, match="CPU"):
            ad.load(path, map_location=wrong)
    with pytest.raises(TypeError, match="map_location"):
        ad.load(path, map_location=3)
    with pytest.raises(TypeError, match="returned a int, not a storage"):
        ad.load(path, map_location=lambda storage, place: 3)


def test_a_function_may_give_another_storage(path: Path) -> None:
    found = ad.load(path, map_location=lambda s, _: ad.zeros(s.nbytes() // 4).untyped_storage())
    assert found[0].tolist() == [0, 0, 0, 0]


def test_mapped_files(path: Path) -> None:
    whole = path.read_bytes()
    found = ad.load(path, mmap=True)
    assert [t.tolist() for t in found] == [[0, 1, 2, 3], [], [0, 1, 2]]
    assert found[0].data_ptr() % 64 == 0
    found[0].mul_(2)
    assert found[0].tolist() == [0, 2, 4, 6] and path.read_bytes() == whole
    del found
    with serialization.set_default_mmap_options(mmap.MAP_SHARED):
        ad.load(path, mmap=True)[0][0] = 9.0
    assert serialization.get_default_mmap_options() == mmap.MAP_PRIVATE
    assert ad.load(path, mmap=True)[0][0] == 9.0
    with pytest.raises(LoadError, match="checksum"):
        ad.load(path)
    with pytest.raises(ValueError, match=r"expected mmap\.MAP_PRIVATE or"):
        serialization.set_default_mmap_options(99)


def test_only_archives_with_a_path_are_mapped(path: Path) -> None:
    with open(path, "rb") as file, pytest.raises(ValueError, match="must be a file path"):
        ad.load(file, mmap=True)
    ad.save(1, path, _use_new_zipfile_serialization=False)
    with pytest.raises(RuntimeError, match="mmap can only be used with files saved with"):
        ad.load(path, mmap=True)
    assert ad.load(path) == 1
    path.write_bytes(b"")
    with pytest.raises(LoadError, match="it has 0 bytes"):
        ad.load(path, mmap=True)


def test_data_may_be_skipped(path: Path) -> None:
    with serialization.skip_data():
        found = ad.load(path)
        ad.save(ad.ones(5), path)
    assert found[0].shape == (4,)
    assert ad.load(path).tolist() == [0] * 5
    ad.save(ad.ones(2), path)
    assert ad.load(path).tolist() == [1, 1]


def test_checksums_may_be_omitted(path: Path) -> None:
    assert serialization.get_crc32_options() is True
    serialization.set_crc32_options(False)
    try:
        ad.save(ad.ones(2), path)
    finally:
        serialization.set_crc32_options(True)
    with zipfile.ZipFile(path) as archive:
        assert {info.CRC for info in archive.infolist()} == {0}
    assert ad.load(path).tolist() == [1, 1]


def test_checksums_are_those_of_zlib() -> None:
    from adjoint.serialization._checksum import crc32

    data = bytes(range(256)) * 5
    for size in (0, 1, 15, 16, 63, 64, 65, 128, 200, 1279):
        for before in (0, 1, 0xFFFFFFFF):
            for view in (data[1 : 1 + size], memoryview(data)[1 : 1 + size]):
                assert crc32(view, before) == zlib.crc32(view, before)


def test_archives_are_sound(path: Path) -> None:
    """Python's reader of archives checks every record."""
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None
        names = archive.namelist()
        assert archive.read("archive/byteorder") == b"little"
    first = ("data.pkl", ".format_version", ".storage_alignment", "byteorder")
    assert names[:4] == [f"archive/{name}" for name in first]
    assert names[-1] == "archive/version"


def test_far_records_have_long_lengths(monkeypatch: Any) -> None:
    """As for 4 GiB and more; the border is set lower."""
    from adjoint.serialization import _zip_writer

    monkeypatch.setattr(_zip_writer, "_LARGE", 300)
    out = io.BytesIO()
    writer = _zip_writer.ArchiveWriter(out)
    fields = []
    for name, size in (("a", 10), ("b", 500), ("c", 20), ("d", 0)):
        start = out.tell()
        writer.record(name, bytes(range(size % 256)) + bytes(size - size % 256))
        writer._flush()
        fields.append(out.getvalue()[start : start + 30 + 9 + 28])
    data = out.getvalue()
    assert [b"\1\0\x10\0" in f or b"\1\0\x18\0" in f or b"\1\0\x08\0" in f for f in fields] == [
        False, True, True, True,
    ]  # fmt: skip
    assert data.count(b"PK\x07\x08") == 3


def test_the_order_of_bytes_of_files_that_do_not_tell(path: Path) -> None:
    ad.save(ad.tensor([1], dtype=ad.int16), path, _disable_byteorder_record=True)
    try:
        for order, value in ((None, 1), (LoadEndianness.LITTLE, 1), (LoadEndianness.BIG, 256)):
            serialization.set_default_load_endianness(order)
            assert serialization.get_default_load_endianness() is order
            assert ad.load(path).item() == value
    finally:
        serialization.set_default_load_endianness(None)
    with pytest.raises(TypeError, match="Invalid argument type"):
        serialization.set_default_load_endianness("big")  # type: ignore[arg-type]


def test_who_decides_what_is_executed(path: Path, monkeypatch: Any) -> None:
    ad.save(ad.nn.Linear(1, 1), path)
    for options in ({}, {"weights_only": True}):
        with pytest.raises(LoadError, match="Weights only load failed"):
            ad.load(path, **options)
    assert type(ad.load(path, weights_only=False)) is ad.nn.Linear
    assert type(ad.load(path, pickle_module=pickle)) is ad.nn.Linear
    with pytest.raises(RuntimeError, match="explicit pickle_module"):
        ad.load(path, pickle_module=pickle, weights_only=True)
    monkeypatch.setenv("TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD", "1")
    with pytest.warns(UserWarning, match="forcing weights_only=False"):
        assert type(ad.load(path)) is ad.nn.Linear
    monkeypatch.setenv("TORCH_FORCE_WEIGHTS_ONLY_LOAD", "yes")
    with pytest.raises(RuntimeError, match="Only one of"):
        ad.load(path)
    monkeypatch.delenv("TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD")
    with pytest.raises(LoadError):
        ad.load(path, weights_only=False)


def test_options_of_the_unpickler(path: Path) -> None:
    ad.save([1], path)
    assert ad.load(path, weights_only=False, encoding="latin1") == [1]
    with pytest.warns(UserWarning, match="pickle_load_args only works"):
        assert ad.load(path, encoding="latin1") == [1]


def test_names_that_libraries_look_for() -> None:
    for name in ("DEFAULT_PROTOCOL", "StorageType", "location_tag", "default_restore_location",
                 "register_package", "_get_layout"):  # fmt: skip
        assert hasattr(serialization, name)
    storage = ad.ones(1).untyped_storage()
    assert serialization.location_tag(storage) == "cpu"
    assert serialization.default_restore_location(storage, "cpu") is storage
    with pytest.raises(RuntimeError, match="CPU"):
        serialization.default_restore_location(storage, "cuda:0")
