"""Whether a transform of `adjoint.func` is under way in this thread.

`adjoint.autograd.functional` makes leaves of its own, which know nothing of the transform around
them: it asks here, and refuses.
"""

from __future__ import annotations

import threading

from adjoint import _core


class _Depth(threading.local):
    def __init__(self) -> None:
        self.transforms = 0
        self.hidden: list[int] = []  # the depths around functions that are called apart


_depth = _Depth()


class transforming:
    """For the length of a ``with`` block, a transform calls the user's function."""

    def __enter__(self) -> None:
        _depth.transforms += 1

    def __exit__(self, *exc: object) -> None:
        _depth.transforms -= 1


class differentiating(transforming):
    """The same for a function that is differentiated.

    A tensor that is older than the block may not be changed in place by what the function computes
    from its arguments (``Storage::born``): it would keep the history of variables that end here.
    """

    def __enter__(self) -> None:
        super().__enter__()
        _core._derivative_depth(1)

    def __exit__(self, *exc: object) -> None:
        _core._derivative_depth(-1)
        super().__exit__(*exc)


class _OutsideTransforms:
    """For the length of a ``with`` block, code runs that no transform works on: an external's."""

    def __enter__(self) -> None:
        _depth.hidden.append(_depth.transforms)
        _depth.transforms = 0

    def __exit__(self, *exc: object) -> None:
        _depth.transforms = _depth.hidden.pop()


outside_transforms = _OutsideTransforms()


def inside_transform() -> bool:
    """Whether a transform is under way in this thread."""
    return _depth.transforms > 0


class depth_of_now:
    """Restores, for the length of ``with`` blocks, the depth at which it was made."""

    def __init__(self) -> None:
        self._depth = _depth.transforms
        self._derivatives = _core._derivative_depth(0)
        self._before: list[tuple[int, int]] = []

    def __enter__(self) -> None:
        derivatives = _core._derivative_depth(0)
        self._before.append((_depth.transforms, derivatives))
        _depth.transforms = self._depth
        _core._derivative_depth(self._derivatives - derivatives)

    def __exit__(self, *exc: object) -> None:
        _depth.transforms, derivatives = self._before.pop()
        _core._derivative_depth(derivatives - self._derivatives)


def refuse_functional(name: str) -> None:
    """Raise if a transform is under way: results would be those of another function."""
    if _depth.transforms:
        raise RuntimeError(
            f"torch.autograd.functional.{name} was called inside a function that a transform of "
            "torch.func (vmap, grad, jvp, ...) works on, which would not see through it.\n"
            "  fix: use the transforms of torch.func there as well; they can be nested"
        )
