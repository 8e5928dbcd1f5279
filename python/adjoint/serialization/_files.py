"""`save` and `load`: the formats, and what the caller asks for."""

from __future__ import annotations

import mmap as _mmap
import os
import pickle
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from os import PathLike
from typing import IO, Any

from adjoint import _core
from adjoint.serialization import _settings
from adjoint.serialization._errors import CallersError, LoadError, as_damage, shortened
from adjoint.serialization._locations import check_location, is_meta, restorer
from adjoint.serialization._pickling import pickled, place_of_failure
from adjoint.serialization._reading import LEGACY_MAGIC, Reading
from adjoint.serialization._replace import replacing
from adjoint.serialization._safe_globals import allowed
from adjoint.serialization._source import Source
from adjoint.serialization._zip_writer import write_archive

__all__ = ["DEFAULT_PROTOCOL", "get_unsafe_globals_in_checkpoint", "load", "save"]

DEFAULT_PROTOCOL = 2
Target = str | PathLike[str] | IO[bytes]
Writer = Callable[[IO[bytes]], None]


def save(
    obj: Any,
    f: Target,
    pickle_module: Any = pickle,
    pickle_protocol: int = DEFAULT_PROTOCOL,
    _use_new_zipfile_serialization: bool = True,
    _disable_byteorder_record: bool = False,
) -> None:
    """Write an object to a file that PyTorch reads too, or to a safetensors file.

    A file that exists is replaced when the new one is complete; until then, and if anything goes
    wrong, it stays as it was.

    Parameters
    ----------
    obj
        Tensors, parameters, state dicts, containers, numbers, strings, NumPy arrays, paths,
        enums, dataclasses, nested; and everything else that can be pickled, modules among them.
    f
        A path, or an object with ``write``. If the name ends in ``.safetensors``, the format is
        safetensors and objects are those that `load` reads without being told: data.
    pickle_module
        Its ``Pickler`` takes objects apart.
    pickle_protocol : int, default 2
        The version of pickles.
    _use_new_zipfile_serialization : bool, default True
        False: the format that PyTorch had before version 1.6.
    _disable_byteorder_record : bool, default False
        True: the file does not tell the order of bytes.

    Raises
    ------
    pickle.PicklingError, AttributeError, TypeError
        An object cannot be pickled: a lambda, a local class, an open file.
    ValueError
        Memory is shared in a way that a file does not keep; in safetensors files, a container
        holds itself.

    Notes
    -----
    As in PyTorch, the whole storage of a tensor is saved, also for a view of a part of it; save
    ``tensor.clone()`` for the part alone. Histories, hooks and ``.grad`` are not saved.

    Examples
    --------
    >>> import adjoint as ad
    >>> import io
    >>> buffer = io.BytesIO()
    >>> ad.save({"w": ad.ones(2), "step": 3}, buffer)
    >>> _ = buffer.seek(0)
    >>> ad.load(buffer)
    {'w': tensor([1., 1.]), 'step': 3}
    """
    if not isinstance(f, str | PathLike) and not callable(getattr(f, "write", None)):
        raise AttributeError(
            f"expected 'f' to be string, path, or a file-like object with a 'write' attribute, not "
            f"{type(f).__name__}"
        )
    _core._refuse_recording("a file is saved")
    if _is_safetensors(f):
        write, notes = _as_safetensors(obj)
    else:
        module = pickle if pickle_module is None else pickle_module
        legacy = not _use_new_zipfile_serialization
        try:
            data, storages, notes = pickled(obj, module, pickle_protocol, legacy)
        except (pickle.PicklingError, AttributeError, TypeError) as error:
            error.add_note(f"in saving {place_of_failure(obj, pickle_protocol)}")
            raise

        def write(file: IO[bytes]) -> None:
            if legacy:
                from adjoint.serialization import _torch_legacy

                _torch_legacy.write(file, data, storages, pickle_protocol)
            else:
                write_archive(file, data, storages, not _disable_byteorder_record)

    for note in notes:
        warnings.warn(note, stacklevel=2)
    if isinstance(f, str | PathLike):
        with replacing(f) as file:
            write(file)
    else:
        write(f)
        flush = getattr(f, "flush", None)
        if callable(flush):  # who opens the file by its name is to find it
            flush()


