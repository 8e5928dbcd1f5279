"""`save` and `load`."""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from os import PathLike
from typing import IO, Any

from adjoint import _core
from adjoint._tensor.device import device, require_cpu
from adjoint.serialization import _safetensors, _torch_files, _torch_legacy
from adjoint.serialization._encode import Encoder
from adjoint.serialization._errors import LoadError, as_damage, shortened
from adjoint.serialization._replace import replacing
from adjoint.serialization._source import Source

__all__ = ["load", "save"]

Target = str | PathLike[str] | IO[bytes]


def save(
    obj: Any,
    f: Target,
    pickle_module: Any = None,
    pickle_protocol: int = 2,
    _use_new_zipfile_serialization: bool = True,
    _disable_byteorder_record: bool = False,
) -> None:
    """Write a structure of tensors, containers, numbers and strings to a file.

    What is loaded is what was saved: types, values, layouts, and which tensors and containers are
    shared. A file that exists is replaced when the new one is complete; until then, and if anything
    goes wrong, it stays as it was.

    Parameters
    ----------
    obj
        Tensors, parameters, dicts, lists, tuples, sets and their relatives in ``collections``,
        numbers, strings, bytes, NumPy arrays and scalars, dtypes, paths, enums and None, nested;
        so are named tuples, dataclasses, attrs classes and classes decorated with
        ``@adjoint.composite``, of which the file holds the names and the parts.
    f
        A path, or an object with ``write``.
    pickle_module, pickle_protocol
        Accepted for PyTorch's sake: nothing is pickled.

    Raises
    ------
    TypeError
        Something else is in the structure; the message says where. Save its ``state_dict()``.
    ValueError
        A container holds itself, or memory is shared in a way that a file does not keep.

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
    encoder, header = Encoder(), {}
    try:
        structure = encoder.encode(obj, "the object")
        entries = encoder.memory.lay_out()
        header = {"__metadata__": {"adjoint": json.dumps(structure)}, **entries}
    except RecursionError:
        raise ValueError("cannot save the object: it is nested too deeply") from None
    for warning in encoder.warnings:
        warnings.warn(warning, stacklevel=2)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)  # the format wants the data aligned
    if isinstance(f, str | PathLike):
        with replacing(f) as file:
            encoder.memory.write(file, text)
    else:
        encoder.memory.write(f, text)


def load(
    f: Target,
    map_location: Any = None,
    pickle_module: Any = None,
    *,
    weights_only: bool | None = None,
    mmap: bool | None = None,
    classes: Sequence[type] = (),
    **_: Any,
) -> Any:
    """Read what `save` wrote, a safetensors file, or a file of PyTorch's.

    Loading never executes anything: of PyTorch's files, tensors and plain containers are read and
    everything else is refused, whatever ``weights_only`` says. What is allocated is bounded by the
    size of the file.

    Parameters
    ----------
    f
        A path, or an object with ``read``.
    map_location
        Accepted for PyTorch's sake: all tensors come to the CPU. Another device is refused.
    classes
        Classes of composites in the file. Those of modules that are imported are found without; a
        class that rebuilds its objects with methods of its own must be given.

    Raises
    ------
    adjoint.serialization.LoadError
        The file is damaged, of an unknown kind, or holds something else than data. A RuntimeError,
        and a ``pickle.UnpicklingError``.
    """
    if isinstance(map_location, str | device):
        require_cpu(map_location)
    if isinstance(f, str | PathLike):
        with open(f, "rb") as file, _named(os.fspath(f)):
            return _read(file, classes)
    if not callable(getattr(f, "read", None)):
        raise AttributeError(
            f"expected 'f' to be string, path, or a file-like object with a 'read' attribute, not "
            f"{type(f).__name__}"
        )
    name = getattr(f, "name", None)
    with _named(name if isinstance(name, str) else "the file"):
        return _read(f, classes)


@contextmanager
def _named(name: str) -> Iterator[None]:
    """Say which file it is that cannot be read."""
    try:
        yield
    except LoadError as error:
        raise LoadError(f"cannot load {name}: {shortened(str(error))}") from error.__cause__


def _read(file: IO[bytes], classes: Sequence[type]) -> Any:
    _core._refuse_recording("a file is loaded")
    source = Source(file)
    start = source.read(0, min(source.size, 64))
    with as_damage(lambda error: f"it is damaged ({type(error).__name__}: {error})"):
        if start.startswith(b"PK\x03\x04"):
            found = _torch_files.read(source)
        elif _torch_legacy.is_legacy(start):
            found = _torch_legacy.read(source)
        else:
            found = _safetensors.read(source, classes)
    source.finish()
    return found
