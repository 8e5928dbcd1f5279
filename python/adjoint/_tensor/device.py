"""`device`: the names of devices. adjoint computes on the CPU, and `require_cpu` checks that."""

from __future__ import annotations

import re
import threading
from typing import Any

from adjoint import _core

__all__ = ["device"]

_KNOWN = (
    "cpu, cuda, ipu, xpu, mkldnn, opengl, opencl, ideep, hip, ve, fpga, maia, xla, lazy, vulkan, "
    "mps, meta, hpu, mtia, privateuseone"
)
_NUMBER = re.compile("0|[1-9][0-9]*", re.ASCII)


class device:
    """The name of a place for tensors. All there is lives on the CPU.

    Every device that PyTorch knows has a name here too, so that a script can choose between them
    or compare one; making a tensor there is what raises.

    Parameters
    ----------
    type : str or device
        "cpu", "cuda", "mps", "meta" and so on, perhaps with a number: "cuda:0".
    index : int, optional
        The number, if the name has none.

    Raises
    ------
    RuntimeError
        No device has this name.

    Examples
    --------
    >>> import adjoint as ad
    >>> ad.device("cpu")
    device(type='cpu')
    >>> ad.device("cuda", 1)
    device(type='cuda', index=1)
    >>> ad.zeros(2, device="cuda" if ad.cuda.is_available() else "cpu")
    tensor([0., 0.])
    """

    __slots__ = ("_index", "_type")
    _type: str
    _index: int | None

    def __new__(cls, type: str | int | device, index: int | None = None) -> device:
        if isinstance(type, device):
            return type
        if isinstance(type, int) and not isinstance(type, bool):
            raise RuntimeError(
                f"device({type}) is a number of an accelerator, and there is none: adjoint "
                "computes on the CPU only; use device('cpu')"
            )
        if not isinstance(type, str):
            raise TypeError(
                "device(): argument 'type' (position 1) must be str, not "
                f"{type.__class__.__name__}; adjoint has one device, 'cpu'"
            )
        self = super().__new__(cls)
        name, number = _parsed(type, index)
        object.__setattr__(self, "_type", name)
        object.__setattr__(self, "_index", number)
        return self

    @property
    def type(self) -> str:
        """The kind of device, such as "cpu"."""
        return self._type

    @property
    def index(self) -> int | None:
        """The number given with it, or None."""
        return self._index

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"attribute '{name}' of 'torch.device' objects is not writable")

    def __repr__(self) -> str:
        index = "" if self._index is None else f", index={self._index}"
        return f"device(type='{self._type}'{index})"

    def __str__(self) -> str:
        return self._type if self._index is None else f"{self._type}:{self._index}"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, device):
            return NotImplemented
        return (self._type, self._index) == (other._type, other._index)

    def __hash__(self) -> int:
        return hash((self._type, self._index))

    def __reduce__(self) -> tuple[Any, ...]:
        return device, (self._type, self._index)

    def __enter__(self) -> device:
        is_meta = self._type == "meta"
        if not is_meta:
            require_cpu(self)
        before = _core._make_without_values(is_meta)
        _blocks.opened = (*_blocks.opened, (before, is_meta))
        return self

    def __exit__(self, *_: object) -> None:
        *outer, (before, _is_meta) = _blocks.opened
        _blocks.opened = tuple(outer)
        _core._make_without_values(before)


class _Blocks(threading.local):
    """The `with device(...)` blocks that are open in a thread, the innermost last."""

    # Of each: whether "meta" was the default before it, and whether it is inside.
    opened: tuple[tuple[bool, bool], ...] = ()


_blocks = _Blocks()


def is_meta_wanted(wanted: Any) -> bool:
    """Whether a tensor is to be made without values: on the device "meta", or by default there."""
    if wanted is None:
        return bool(_blocks.opened) and _blocks.opened[-1][1]
    return bool(wanted == "meta" or (isinstance(wanted, device) and wanted.type == "meta"))


class MetaAsked(RuntimeError):
    """Raised where the device "meta" is named, and caught where tensors are made."""


def require_cpu(wanted: Any) -> None:
    """Raise unless tensors can be made there: on the CPU, or (None) wherever the default is."""
    if wanted is None:
        return
    if not isinstance(wanted, device):
        wanted = device(wanted)
    if wanted.type == "meta":
        raise MetaAsked(
            "the device 'meta' holds tensors without values; this function does not make them"
        )
    if wanted.type != "cpu":
        raise RuntimeError(
            f"device '{wanted}' is not available: adjoint computes on the CPU only; "
            "use device='cpu'"
        )


def _parsed(text: str, index: int | None) -> tuple[str, int | None]:
    """Split "cuda:0" into its name and number, one of which may be given beside it."""
    name, colon, number = text.partition(":")
    if name not in _KNOWN.split(", "):
        raise RuntimeError(
            f"Expected one of {_KNOWN} device type at start of device string: {name}; "
            "adjoint computes on the CPU only, use device='cpu'"
        )
    if colon:
        if index is not None:
            raise RuntimeError(
                "type (string) must not include an index because index was passed "
                f"explicitly: {text}"
            )
        if not _NUMBER.fullmatch(number):
            raise RuntimeError(f"Invalid device string: '{text}'")
        return name, int(number)
    if index is None:
        return name, None
    if not isinstance(index, int) or isinstance(index, bool):
        raise TypeError(
            f"device(): argument 'index' (position 2) must be int, not {type(index).__name__}"
        )
    if index < 0:
        raise RuntimeError(f"Device index must not be negative, got {index}")
    return name, index
