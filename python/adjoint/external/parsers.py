r"""How the results of a program are read: ``outputs={"drag": parsers.regex(...)}`` of `ad.command`.

Each reads one result, from standard output or from a file in the folder of the run.

>>> from adjoint.external import parsers
>>> read = parsers.regex(r"drag = (\S+)")
>>> float(read.read(b"step 1 drag = 0.5\nstep 2 drag = 0.25\n"))
0.25
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

__all__ = ["Parser", "columns", "hdf5", "json_path", "netcdf", "regex"]


@dataclass(frozen=True)
class Parser:
    """Reads one result of a program.

    Attributes
    ----------
    read
        A function of the bytes that the program wrote, or of the path of the file if ``by_path``.
    file
        The name of the file in the folder of the run; None for standard output.
    by_path
        Whether ``read`` opens the file itself.
    text
        What it reads, as ``cache=`` of an external tells parsers apart.
    """

    read: Callable[[Any], Any]
    file: str | None = None
    by_path: bool = False
    text: str = ""

    def source(self, folder: Path, out: bytes) -> Any:
        """What is to be read, in the folder of a run."""
        if self.file is None:
            return out
        path = folder / self.file
        if not path.exists():
            there = ", ".join(sorted(p.name for p in folder.iterdir())) or "nothing"
            raise FileNotFoundError(f"it wrote no {self.file}; its folder holds {there}")
        return path if self.by_path else path.read_bytes()


def regex(pattern: str, file: str | None = None, *, every: bool = False) -> Parser:
    """The number that a regular expression finds: its first group, in the last place it matches.

    Parameters
    ----------
    pattern
        With one group around the number; in "multi-line" mode, where ``^`` begins a line.
    file
        The file that is searched; standard output by default.
    every
        Whether to return all places, as a vector.
    """
    compiled = re.compile(pattern, re.MULTILINE)
    if compiled.groups != 1:
        raise ValueError(
            f"regex({pattern!r}) has {compiled.groups} groups; put one around the number: "
            r"r'drag = (\S+)'"
        )

    def read(data: bytes) -> Any:
        found = [_number(text) for text in compiled.findall(data.decode(errors="replace"))]
        if not found:
            raise ValueError(f"{pattern!r} matches nowhere")
        return np.array(found) if every else np.asarray(found[-1])

    return Parser(read, file, text=f"regex({pattern!r}, {every})")


def columns(
    file: str | None = None,
    use: int | str | Sequence[int | str] | None = None,
    *,
    skip: int = 0,
    comments: str = "#",
    delimiter: str | None = None,
) -> Parser:
    """Columns of a table of numbers.

    Parameters
    ----------
    file
        The file that holds the table; standard output by default.
    use
        Which columns: positions, or names that stand in the last line that is skipped (a ``#`` in
        front does not count). One gives a vector, several a matrix; None gives all.
    skip
        How many lines at the top are not numbers.
    comments
        What begins a remark.
    delimiter
        What stands between numbers; blanks by default.
    """

    def read(data: bytes) -> Any:
        lines = data.decode(errors="replace").splitlines()
        if len(lines) < skip:
            raise ValueError(f"there are {len(lines)} lines, of which skip={skip} are not numbers")
        names = (
            [w.strip() for w in lines[skip - 1].lstrip(comments).split(delimiter)] if skip else []
        )
        rows = [line.split(comments)[0].strip() for line in lines[skip:]]
        numbers = [_of_row(row, delimiter, skip) for row in rows if row]
        widths = sorted({len(row) for row in numbers})
        if len(widths) > 1:
            raise ValueError(f"some lines have {widths[0]} numbers, others {widths[-1]}")
        table = np.array(numbers)
        if table.size == 0:
            raise ValueError("it holds no numbers")
        if use is None:
            return table
        alone = isinstance(use, (int, np.integer, str))
        chosen: Any = [use] if alone else list(use)  # type: ignore[arg-type]
        for item in chosen:
            if isinstance(item, str) and item not in names:
                raise ValueError(f"there is no column {item!r} among {', '.join(names) or 'none'}")
        places = [names.index(item) if isinstance(item, str) else item for item in chosen]
        found = table[:, places]
        return found[:, 0] if alone else found

    return Parser(read, file, text=f"columns({use!r}, {skip}, {comments!r}, {delimiter!r})")


_JSON_KEY = re.compile(r"""\[["'](.*?)["']\]|([^.\[\]]+)""")  # ['a key'], or one between dots


def json_path(path: str, file: str | None = None) -> Parser:
    """A number, or lists of numbers, in a JSON document.

    Parameters
    ----------
    path
        Keys and positions with dots between, ``"results.0.drag"``, or as JSONPath writes them,
        ``"$.results[0]['drag']"``.
    file
        The file; standard output by default.
    """
    keys_of = _JSON_KEY.findall(path.removeprefix("$"))

    def read(data: bytes) -> Any:
        value = json.loads(data)
        for key in (quoted or plain for quoted, plain in keys_of):
            try:
                value = value[int(key)] if isinstance(value, list) else value[key]
            except (KeyError, IndexError, ValueError, TypeError):
                keys = ", ".join(map(str, value)) if isinstance(value, dict) else repr(value)[:60]
                raise ValueError(f"{path!r}: there is no {key!r} in {keys}") from None
        return np.asarray(value, float)

    return Parser(read, file, text=f"json_path({path!r})")


# Of NetCDF: what stands where nothing was written, by the type of the variable.
_UNWRITTEN = {"f4": 2**122 * 1.875, "f8": 2**122 * 1.875, "i2": -32767, "i4": -2147483647}
_ONE_AT_A_TIME = threading.Lock()  # the libraries behind both formats are not made for threads


def netcdf(variable: str, file: str) -> Parser:
    """A variable of a NetCDF file: by netCDF4, or by SciPy for files of version 3.

    As netCDF4 reads it: packed numbers are unpacked, and what is missing is NaN.

    Parameters
    ----------
    variable
        Its name, with those of groups in front: ``"ocean/temperature"``.
    file
        The file in the folder of the run.
    """

    def read(path: Path) -> Any:
        with _ONE_AT_A_TIME:
            try:
                import netCDF4
            except ImportError:
                return _netcdf_by_scipy(path, variable)
            with netCDF4.Dataset(str(path)) as found:
                return _numbers(_in_groups(found, variable)[...], variable)

    return Parser(read, file, by_path=True, text=f"netcdf({variable!r})")


def _in_groups(found: Any, name: str) -> Any:
    *groups, last = name.strip("/").split("/")
    for group in groups:
        _has(name, group, found.groups)
        found = found.groups[group]
    _has(name, last, found.variables)
    return found.variables[last]


def _netcdf_by_scipy(path: Path, name: str) -> Any:
    from scipy.io import netcdf_file

    try:
        opened = netcdf_file(str(path), mmap=False, maskandscale=True)
    except TypeError as error:
        raise ValueError(
            f"{error}; netCDF4 reads those of version 4. fix: pip install netCDF4"
        ) from None
    with opened as found:
        last = name.removeprefix("/")
        _has(name, last, found.variables)
        variable = found.variables[last]
        values = np.ma.asarray(variable[...])
        if not hasattr(variable, "_FillValue"):
            empty = _UNWRITTEN.get(variable.data.dtype.str[1:])
            values = np.ma.masked_where(variable.data == empty, values)
        return _numbers(values, name)


def hdf5(dataset: str, file: str) -> Parser:
    """A dataset of an HDF5 file, by h5py: ``hdf5("fields/pressure", "out.h5")``."""

    def read(path: Path) -> Any:
        try:
            import h5py
        except ImportError:
            raise ImportError("reading HDF5 needs h5py; fix: pip install h5py") from None
        with _ONE_AT_A_TIME, h5py.File(path, "r") as found:
            here = found
            for name in dataset.strip("/").split("/"):
                if not isinstance(here, h5py.Group):
                    raise ValueError(f"there is nothing in the dataset {here.name!r}")
                _has(dataset, name, here)
                here = here.get(name)
                if here is None:
                    raise ValueError(f"{name!r} is a link to nothing{_of(dataset, name)}")
            if isinstance(here, h5py.Group):
                held = ", ".join(here) or "nothing"
                raise ValueError(f"{dataset!r} is a group, not a dataset; it holds {held}")
            return _numbers(here[...] if here.shape is not None else None, dataset)

    return Parser(read, file, by_path=True, text=f"hdf5({dataset!r})")


def _has(whole: str, name: str, names: Any) -> None:
    if name not in names:
        there = ", ".join(names) or "none"
        raise ValueError(f"there is no {name!r} among {there}" + _of(whole, name))


def _of(whole: str, name: str) -> str:
    return f" (in {whole!r})" if whole.strip("/") != name else ""


def _numbers(values: Any, name: str) -> Any:
    """An array of floats or complex numbers, in the dtype of the file; NaN for what is missing."""
    if values is None or values.dtype.kind not in "buifc":
        what = "empty" if values is None else f"of {values.dtype}"
        raise ValueError(f"{name!r} holds no numbers: it is {what}")
    dtype = values.dtype if values.dtype.kind in "fc" else np.dtype(float)
    dtype = np.promote_types(dtype.newbyteorder("="), np.float32)
    wide = values.astype(dtype)
    return np.array(wide.filled(np.nan) if isinstance(wide, np.ma.MaskedArray) else wide, dtype)


def _of_row(row: str, delimiter: str | None, skip: int) -> list[float]:
    try:
        return [_number(v) for v in row.split(delimiter)]
    except ValueError as error:
        marks = [mark for mark in ",;" if delimiter is None and mark in row]
        apart = f"delimiter={marks[0]!r}, " if marks else ""
        raise ValueError(
            f"{error} (fix: {apart}skip= for lines at the top that are not numbers, "
            f"{skip} now, comments= for remarks)"
        ) from None


def _number(text: Any) -> float:
    """A number as programs write it: Fortran has 1.5D-3 for 1.5e-3, and 1.5-103 for 1.5e-103."""
    try:
        return float(text)
    except ValueError:
        plain = re.sub(r"[dD]", "e", text)
        return float(re.sub(r"(?<=[\d.])([+-]\d{3})$", r"e\1", plain))
