"""Whether a transform of `adjoint.func` is under way in this thread.

`adjoint.autograd.functional` makes leaves of its own, which know nothing of the transform around
them: it asks here, and refuses. A loop asks by what it will be differentiated, and when: while the
levels that it runs at are open, its step can be called again.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence

from adjoint import _core
from adjoint._core import Tensor


class _Depth(threading.local):
    def __init__(self) -> None:
        self.transforms = 0
        self.hidden: list[int] = []  # the depths around functions that are called apart
        self.blocks: list[object] = []  # maps under way and variables, the outermost first


_depth = _Depth()


class transforming:
    """For the length of a ``with`` block, a transform calls the user's function."""

    def __enter__(self) -> None:
        _depth.transforms += 1

    def __exit__(self, *exc: object) -> None:
        _depth.transforms -= 1


class mapping(transforming):
    """The same for a function of samples."""

    def __enter__(self) -> None:
        super().__enter__()
        _depth.blocks.append(self)

    def __exit__(self, *exc: object) -> None:
        _depth.blocks.pop()
        super().__exit__(*exc)


class by_variables:
    """For the length of a ``with`` block, a function runs, and is differentiated by variables.

    Parameters
    ----------
    tensors
        The variables.
    again
        Whether they have a history of their own, so that the derivative is differentiated again.
    """

    def __init__(self, tensors: Sequence[Tensor], again: bool) -> None:
        self.tensors, self.again = tensors, again
        self.level = _core._current_dual_level()

    def __enter__(self) -> None:
        _depth.blocks.append(self)

    def __exit__(self, *exc: object) -> None:
        _depth.blocks.pop()


def maps_under_way() -> int:
    """How many maps over samples are open."""
    return sum(isinstance(block, mapping) for block in _depth.blocks)


def differentiated_once(tensors: Sequence[Tensor]) -> bool:
    """Whether tensors are differentiated by transforms under way alone, and that once."""
    blocks = [b for b in _depth.blocks if isinstance(b, by_variables)]
    if len(blocks) > 1 or any(b.again for b in blocks):
        return False
    # The gradient has tangents, where it is taken before forward mode is over.
    forward = _core._current_dual_level() >= 0
    return not (forward and any(b.level >= 0 for b in blocks)) and not _reach_others(
        tensors, blocks
    )


def differentiated_inside(tensors: Sequence[Tensor]) -> bool:
    """Whether tensors are differentiated while all open levels are, and never after."""
    level, inner = _core._current_dual_level(), []
    for block in reversed(_depth.blocks):
        if not isinstance(block, by_variables) or block.level != level:
            break
        inner.append(block)
    return not any(b.again for b in inner) and not _reach_others(tensors, inner)


def _reach_others(tensors: Sequence[Tensor], blocks: Sequence[by_variables]) -> bool:
    variables = tuple(t for b in blocks for t in b.tensors)
    found: bool = _core._reaches_others(tuple(t for t in tensors if t.requires_grad), variables)
    return found


class Transform:
    """The transform under way where a loop runs whose step can run again as long as that does."""

    def __init__(self) -> None:
        maps = (b for b in reversed(_depth.blocks) if isinstance(b, mapping))
        self._map = next(maps, None)
        self._level = _core._current_dual_level()

    def check_derivative(self, usual: bool) -> None:
        """Raise unless the loop can be differentiated now.

        Parameters
        ----------
        usual
            Whether the gradients that arrive are plain tensors.
        """
        if 0 <= self._level <= _core._current_dual_level():
            raise RuntimeError(
                "a loop in forward mode (jvp, jacfwd) is differentiated in reverse mode by "
                "autograd.grad or backward before forward mode is over.\n"
                "  fix: differentiate it there by a transform (ad.func.grad, jacrev, hessian)"
            )
        over = self._level >= 0 or not any(b is self._map for b in _depth.blocks)
        if _core.is_grad_enabled() and (over or not usual):
            raise RuntimeError(
                "the gradient of a loop inside a transform (vmap, jvp, jacfwd) is recorded "
                "(create_graph=True) when the transform is over, or for a batch of gradients: the "
                "step of the loop cannot run again there.\n"
                "  fix: take both derivatives by transforms (ad.func.grad, jacrev, hessian), or "
                "inside the function that is transformed"
            )


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
