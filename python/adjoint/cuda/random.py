"""The generators of GPUs: there are none, so there is nothing to seed or to keep."""

from __future__ import annotations

from collections.abc import Iterable

from adjoint._core import Tensor
from adjoint.cuda._absent import no_gpu

__all__ = [
    "get_rng_state",
    "get_rng_state_all",
    "initial_seed",
    "manual_seed",
    "manual_seed_all",
    "seed",
    "seed_all",
    "set_rng_state",
    "set_rng_state_all",
]


def manual_seed(seed: int) -> None:
    """Do nothing, as PyTorch does where there is no GPU."""


def manual_seed_all(seed: int) -> None:
    """Do nothing, as PyTorch does where there is no GPU."""


def seed() -> None:
    """Do nothing, as PyTorch does where there is no GPU."""


def seed_all() -> None:
    """Do nothing, as PyTorch does where there is no GPU."""


def get_rng_state_all() -> list[Tensor]:
    """Return an empty list: one state for each GPU."""
    return []


def set_rng_state_all(new_states: Iterable[Tensor]) -> None:
    """Take an empty list; raise for a state, which would belong to a GPU."""
    for _ in new_states:
        no_gpu()


get_rng_state = set_rng_state = initial_seed = no_gpu
