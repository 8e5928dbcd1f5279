"""What code that is recorded (`adjoint.compiler`) and the recording have to agree about."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextvars import ContextVar
from typing import Any

__all__ = ["CheckedCall", "CheckpointedCalls", "checkpointed", "placeholder_pass", "runs_again"]

# While a backward pass runs for the sake of its recording alone: expensive steps are not evaluated.
placeholder_pass: ContextVar[bool] = ContextVar("placeholder_pass", default=False)

# While a compiled function runs once more for the sake of its graph: what a program leaves out is
# left out there too.
runs_again: ContextVar[bool] = ContextVar("runs_again", default=False)


class CheckedCall:
    """A check that a program makes in each of its runs, and that can be in a file.

    Parameters
    ----------
    name : str
        What it is called in files: see `compiler._host_data`.
    check : callable
        Raises where something is wrong with tensors: ``check(tensors, *data)``.
    like : int
        The result is a copy of this one of the tensors.
    data
        Numbers and texts.
    """

    def __init__(self, name: str, check: Callable[..., None], like: int, *data: Any) -> None:
        self.name, self.check, self.like, self.data = name, check, like, data

    def __call__(self, tensors: Sequence[Any]) -> list[Any]:
        """Check, and hand a copy on."""
        self.check(tensors, *self.data)
        return [tensors[self.like].clone()]


class CheckpointedCalls:
    """The ways that compiled functions took in a checkpointed call, in their order.

    The recomputation takes the same: what it saves has to be what the call has saved.

    Parameters
    ----------
    pack : callable
        The hook that the checkpoint packs saved values with.
    taken : list
        Ways of the call itself, if this is its recomputation.
    """

    def __init__(self, pack: Callable[[Any], Any], taken: list[Any] | None = None) -> None:
        self.pack = pack
        self.ways: list[Any] = [] if taken is None else taken
        self.again: Iterator[Any] | None = None if taken is None else iter(taken)


# While the function of a checkpoint runs.
checkpointed: ContextVar[CheckpointedCalls | None] = ContextVar("checkpointed", default=None)
