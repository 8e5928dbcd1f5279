"""Which implementation attention may use: there is one here, so the choice changes nothing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from enum import IntEnum
from typing import Any

__all__ = ["SDPBackend", "sdpa_kernel"]


class SDPBackend(IntEnum):
    """PyTorch's implementations of `scaled_dot_product_attention`, by name."""

    ERROR = -1
    MATH = 0
    FLASH_ATTENTION = 1
    EFFICIENT_ATTENTION = 2
    CUDNN_ATTENTION = 3
    OVERRIDEABLE = 4


@contextmanager
def sdpa_kernel(
    backends: SDPBackend | Iterable[SDPBackend], set_priority: bool = False
) -> Iterator[Any]:
    """A block in which attention is computed by one of the named implementations.

    Results are the same to rounding; adjoint has one implementation and uses it.
    """
    listed = [backends] if isinstance(backends, SDPBackend) else list(backends)
    for backend in listed:
        if not isinstance(backend, SDPBackend):
            raise AssertionError(
                "Backend must be an instance of SDPBackend or a list of SDPBackend instances"
            )
    yield {}
