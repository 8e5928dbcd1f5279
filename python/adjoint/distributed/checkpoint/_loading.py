"""Reading a checkpoint, by any number of ranks: each reads what it asks for."""

from __future__ import annotations

import os
from typing import Any

import adjoint as ad
from adjoint import Tensor
from adjoint.distributed.checkpoint._blocks import (
    Block,
    common_part,
    flat_entries,
    nested,
    step_name,
)
from adjoint.distributed.checkpoint._format import folder_of, read_index

__all__ = ["load", "load_state_dict", "read"]


class _Files:
    """The files of a checkpoint, each opened once, their tensors mapped rather than read."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._open: dict[str, Any] = {}

    def get(self, name: str) -> Any:
        if name not in self._open:
            self._open[name] = ad.load(os.path.join(self._folder, name), mmap=True)
        return self._open[name]


def load(
    state_dict: dict[str, Any],
    *,
    checkpoint_id: Any = None,
    storage_reader: Any = None,
    planner: Any = None,
    process_group: Any = None,
    no_dist: bool = False,
) -> None:
    """Read a checkpoint into the tensors of nested dicts, in place; other values are replaced.

    Parameters
    ----------
    state_dict : dict
        What to read: tensors whole, `Block` the part it says. How many ranks have written, and
        which parts, does not matter.
    checkpoint_id : path
        The folder.
    storage_reader : FileSystemReader, optional
        The folder, given otherwise.
    """
    folder = folder_of(checkpoint_id, storage_reader)
    index = read_index(folder)
    files = _Files(folder)
    values = files.get(index["values"])
    wanted = dict(flat_entries(state_dict))
    _check_keys(wanted, index, values)
    with ad.no_grad():
        for key, leaf in wanted.items():
            if isinstance(leaf, Tensor | Block):
                _fill(key, leaf, index["tensors"][key], files)
    _replace_values(state_dict, values, ())


def _check_keys(wanted: dict[str, Any], index: dict[str, Any], values: dict[str, Any]) -> None:
    tensors = {key for key, leaf in wanted.items() if isinstance(leaf, Tensor | Block)}
    missing = sorted(tensors - index["tensors"].keys())
    missing += sorted(key for key in wanted.keys() - tensors if key and key not in values)
    if missing:
        raise RuntimeError(
            f"Missing key in checkpoint state_dict: {', '.join(missing[:10])}; it has "
            f"{', '.join([*index['tensors'], *values][:10])}"
        )


def _fill(key: str, leaf: Tensor | Block, entry: dict[str, Any], files: _Files) -> None:
    block = leaf if isinstance(leaf, Block) else Block(leaf, [0] * leaf.dim(), leaf.shape)
    target = block.tensor.detach()
    if list(block.size) != entry["size"]:
        raise ValueError(
            f"'{key}' has size {entry['size']} in the checkpoint, {list(block.size)} here"
        )
    found = ad.zeros(target.shape, dtype=ad.bool)  # blocks may overlap, so counting does not do
    mine = (tuple(block.offset), tuple(target.shape))
    for part in entry["parts"]:
        overlap = common_part(mine, (part["offset"], part["shape"]))
        if overlap is None:
            continue
        here, there = overlap
        source = files.get(part["file"])[key]
        target[here].copy_(source[there])
        found[here] = True
    if not found.all():
        raise RuntimeError(
            f"'{key}': the blocks of the checkpoint have {int(found.sum())} of {target.numel()} "
            "elements"
        )


def _replace_values(tree: Any, values: dict[str, Any], path: tuple[str, ...]) -> None:
    names = tree.items() if isinstance(tree, dict) else enumerate(tree)
    for name, value in list(names):
        below = (*path, step_name(tree, name))
        if isinstance(value, dict | list) and value:
            _replace_values(value, values, below)
        elif (key := "/".join(below)) in values:
            tree[name] = values[key]


def read(checkpoint_id: Any) -> dict[str, Any]:
    """A whole checkpoint, as the nested dicts that were saved; every array in one piece.

    Examples
    --------
    >>> import adjoint as ad, tempfile
    >>> from adjoint.distributed import checkpoint
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     checkpoint.save({"state": {"w": ad.ones(2)}, "epoch": 3}, checkpoint_id=folder)
    ...     checkpoint.read(folder)
    {'state': {'w': tensor([1., 1.])}, 'epoch': 3}
    """
    folder = folder_of(checkpoint_id, None)
    index = read_index(folder)
    files = _Files(folder)
    entries = {}
    with ad.no_grad():
        for key, entry in index["tensors"].items():
            entries[key] = ad.empty(entry["size"], dtype=getattr(ad, entry["dtype"]))
            _fill(key, entries[key], entry, files)
    found: dict[str, Any] = nested({**entries, **files.get(index["values"])})
    return found


def load_state_dict(
    state_dict: dict[str, Any], storage_reader: Any, process_group: Any = None, **_: Any
) -> None:
    """`load`, as it was called before."""
    load(state_dict, storage_reader=storage_reader)
