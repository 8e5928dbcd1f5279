"""The default random stream: seeding it, keeping its position, going back to it.

The numbers are those of PyTorch's CPU generator for the same seed, and the two exchange states.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING as _TYPE_CHECKING
from typing import Any
from typing import NoReturn as _NoReturn

from adjoint._core import Generator, Tensor, _draw_from, default_generator
from adjoint._missing import missing as _missing

_here = threading.local()  # keeps the generator alive that a thread draws from

__all__ = [
    "default_generator",
    "fork_rng",
    "get_rng_state",
    "initial_seed",
    "manual_seed",
    "seed",
    "set_rng_state",
    "thread_safe_generator",
]


def manual_seed(seed: int) -> Generator:
    """Restart the default stream from a seed and return its generator.

    Parameters
    ----------
    seed : int
        From -2**63 to 2**64 - 1; only the lower 32 bits choose the stream, as in PyTorch.

    Examples
    --------
    >>> import adjoint as ad
    >>> _ = ad.manual_seed(0)
    >>> ad.randn(3)
    tensor([ 1.5410, -0.2934, -2.1788])
    """
    return default_generator.manual_seed(int(seed))


def seed() -> int:
    """Restart the default stream from the system's entropy and return the seed."""
    return default_generator.seed()


def initial_seed() -> int:
    """Return the seed the default stream was last started from."""
    return default_generator.initial_seed()


def get_rng_state() -> Tensor:
    """Return the position of the default stream, a uint8 tensor that PyTorch understands too."""
    return default_generator.get_state()


def set_rng_state(new_state: Tensor) -> None:
    """Go back to a position that `get_rng_state` returned, here or in PyTorch."""
    default_generator.set_state(new_state)


def thread_safe_generator() -> Generator | None:
    """Return None: the default generator is locked for each fill."""
    return None


@contextlib.contextmanager
def fork_rng(
    devices: Iterable[Any] | None = None, enabled: bool = True, **_: Any
) -> Iterator[None]:
    """Within the block, draw random numbers without moving the default stream outside it."""
    if not enabled:
        yield
        return
    state = get_rng_state()
    try:
        yield
    finally:
        set_rng_state(state)


@contextlib.contextmanager
def _own_stream(seed: int) -> Iterator[None]:
    """Within the block, this thread draws from a stream of its own, whatever others draw."""
    before = getattr(_here, "generator", None)
    _here.generator = Generator().manual_seed(seed)
    _draw_from(_here.generator)
    try:
        yield
    finally:
        _draw_from(before)
        _here.generator = before


if not _TYPE_CHECKING:  # a type checker would take every name to be there

    def __getattr__(name: str) -> _NoReturn:
        raise _missing(__name__, name)
