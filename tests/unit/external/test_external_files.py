"""NetCDF and HDF5: files as the libraries write them, and programs that write such files."""

from __future__ import annotations

import concurrent.futures
import sys

import numpy as np
import pytest

import adjoint as ad
from adjoint.external import parsers

MISSING = [1.0, np.nan, 3.0]


def read(parser, folder):
    return parser.read(parser.source(folder, b""))


def same(found, wanted, dtype=np.float64):
    assert found.dtype == dtype and found.dtype.isnative
    np.testing.assert_allclose(found, wanted, rtol=1e-7)


@pytest.fixture
def h5(tmp_path):
    h5py = pytest.importorskip("h5py")
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["fields/p"] = np.arange(3.0)
        file["a/a"] = 2.5
        file["whole"] = np.arange(4)
        file["yes"] = np.array([True, False])
        file["single"] = np.float32([1, 2])
        file["big"] = np.array([1.0, 2.0], ">f8")
        file["complex"] = np.array([1 + 2j, 3])
        file["none"] = np.zeros((0, 3))
        packed = np.arange(100.0).reshape(10, 10)
        file.create_dataset("packed", data=packed, compression="gzip", chunks=(5, 5))
        file["text"] = "hello"
        file["empty"] = h5py.Empty("f8")
        file["table"] = np.array([(1, 2)], [("x", "f8"), ("y", "f8")])
        file["link"] = h5py.SoftLink("/fields/p")
        file["dead"] = h5py.SoftLink("/nowhere")
    (tmp_path / "bad.h5").write_bytes(b"drag = 1")
    return tmp_path


def test_datasets_of_hdf5_keep_their_shape_and_dtype(h5):
    for name in ("fields/p", "/fields/p", "link"):
        same(read(parsers.hdf5(name, "a.h5"), h5), np.arange(3.0))
    same(read(parsers.hdf5("a/a", "a.h5"), h5), 2.5)
    same(read(parsers.hdf5("whole", "a.h5"), h5), np.arange(4.0))
    same(read(parsers.hdf5("yes", "a.h5"), h5), [1, 0])
    same(read(parsers.hdf5("single", "a.h5"), h5), [1, 2], np.float32)
    same(read(parsers.hdf5("big", "a.h5"), h5), [1, 2])
    same(read(parsers.hdf5("complex", "a.h5"), h5), [1 + 2j, 3], np.complex128)
    same(read(parsers.hdf5("none", "a.h5"), h5), np.zeros((0, 3)))
    same(read(parsers.hdf5("packed", "a.h5"), h5), np.arange(100.0).reshape(10, 10))


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("q", "there is no 'q' among a, big, complex"),
        ("fields/q", r"there is no 'q' among p \(in 'fields/q'\)"),
        ("fields/p/q", "there is nothing in the dataset '/fields/p'"),
        ("fields", "'fields' is a group, not a dataset; it holds p"),
        ("dead", "'dead' is a link to nothing"),
        ("text", "'text' holds no numbers: it is of"),
        ("table", "'table' holds no numbers: it is of"),
        ("empty", "'empty' holds no numbers: it is empty"),
    ],
)
def test_what_hdf5_does_not_hold_is_told(h5, name, message):
    with pytest.raises(ValueError, match=message):
        read(parsers.hdf5(name, "a.h5"), h5)
    with pytest.raises(OSError, match="signature"):
        read(parsers.hdf5(name, "bad.h5"), h5)


def write_netcdf(path, form):
    """A file with what has to be unpacked, or is missing."""
    netCDF4 = pytest.importorskip("netCDF4")
    with netCDF4.Dataset(path, "w", format=form) as file:
        file.createDimension("x", 3)
        file.createDimension("t", None)
        file.createVariable("p", "f8", ("x",))[:] = [1, 2, 3]
        file.createVariable("scalar", "f8")[...] = 4.5
        file.createVariable("whole", "i4", ("x",))[:] = [1, 2, 3]
        packed = file.createVariable("packed", "i2", ("x",))
        packed.scale_factor, packed.add_offset = 0.5, 5.0
        packed[:] = [5.5, 6.0, 6.5]
        gaps = np.ma.array([1, 2, 3], mask=[0, 1, 0])
        file.createVariable("masked", "f4", ("x",), fill_value=-999.0)[:] = gaps
        file.createVariable("gaps", "i4", ("x",), fill_value=-999)[:] = gaps
        missing = file.createVariable("missing", "i4", ("x",))
        missing.missing_value = np.int32(-1)
        missing[:] = [1, -1, 3]
        unwritten = file.createVariable("unwritten", "f8", ("x",))
        unwritten[0::2] = [1, 3]
        times = file.createVariable("times", "f8", ("t", "x"))
        times[0, :], times[1, :] = 1, 2
        file.createVariable("text", "S1", ("x",))[:] = np.array(list("abc"), "S1")
        if form == "NETCDF4":
            group = file.createGroup("ocean").createGroup("top")
            group.createVariable("q", "f8", ("x",))[:] = [7, 8, 9]


