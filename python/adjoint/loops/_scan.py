"""`scan`: a loop whose body is recorded once, and runs natively in both directions."""

from __future__ import annotations

from collections.abc import Callable
from operator import index as whole
from typing import Any

from adjoint import _tree
from adjoint._core import Tensor

from ._memory import memory_of
from ._scan_call import run_scan

__all__ = ["scan"]


def scan(
    step: Callable[[Any, Any], tuple[Any, Any]],
    init: Any,
    xs: Any = None,
    length: int | None = None,
    reverse: bool = False,
    *,
    memory: str = "all",
    snapshots: int | None = None,
    disk: Any = None,
    resume: bool = False,
) -> tuple[Any, Any]:
    """Run a step over the rows of inputs, and hand a state from each step to the next.

    It is this loop, with gradients that are the same to the last bit::

        ys = []
        for x in xs:
            carry, y = step(carry, x)
            ys.append(y)
        return carry, stack(ys)

    The step is recorded once, whatever the length, and runs without Python in both directions.
    What cannot be recorded runs as Python, and says so.

    Parameters
    ----------
    step
        ``step(carry, x)`` returns the next carry and an output. Both may be tensors or structures
        of tensors; the carry keeps its structure, shapes and dtypes. The output may be None.
    init
        The first carry. Numbers in it become tensors; None and texts stay what they are. A step
        that changes its carry in place leaves this one as it is.
    xs
        Inputs, stacked along their first axis: a tensor, a structure of tensors, or None, which
        the step is then given.
    length
        The number of steps; needed where there are no `xs`. For 0 the step is called once, with
        zeros, to see what outputs it would have.
    reverse
        Go from the last row to the first.
    memory
        What is kept for the backward pass. "all": what each step saves. "sqrt": the states of
        about as many steps as the root of their number. A size, such as "500MB": as much as fits.
        What is not kept is computed again.
    snapshots
        Keep so many states, that at the start included, and run as few steps again as possible.
    disk
        A folder for the states that are kept; they are removed after the backward pass.
    resume
        Let those states outlive the process until the backward pass is done: where it is killed, or
        ends by an error, the same loop in another process goes on from them, in both directions,
        and gives the same bits. A loop that does anything else begins anew.

    Returns
    -------
    carry
        After the last step.
    ys
        The outputs, stacked in the order of `xs`.

    Examples
    --------
    >>> import adjoint as ad
    >>> k = ad.tensor(2.0, requires_grad=True)
    >>> def swing(state, _):
    ...     x, v = state
    ...     v = v - 0.01 * k * x
    ...     x = x + 0.01 * v
    ...     return (x, v), x
    >>> (x, v), path = ad.scan(swing, (1.0, 0.0), length=1000)
    >>> path.shape
    torch.Size([1000])
    >>> ad.autograd.grad(path.square().sum(), k)
    (tensor(...),)
    """
    rows, xs_spec, count = _rows_of(xs, length)
    kept = memory_of(memory, snapshots, disk, count, resume)
    return run_scan(step, init, rows, xs_spec, count, reverse, kept)


def _rows_of(xs: Any, length: int | None) -> tuple[list[Tensor], _tree.Spec | None, int]:
    leaves, spec = _tree.flatten(() if xs is None else xs)
    if xs is None and length is None:
        raise ValueError("scan() needs `length` where there are no `xs`")
    names = _tree.paths(spec, "xs")
    for name, leaf in zip(names, leaves, strict=True):
        if not isinstance(leaf, Tensor):
            raise TypeError(
                f"scan(): {name} is {type(leaf).__name__}, not a tensor; fix: hand over one "
                "tensor with a row for each step, as ad.tensor() makes it of numbers or an array"
            )
        if leaf.dim() == 0:
            raise ValueError(f"scan(): {name} is a scalar, which has no rows")
    sizes = {leaf.shape[0]: name for name, leaf in zip(names, leaves, strict=True)}
    if length is not None:
        sizes.setdefault(whole(length), "length")
    if len(sizes) > 1:
        (a, first), (b, second), *_ = sizes.items()
        raise ValueError(f"scan(): {first} has {a} rows and {second} {b}")
    if not sizes:
        raise ValueError(f"scan() needs `length` where there are no tensors in `xs`, as in {xs!r}")
    count = next(iter(sizes))
    if count < 0:
        raise ValueError(f"scan(): length {count} is negative")
    return leaves, None if xs is None else spec, count