def _is_safetensors(f: Target) -> bool:
    name = f if isinstance(f, str | PathLike) else getattr(f, "name", None)
    if isinstance(name, PathLike):
        name = os.fspath(name)
    return isinstance(name, str) and name.endswith(".safetensors")


def _as_safetensors(obj: Any) -> tuple[Writer, list[str]]:
    """What writes an object, as data, to a safetensors file; and warnings."""
    import json

    from adjoint.serialization._encode import Encoder

    encoder = Encoder()
    try:
        structure = encoder.encode(obj, "the object")
        entries = encoder.memory.lay_out()
        header = {"__metadata__": {"adjoint": json.dumps(structure)}, **entries}
    except RecursionError:
        raise ValueError("cannot save the object: it is nested too deeply") from None
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)  # the format wants the data aligned
    return lambda file: encoder.memory.write(file, text), encoder.warnings


def load(
    f: Target,
    map_location: Any = None,
    pickle_module: Any = None,
    *,
    weights_only: bool | None = None,
    mmap: bool | None = None,
    classes: Sequence[type] = (),
    **pickle_load_args: Any,
) -> Any:
    """Read what `save` wrote, a safetensors file, or a file of PyTorch's.

    Unless ``weights_only`` is False, loading never executes anything that a file says: tensors,
    containers, numbers, NumPy arrays and other data are made, everything else is refused. What is
    allocated is bounded by the size of the file.

    Parameters
    ----------
    f
        A path, or an object with ``read``.
    map_location
        All tensors come to the CPU, or to "meta", without values: another device is refused. A
        function is asked about every storage, with the place where it was; a dict has places.
    pickle_module
        Its ``Unpickler`` makes the object; ``weights_only`` is then False.
    weights_only : bool, optional
        False: make any object, by running what the file says. For files that you trust.
    mmap : bool, optional
        Use the tensors in the file itself, which is read when they are. For paths.
    classes
        Classes of objects in the file, as for `add_safe_globals`, for this call. Named tuples,
        plain dataclasses and enums of modules that are imported are found without.
    pickle_load_args
        For the ``Unpickler``.

    Raises
    ------
    adjoint.serialization.LoadError
        The file is damaged, of an unknown kind, or holds something else than data. A RuntimeError,
        and a ``pickle.UnpicklingError``.
    """
    check_location(map_location)
    reading = _reading(pickle_module, weights_only, classes, pickle_load_args)
    reading.restore, reading.without_values = restorer(map_location), is_meta(map_location)
    if isinstance(f, str | PathLike):
        with open(f, "rb") as file, _named(os.fspath(f)):
            return _read(file, reading, _mapped(f) if mmap else None)
    if not callable(getattr(f, "read", None)):
        raise AttributeError(
            f"expected 'f' to be string, path, or a file-like object with a 'read' attribute, not "
            f"{type(f).__name__}"
        )
    if mmap:
        raise ValueError("f must be a file path in order to use the mmap argument")
    name = getattr(f, "name", None)
    with _named(name if isinstance(name, str) else "the file"):
        return _read(f, reading)


def _reading(
    module: Any, weights_only: bool | None, classes: Sequence[type], options: dict[str, Any]
) -> Reading:
    """How to read, after PyTorch's rules for what the arguments leave open."""
    chosen = module is None if weights_only is None else bool(weights_only)
    forced, freed = _is_set("TORCH_FORCE_WEIGHTS_ONLY_LOAD"), _is_set(_FREED)
    if forced and freed:
        raise RuntimeError(
            f"Only one of `TORCH_FORCE_WEIGHTS_ONLY_LOAD` or `{_FREED}` should be set, but both "
            "were set."
        )
    if forced:
        chosen = True
    elif freed and weights_only is None:
        warnings.warn(
            f"Environment variable {_FREED} detected, since the `weights_only` argument was not "
            "explicitly passed to `torch.load`, forcing weights_only=False.",
            stacklevel=3,
        )
        chosen = False
    if not chosen:
        return Reading(pickle if module is None else module, {"encoding": "utf-8", **options})
    if module is not None:
        raise RuntimeError("Can not safely load weights when explicit pickle_module is specified")
    if options:
        warnings.warn("pickle_load_args only works if `weights_only=False`.", stacklevel=3)
    given = allowed(classes)
    kinds = [what for what in given.values() if isinstance(what, type)]
    return Reading(given=given, classes=kinds)


