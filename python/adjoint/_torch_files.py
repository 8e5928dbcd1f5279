"""Reading files that PyTorch's ``save`` wrote, without running what they say.

Such a file is a zip archive: a pickle ``data.pkl`` and one raw file per storage. The pickle machine
of the standard library runs here with a table of the few names that rebuild tensors and containers;
any other name is refused before anything is called.
"""

from __future__ import annotations

import pickle
import zipfile
from collections import OrderedDict
from typing import IO, Any

from adjoint import _core
from adjoint._core import Tensor

_STORAGES = {
    "FloatStorage": _core.float32, "DoubleStorage": _core.float64, "HalfStorage": _core.float16,
    "BFloat16Storage": _core.bfloat16, "LongStorage": _core.int64, "IntStorage": _core.int32,
    "ShortStorage": _core.int16, "CharStorage": _core.int8, "ByteStorage": _core.uint8,
    "BoolStorage": _core.bool, "ComplexFloatStorage": _core.complex64,
    "ComplexDoubleStorage": _core.complex128, "UntypedStorage": _core.uint8,
}  # fmt: skip
_DTYPES = (
    "bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32",
    "float64", "complex64", "complex128",
)  # fmt: skip


class _Raw:
    """One storage of the file: its bytes and the dtype it was saved with."""

    def __init__(self, data: bytes, dtype: _core.dtype) -> None:
        self.dtype = dtype
        buffer = bytearray(data)
        self.bytes: Tensor = (
            _core._frombuffer(buffer, _core.uint8, -1, 0).clone()
            if buffer
            else _core.empty(0, dtype=_core.uint8)
        )


def _rebuild_tensor(
    storage: _Raw, offset: int, size: Any, stride: Any, requires_grad: bool = False, *_: Any
) -> Tensor:
    t: Tensor = _core._on_storage(storage.bytes, storage.dtype, tuple(size), tuple(stride), offset)
    return t.requires_grad_() if requires_grad else t


def _rebuild_parameter(data: Tensor, requires_grad: bool, *_: Any) -> Tensor:
    from adjoint.nn.parameter import Parameter

    return Parameter(data, requires_grad)


def _rebuild_device(*args: Any) -> Any:
    from adjoint._device import device

    return device("cpu")


def _allowed() -> dict[tuple[str, str], Any]:
    table: dict[tuple[str, str], Any] = {
        ("collections", "OrderedDict"): OrderedDict,
        ("torch._utils", "_rebuild_tensor"): _rebuild_tensor,
        ("torch._utils", "_rebuild_tensor_v2"): _rebuild_tensor,
        ("torch._utils", "_rebuild_parameter"): _rebuild_parameter,
        ("torch", "Size"): _core.Size,
        ("torch", "device"): _rebuild_device,
        ("builtins", "set"): set,
        ("__builtin__", "set"): set,
        ("builtins", "complex"): complex,
        ("__builtin__", "complex"): complex,
        ("builtins", "bytearray"): bytearray,
    }
    for name, dtype in _STORAGES.items():
        table["torch", name] = dtype
        table["torch.storage", name] = dtype
    for name in _DTYPES:
        table["torch", name] = getattr(_core, name)
    return table


class _Unpickler(pickle.Unpickler):
    def __init__(self, file: IO[bytes], archive: zipfile.ZipFile, folder: str) -> None:
        super().__init__(file)
        self._archive, self._folder = archive, folder
        self._names = _allowed()
        self._storages: dict[str, _Raw] = {}

    def find_class(self, module: str, name: str) -> Any:
        found = self._names.get((module, name))
        if found is None:
            raise pickle.UnpicklingError(
                f"the file wants to use {module}.{name}, which is not among the tensors and plain "
                "containers that adjoint reads; save the state_dict() instead of the object"
            )
        return found

    def persistent_load(self, pid: Any) -> Any:
        if not (isinstance(pid, tuple) and len(pid) == 5 and pid[0] == "storage"):
            raise pickle.UnpicklingError(f"unknown persistent id in the file: {pid!r}")
        _, dtype, key, _, _ = pid
        if not isinstance(dtype, _core.dtype):
            raise pickle.UnpicklingError(f"unknown storage type in the file: {dtype!r}")
        if key not in self._storages:
            raw = self._archive.read(f"{self._folder}/data/{key}")
            self._storages[key] = _Raw(raw, dtype)
        return self._storages[key]


def read(file: IO[bytes]) -> Any:
    """The structure in a file of PyTorch's ``save``."""
    if not zipfile.is_zipfile(file):
        raise RuntimeError("the file starts like a zip archive but is none; is it complete?")
    with zipfile.ZipFile(file) as archive:
        pickles = [name for name in archive.namelist() if name.endswith("data.pkl")]
        if len(pickles) != 1:
            raise RuntimeError("the zip file was not written by torch.save: it has no data.pkl")
        folder = pickles[0].rpartition("/")[0]
        order = [name for name in archive.namelist() if name.endswith("/byteorder")]
        if order and archive.read(order[0]) != b"little":
            raise RuntimeError("the file was written on a big-endian machine")
        with archive.open(pickles[0]) as stream:
            return _Unpickler(stream, archive, folder).load()
