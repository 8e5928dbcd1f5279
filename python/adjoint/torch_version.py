"""`torch.__version__`: a string that compares as versions do, ``"2.13" > "2.2"``."""

from __future__ import annotations

import re
from typing import Any

__all__ = ["TORCH_VERSION", "TorchVersion"]


class TorchVersion(str):
    """A version; compared with strings and tuples number by number.

    Examples
    --------
    >>> from adjoint.torch_version import TorchVersion
    >>> TorchVersion("2.13.0") > "2.2", TorchVersion("2.13.0") >= (2, 13)
    (True, True)
    """

    __slots__ = ()

    def _compared(self, other: Any) -> tuple[list[Any], list[Any]] | None:
        if isinstance(other, str):
            given = _parts(other)
        elif isinstance(other, list | tuple):
            given = _parts(".".join(map(str, other)))
        else:
            return None
        own = _parts(str(self))
        length = max(len(own), len(given))
        zero = (1, 0)
        return own + [zero] * (length - len(own)), given + [zero] * (length - len(given))

    def __lt__(self, other: Any) -> bool:
        pair = self._compared(other)
        return NotImplemented if pair is None else pair[0] < pair[1]

    def __le__(self, other: Any) -> bool:
        pair = self._compared(other)
        return NotImplemented if pair is None else pair[0] <= pair[1]

    def __gt__(self, other: Any) -> bool:
        pair = self._compared(other)
        return NotImplemented if pair is None else pair[0] > pair[1]

    def __ge__(self, other: Any) -> bool:
        pair = self._compared(other)
        return NotImplemented if pair is None else pair[0] >= pair[1]

    def __eq__(self, other: object) -> bool:
        if isinstance(other, str):
            return str.__eq__(self, other) or _parts(str(self)) == _parts(other)
        pair = self._compared(other)
        return pair is not None and pair[0] == pair[1]

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = str.__hash__


def _parts(version: str) -> list[tuple[Any, ...]]:
    """Numbers, and words such as "a0" before them; a build (``+cpu``) comes after none."""
    public, _, build = version.lower().partition("+")
    parts: list[tuple[Any, ...]] = [
        (1, int(part)) if part.isdigit() else (0, part)
        for part in re.findall(r"\d+|[a-z]+", public)
    ]
    return [*parts, (1, 0, build)] if build else parts


# The release whose names, defaults and results adjoint follows.
TORCH_VERSION = TorchVersion("2.13.0+adjoint")
