"""Which tensors of a step share memory: those of a scan do not."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from adjoint import _core
from adjoint._core import Tensor

__all__ = ["have_memory_apart", "share_no_memory"]


def have_memory_apart(
    carry: list[Tensor], others: Iterable[Tensor], following: list[Tensor], outputs: list[Tensor]
) -> bool:
    """Whether no two outputs share memory, not even those of two steps, nor one with the others.

    What a step hands on is what the next one is given: that memory counts as one.
    """
    return bool(_core._unrecorded(lambda: _apart(carry, others, following, outputs)))


def _apart(
    carry: list[Tensor], others: Iterable[Tensor], following: list[Tensor], outputs: list[Tensor]
) -> bool:
    number = {_memory_of(t): k for k, t in enumerate(following)}
    number |= {_memory_of(t): k for k, t in enumerate(carry)}
    outside = {_memory_of(t) for t in others}
    found = [_memory_of(t) for t in outputs if t.numel()]
    if any(at in outside for at in found):
        return False
    names = [number.get(at, at) for at in found]
    return len({*names}) == len(names)


def share_no_memory(changed: Sequence[Tensor], others: Iterable[Tensor]) -> bool:
    """Whether no tensor that is changed shares memory with another one, of them or of others."""

    def asked() -> bool:
        mine = [_memory_of(t) for t in changed]
        return len({*mine}) == len(mine) and {*mine}.isdisjoint(map(_memory_of, others))

    return not changed or bool(_core._unrecorded(asked))


def _memory_of(t: Tensor) -> int:
    return int(t.untyped_storage().data_ptr()) if t.numel() else 0
