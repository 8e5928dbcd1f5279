"""Forward mode: dual tensors, which carry a tangent through every operation.

Inside a ``dual_level`` a tensor may be given a tangent (`make_dual`); operations then compute, with
their results, the directional derivative of the results (`unpack_dual`), in one pass and without a
graph. ``src/transforms/dual.cpp`` says how.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from adjoint import _core
from adjoint._core import Tensor

__all__ = [
    "UnpackedDualTensor",
    "dual_level",
    "enter_dual_level",
    "exit_dual_level",
    "make_dual",
    "set_fwd_grad_enabled",
    "unpack_dual",
]


def __getattr__(name: str) -> Any:
    if name == "_current_level":  # the number of the innermost level; -1 outside
        return _core._current_dual_level()
    from adjoint._missing import missing

    raise missing(__name__, name)


class UnpackedDualTensor(NamedTuple):
    """What `unpack_dual` returns: the value and its tangent."""

    primal: Tensor
    tangent: Tensor | None


def enter_dual_level(*, nested: bool = False) -> int:
    """Open a level of forward mode.

    Parameters
    ----------
    nested
        Whether the level may be inside another one: its tangents are then derivatives of
        derivatives. Without it a second level is refused, as in PyTorch.

    Returns
    -------
    int
        The number of the level; 0 is the outermost.
    """
    current = _core._current_dual_level()
    if current >= 0 and not nested:
        raise RuntimeError(
            "Nested forward mode AD is not supported at the moment (level "
            f"{current} is open; fix: pass nested=True to differentiate twice)"
        )
    return _core._enter_dual_level()


def exit_dual_level(*, level: int | None = None) -> None:
    """Close the innermost level: its tangents are dropped everywhere.

    Parameters
    ----------
    level
        The number of the level, which must be the innermost one.
    """
    current = _core._current_dual_level()
    if level is None:
        level = current
    if level < 0:
        raise RuntimeError("Dual level must be a positive number.")
    if level != current:
        raise RuntimeError(
            "Trying to exit a forward AD level that was not the last one that was created. "
            f"This is not supported: {level} is not {current}."
        )
    _core._exit_dual_level(level)


def make_dual(tensor: Tensor, tangent: Tensor, *, level: int | None = None) -> Tensor:
    """Return ``tensor``, in the same memory, with a tangent.

    Parameters
    ----------
    tensor
        The value: floating point or complex.
    tangent
        The direction of the derivative, of the same shape. It is used as it is if it lies in memory
        as the value does, otherwise copied.
    level
        The level the tangent belongs to; the innermost one by default.

    Examples
    --------
    >>> import adjoint as ad
    >>> from adjoint.autograd import forward_ad as fw
    >>> with fw.dual_level():
    ...     x = fw.make_dual(ad.tensor([1.0, 2.0]), ad.tensor([1.0, 0.0]))
    ...     fw.unpack_dual(x * x).tangent
    tensor([2., 0.])
    """
    if level is None:
        level = _core._current_dual_level()
    if level < 0:
        raise RuntimeError(
            "Trying to create a dual Tensor for forward AD but no level exists, make sure to "
            "enter_dual_level() first."
        )
    return _core._make_dual(tensor, tangent, level)


def unpack_dual(tensor: Tensor, *, level: int | None = None) -> UnpackedDualTensor:
    """Return the value of a dual tensor, as a view without tangent, and its tangent.

    Parameters
    ----------
    tensor
        Any tensor; one that is not dual has the tangent None.
    level
        The level whose tangent is asked for; the innermost one by default.
    """
    if level is None:
        level = _core._current_dual_level()
    if level < 0:
        return UnpackedDualTensor(tensor, None)
    return UnpackedDualTensor(*_core._unpack_dual(tensor, level))


class dual_level:
    """A level of forward mode for the length of a ``with`` block.

    Parameters
    ----------
    nested
        Whether the level may be inside another one; see `enter_dual_level`.

    Examples
    --------
    >>> import adjoint as ad
    >>> from adjoint.autograd import forward_ad as fw
    >>> x, v = ad.tensor(3.0), ad.tensor(1.0)
    >>> with fw.dual_level():
    ...     fw.unpack_dual(fw.make_dual(x, v) ** 2).tangent
    tensor(6.)
    """

    def __init__(self, *, nested: bool = False) -> None:
        self._nested = nested
        self._levels: list[int] = []

    def __enter__(self) -> int:
        self._levels.append(enter_dual_level(nested=self._nested))
        return self._levels[-1]

    def __exit__(self, *exc: object) -> None:
        exit_dual_level(level=self._levels.pop())


def _is_fwd_grad_enabled() -> bool:
    return _core._is_fwd_grad_enabled()


class set_fwd_grad_enabled:
    """Turn forward mode on or off in this thread, at once and until the ``with`` block ends.

    Parameters
    ----------
    mode
        Whether operations compute tangents.
    """

    def __init__(self, mode: bool) -> None:
        self._before = _core._is_fwd_grad_enabled()
        _core._set_fwd_grad_enabled(mode)

    def __enter__(self) -> None:
        pass

    def __exit__(self, *exc: Any) -> None:
        _core._set_fwd_grad_enabled(self._before)


_set_fwd_grad_enabled = set_fwd_grad_enabled