_FREED = "TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD"


def _is_set(variable: str) -> bool:
    return os.environ.get(variable, "0").lower() in ("1", "y", "yes", "true")


def _mapped(path: str | PathLike[str]) -> Any:
    """A file in memory, of which nothing is read yet."""
    shared = _settings.get_default_mmap_options() == _mmap.MAP_SHARED
    with open(path, "r+b" if shared else "rb") as file:
        if os.fstat(file.fileno()).st_size == 0:
            return None
        access = _mmap.ACCESS_WRITE if shared else _mmap.ACCESS_COPY
        return _mmap.mmap(file.fileno(), 0, access=access)


@contextmanager
def _named(name: str) -> Iterator[None]:
    """Say which file it is that cannot be read."""
    try:
        yield
    except CallersError as error:
        assert error.__cause__ is not None
        raise error.__cause__ from None
    except LoadError as error:
        raise LoadError(f"cannot load {name}: {shortened(str(error))}") from error.__cause__


def _read(file: IO[bytes], reading: Reading, mapped: Any = None) -> Any:
    # Each format is imported at its first use.
    _core._refuse_recording("a file is loaded")
    source = Source(file)
    start = source.read(0, min(source.size, 64))
    reading.mapped = mapped
    if start.startswith(b"PK\x03\x04"):
        from adjoint.serialization import _torch_files

        found = _torch_files.read(source, reading)
    elif _is_legacy(start):
        from adjoint.serialization import _torch_legacy

        if mapped is not None:
            raise RuntimeError(
                "mmap can only be used with files saved with "
                "`torch.save(_use_new_zipfile_serialization=True), please torch.save your "
                "checkpoint with this option in order to use mmap."
            )
        found = _torch_legacy.read(source, reading)
    else:
        from adjoint.serialization import _safetensors

        with as_damage(lambda error: f"it is damaged ({type(error).__name__}: {error})"):
            found = _safetensors.read(source, reading.classes)
    source.finish()
    return found


def _is_legacy(start: bytes) -> bool:
    """Whether a file begins as those of PyTorch before 1.6: with a pickle of a certain number."""
    return start[:1] == b"\x80" and LEGACY_MAGIC.to_bytes(10, "little") in start[:32]


def get_unsafe_globals_in_checkpoint(f: Target) -> list[str]:
    """The names in a file that `load` refuses, unless it is told ``weights_only=False``.

    Parameters
    ----------
    f
        A file of `save`: a path, or an object with ``read``.

    Returns
    -------
    list of str
        ``"module.name"`` of classes and functions that are not data by themselves and were not
        given to `add_safe_globals`.
    """
    if isinstance(f, str | PathLike):
        with open(f, "rb") as file:
            return get_unsafe_globals_in_checkpoint(file)
    from adjoint.serialization._torch_files import names_in
    from adjoint.serialization._torch_names import finder, todays_name

    source = Source(f)
    if not source.read(0, min(source.size, 4)).startswith(b"PK\x03\x04"):
        raise ValueError("Expected input to be a checkpoint returned by torch.save")
    find, refused = finder(allowed()), []
    for old in dict.fromkeys(_names(names_in(source))):
        module, name = todays_name(*old)
        try:
            find(module, name)
        except LoadError:
            refused.append(f"{module}.{name}")
    return refused


def _names(data: bytes) -> Iterator[tuple[str, str]]:
    """The names in a pickle, as far as they can be seen without running it."""
    import pickletools

    strings: list[str] = []
    with as_damage(lambda error: f"its pickle is damaged: {error}"):
        for code, argument, _ in pickletools.genops(data):
            if code.name == "GLOBAL":
                module, _, name = str(argument).partition(" ")
                yield module, name
            elif code.name == "STACK_GLOBAL" and len(strings) >= 2:
                yield strings[-2], strings[-1]
            elif isinstance(argument, str):
                strings.append(argument)
