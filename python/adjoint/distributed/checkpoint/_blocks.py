"""`Block`: a rank's part of an array that all ranks have together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from adjoint import Tensor

__all__ = ["Block", "common_part", "flat_entries", "nested", "step_name"]


@dataclass(eq=False)
class Block:
    """A part of a larger array: where it begins there, and the array's size.

    Ranks that save a `Block` each, together covering the array, can be resumed by any number of
    ranks that ask for other blocks of it, or for all of it as a plain tensor.

    Parameters
    ----------
    tensor : Tensor
        The values.
    offset : sequence of int
        Where the part begins, along each axis.
    size : sequence of int
        The size of the whole array.

    Examples
    --------
    >>> import adjoint as ad
    >>> from adjoint.distributed.checkpoint import Block
    >>> Block(ad.zeros(2, 3), offset=(4, 0), size=(8, 3)).size
    (8, 3)
    """

    tensor: Tensor
    offset: Sequence[int]
    size: Sequence[int]

    def __post_init__(self) -> None:
        self.offset, self.size = tuple(self.offset), tuple(self.size)
        shape = tuple(self.tensor.shape)
        if not len(shape) == len(self.offset) == len(self.size):
            raise ValueError(
                f"a block of shape {shape} at {self.offset} of an array of size {self.size}: the "
                "numbers of axes differ"
            )
        ends = [begin + length for begin, length in zip(self.offset, shape, strict=True)]
        if any(b < 0 or e > n for b, e, n in zip(self.offset, ends, self.size, strict=True)):
            raise ValueError(f"a block of shape {shape} at {self.offset} is not inside {self.size}")


def common_part(
    one: tuple[Sequence[int], Sequence[int]], other: tuple[Sequence[int], Sequence[int]]
) -> tuple[tuple[slice, ...], tuple[slice, ...]] | None:
    """Where two parts (offset, shape) overlap, in the coordinates of each; None if nowhere."""
    mine, theirs = [], []
    for a, n, b, m in zip(*one, *other, strict=True):
        begin, end = max(a, b), min(a + n, b + m)
        if begin >= end:
            return None
        mine.append(slice(begin - a, end - a))
        theirs.append(slice(begin - b, end - b))
    return tuple(mine), tuple(theirs)


def flat_entries(tree: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, Any]]:
    """(key, leaf) of nested dicts and lists; a key joins the names of the way there."""
    if isinstance(tree, dict | list) and tree:
        for name, value in tree.items() if isinstance(tree, dict) else enumerate(tree):
            yield from flat_entries(value, (*path, step_name(tree, name)))
    else:
        yield "/".join(path), tree


def step_name(tree: Any, name: Any) -> str:
    """One step of a key: ``a``, ``#1`` for a number in a dict, ``[1]`` for a place in a list."""
    if isinstance(tree, list):
        return f"[{name}]"
    if isinstance(name, int) and not isinstance(name, bool):
        return f"#{name}"
    text = str(name).replace("~", "~0").replace("/", "~1")
    return f"~2{text}" if text.startswith(("[", "#")) else text


def _name_of(step: str) -> Any:
    if step.startswith("#"):
        return int(step[1:])
    return step.removeprefix("~2").replace("~1", "/").replace("~0", "~")


def nested(entries: dict[str, Any]) -> Any:
    """What `flat_entries` took apart."""
    root: dict[str, Any] = {}
    for key, value in entries.items():
        *way, last = key.split("/")
        at = root
        for name in way:
            at = at.setdefault(name, {})
        at[last] = value
    return {} if list(entries) == [""] else _rebuilt(root, entries)


def _rebuilt(tree: dict[str, Any], leaves: dict[str, Any], path: tuple[str, ...] = ()) -> Any:
    parts = {}
    for step, value in tree.items():
        below = (*path, step)
        is_leaf = "/".join(below) in leaves
        parts[step] = value if is_leaf else _rebuilt(value, leaves, below)
    if all(step.startswith("[") for step in parts):
        return [parts[f"[{i}]"] for i in range(len(parts))]
    return {_name_of(step): value for step, value in parts.items()}
