"""`device`: adjoint computes on the CPU, and this is how that is said and checked."""

from __future__ import annotations

from typing import Any

__all__ = ["device"]

_KNOWN = (
    "cpu, cuda, ipu, xpu, mkldnn, opengl, opencl, ideep, hip, ve, fpga, maia, xla, lazy, vulkan, "
    "mps, meta, hpu, mtia, privateuseone"
)


class device:
    """Where a tensor lives: always the CPU.

    Parameters
    ----------
    type : str or device
        "cpu", or "cpu:0".
    index : int, optional
        0 or nothing.

    Raises
    ------
    RuntimeError
        The name is another device, or none at all.

    Examples
    --------
    >>> import adjoint as ad
    >>> ad.device("cpu")
    device(type='cpu')
    """

    __slots__ = ("_index", "_type")
    _type: str
    _index: int | None

    def __new__(cls, type: str | device = "cpu", index: int | None = None) -> device:
        if isinstance(type, device):
            return type
        if not isinstance(type, str):
            raise TypeError(
                "device(): argument 'type' (position 1) must be str, not "
                f"{type.__class__.__name__}; adjoint has one device, 'cpu'"
            )
        name, colon, number = type.partition(":")
        if colon:
            if index is not None:
                raise RuntimeError(
                    f"type (string) must not include an index because index was passed "
                    f"explicitly: {type}"
                )
            if not number.isdigit():
                raise RuntimeError(f"Invalid device string: '{type}'")
            index = int(number)
        if name != "cpu":
            raise _refusal(type, name)
        self = super().__new__(cls)
        object.__setattr__(self, "_type", name)
        object.__setattr__(self, "_index", index)
        return self

    @property
    def type(self) -> str:
        """The kind of device: "cpu"."""
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
        return self

    def __exit__(self, *_: object) -> None:
        return None


def _refusal(text: str, name: str) -> RuntimeError:
    if name in _KNOWN.split(", "):
        return RuntimeError(
            f"device '{text}' is not available: adjoint computes on the CPU only; use device='cpu'"
        )
    return RuntimeError(
        f"Expected one of {_KNOWN} device type at start of device string: {name}; "
        "adjoint computes on the CPU only, use device='cpu'"
    )
