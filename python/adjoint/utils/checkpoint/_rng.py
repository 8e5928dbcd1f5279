"""The random generator around a recomputation: as it was when the forward ran, then as it is.

In a program (`adjoint.compile`) the state of the generator is not replayed. A recomputation that
draws nothing needs none; one that draws ends the recording.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from adjoint import _core
from adjoint._core import Tensor
from adjoint.random import get_rng_state, set_rng_state

__all__ = ["as_it_was", "current"]


def current(wanted: bool) -> Tensor | None:
    """The state of the generator, if it is ``wanted``."""
    return _core._unrecorded(get_rng_state) if wanted else None


@contextmanager
def as_it_was(state: Tensor | None) -> Iterator[None]:
    """Run with the generator in that state, and put it back."""
    if state is None:
        yield
        return
    here = _core._unrecorded(get_rng_state)
    allowed = _core._allow_draws(False)
    _core._unrecorded(lambda: set_rng_state(state))
    try:
        yield
    finally:
        _core._allow_draws(allowed)
        _core._unrecorded(lambda: set_rng_state(here))