@pytest.mark.parametrize("form", ["NETCDF4", "NETCDF3_CLASSIC", "scipy"])
def test_variables_of_netcdf_are_unpacked_whoever_reads_them(tmp_path, monkeypatch, form):
    write_netcdf(tmp_path / "a.nc", "NETCDF3_CLASSIC" if form == "scipy" else form)
    if form == "scipy":
        monkeypatch.setitem(sys.modules, "netCDF4", None)
    for name in ("p", "/p", "whole"):
        same(read(parsers.netcdf(name, "a.nc"), tmp_path), [1, 2, 3])
    same(read(parsers.netcdf("scalar", "a.nc"), tmp_path), 4.5)
    same(read(parsers.netcdf("packed", "a.nc"), tmp_path), [5.5, 6.0, 6.5])
    same(read(parsers.netcdf("masked", "a.nc"), tmp_path), MISSING, np.float32)
    for name in ("gaps", "missing", "unwritten"):
        same(read(parsers.netcdf(name, "a.nc"), tmp_path), MISSING)
    same(read(parsers.netcdf("times", "a.nc"), tmp_path), [[1, 1, 1], [2, 2, 2]])
    with pytest.raises(ValueError, match="there is no 'q' among p, scalar"):
        read(parsers.netcdf("q", "a.nc"), tmp_path)
    with pytest.raises(ValueError, match=r"'text' holds no numbers: it is of .S1"):
        read(parsers.netcdf("text", "a.nc"), tmp_path)


def test_groups_of_netcdf(tmp_path, monkeypatch):
    write_netcdf(tmp_path / "a.nc", "NETCDF4")
    for name in ("ocean/top/q", "/ocean/top/q"):
        same(read(parsers.netcdf(name, "a.nc"), tmp_path), [7, 8, 9])
    with pytest.raises(ValueError, match=r"there is no 'ice' among ocean \(in 'ice/q'\)"):
        read(parsers.netcdf("ice/q", "a.nc"), tmp_path)
    monkeypatch.setitem(sys.modules, "netCDF4", None)
    with pytest.raises(ValueError, match="fix: pip install netCDF4"):
        read(parsers.netcdf("p", "a.nc"), tmp_path)


def test_netcdf_of_scipy_alone(tmp_path, monkeypatch):
    from scipy.io import netcdf_file

    with netcdf_file(str(tmp_path / "a.nc"), "w") as file:
        file.createDimension("x", 3)
        file.createVariable("p", "f8", ("x",))[:] = [1.0, 2.0, 3.0]
    monkeypatch.setitem(sys.modules, "netCDF4", None)
    same(read(parsers.netcdf("p", "a.nc"), tmp_path), [1, 2, 3])


# --- programs that write them ---------------------------------------------------------------------

PROGRAMS = {
    "h5py": (
        "import h5py, sys\n"
        "v = float(sys.argv[1])\n"
        "with h5py.File('out', 'w') as file:\n"
        "    file['fields/y'] = [v**2, v**3]\n",
        parsers.hdf5("fields/y", "out"),
    ),
    "netCDF4": (
        "import netCDF4, sys\n"
        "v = float(sys.argv[1])\n"
        "with netCDF4.Dataset('out', 'w') as file:\n"
        "    file.createDimension('x', 2)\n"
        "    file.createVariable('y', 'f8', ('x',))[:] = [v**2, v**3]\n",
        parsers.netcdf("y", "out"),
    ),
}


def program(package, **options):
    pytest.importorskip(package)
    code, parser = PROGRAMS[package]
    run = [sys.executable, "-c", code, "{v}"]
    return ad.command(run, inputs=["v"], outputs={"y": parser}, **options)


@pytest.mark.parametrize("package", list(PROGRAMS))
@pytest.mark.parametrize("workers", [None, 2, "threads"])
def test_gradients_of_programs_that_write_files(package, workers):
    options = {"probe": False, "verify": False, "workers": workers}
    with ad.external(program(package), **options) as f:
        v = ad.tensor(1.5, dtype=ad.float64, requires_grad=True)
        y = f(v)["y"]
        y.sum().backward()
    assert y.tolist() == pytest.approx([2.25, 3.375])
    assert v.grad.item() == pytest.approx(3.0 + 6.75, rel=1e-6)


@pytest.mark.parametrize("package", list(PROGRAMS))
def test_kept_runs_are_read_again_from_their_files(package, tmp_path):
    for _ in range(2):
        f = program(package, keep=tmp_path / "runs", resume=True)
        assert f(1.5)["y"].tolist() == pytest.approx([2.25, 3.375])
    assert len((tmp_path / "runs" / "journal.jsonl").read_text().splitlines()) == 1


@pytest.mark.parametrize("package", list(PROGRAMS))
def test_files_are_read_by_many_threads(package, tmp_path):
    program(package, keep=tmp_path / "runs")(1.5)
    (folder,) = tmp_path.glob("runs/run-*")
    parser = PROGRAMS[package][1]
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        for y in pool.map(lambda _: read(parser, folder), range(200)):
            np.testing.assert_allclose(y, [2.25, 3.375])
