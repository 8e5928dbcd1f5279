"""Writing a checkpoint: who writes what, then all at once."""

from __future__ import annotations

import os
import uuid
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import adjoint as ad
from adjoint import Tensor
from adjoint import distributed as dist
from adjoint.distributed.checkpoint._blocks import Block, flat_entries
from adjoint.distributed.checkpoint._format import folder_of, write_index

__all__ = ["async_save", "save", "save_state_dict"]


def save(
    state_dict: dict[str, Any],
    *,
    checkpoint_id: Any = None,
    storage_writer: Any = None,
    planner: Any = None,
    process_group: Any = None,
    no_dist: bool = False,
) -> None:
    """Write nested dicts of tensors and values to a folder, each rank a part.

    Parameters
    ----------
    state_dict : dict
        What to save. A tensor that several ranks have is written by one of them; a `Block` is a
        part of a larger array, written by the rank that has it. Other values are those of rank 0.
    checkpoint_id : path
        The folder. A checkpoint that is there stays as it is until the new one is complete.
    storage_writer : FileSystemWriter, optional
        The folder, given otherwise.
    process_group : ProcessGroup, optional
        The ranks; all by default. Without ``init_process_group``, this process alone.

    Examples
    --------
    >>> import adjoint as ad, tempfile
    >>> from adjoint.distributed import checkpoint
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     checkpoint.save({"w": ad.ones(2), "epoch": 3}, checkpoint_id=folder)
    ...     state = {"w": ad.zeros(2), "epoch": 0}
    ...     checkpoint.load(state, checkpoint_id=folder)
    >>> state
    {'w': tensor([1., 1.]), 'epoch': 3}
    """
    folder = folder_of(checkpoint_id, storage_writer)
    alone = no_dist or not dist.is_initialized()
    rank = 0 if alone else dist.get_rank(process_group)
    os.makedirs(folder, exist_ok=True)
    tensors, values = _split(state_dict)
    described = {key: _described(value) for key, value in tensors.items()}
    token = uuid.uuid4().hex[:12]
    every = [(token, described)]
    if not alone:
        every = [(token, described)] * dist.get_world_size(process_group)
        dist.all_gather_object(every, (token, described), process_group)
    token = every[0][0]
    index = _assign([entries for _, entries in every], token)
    own = {
        key: _tensor_of(tensors[key])
        for key, entry in index["tensors"].items()
        for part in entry["parts"]
        if part["rank"] == rank
    }
    error = _written(own, os.path.join(folder, _part_name(token, rank)))
    if rank == 0 and error is None:
        error = _written(values, os.path.join(folder, index["values"]))
    _agree(error, alone, process_group)
    if rank == 0:
        write_index(folder, index)
    if not alone:
        dist.barrier(process_group)


def _split(state_dict: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    tensors: dict[str, Any] = {}
    values: dict[str, Any] = {}
    for key, leaf in flat_entries(state_dict):
        (tensors if isinstance(leaf, Tensor | Block) else values)[key] = leaf
    return tensors, values


def _tensor_of(value: Tensor | Block) -> Tensor:
    return (value.tensor if isinstance(value, Block) else value).detach()


def _described(value: Tensor | Block) -> dict[str, Any]:
    tensor = _tensor_of(value)
    shape = list(tensor.shape)
    is_block = isinstance(value, Block)
    return {
        "dtype": str(tensor.dtype).removeprefix("torch."),
        "size": list(value.size) if isinstance(value, Block) else shape,
        "offset": list(value.offset) if isinstance(value, Block) else [0] * len(shape),
        "shape": shape,
        "block": is_block,
        "bytes": tensor.numel() * tensor.element_size(),
    }


def _part_name(token: str, rank: int) -> str:
    return f"part-{token}-{rank}.safetensors"


def _assign(every: list[dict[str, Any]], token: str) -> dict[str, Any]:
    """The index: blocks are written by who has them, whole tensors by who has least to write."""
    loads = [sum(e["bytes"] for e in entries.values() if e["block"]) for entries in every]
    tensors: dict[str, Any] = {}
    for key in dict.fromkeys(key for entries in every for key in entries):
        holders = [rank for rank, entries in enumerate(every) if key in entries]
        first = every[holders[0]][key]
        for rank in holders:
            same = ("dtype", "size", "block")
            if any(every[rank][key][what] != first[what] for what in same):
                raise RuntimeError(
                    f"'{key}' differs between ranks: {first['dtype']} of size {first['size']} on "
                    f"rank {holders[0]}, {every[rank][key]['dtype']} of size "
                    f"{every[rank][key]['size']} on rank {rank}; fix: save parts as Block"
                )
        if not first["block"]:
            holders = [min(holders, key=lambda rank: loads[rank])]
            loads[holders[0]] += first["bytes"]
        parts = [
            {
                "file": _part_name(token, rank),
                "rank": rank,
                "offset": every[rank][key]["offset"],
                "shape": every[rank][key]["shape"],
            }
            for rank in holders
        ]
        tensors[key] = {"dtype": first["dtype"], "size": first["size"], "parts": parts}
    return {"tensors": tensors, "values": f"part-{token}-values.safetensors"}


def _written(content: dict[str, Any], path: str) -> str | None:
    """Write a file; why it could not be written, if so."""
    try:
        ad.save(
            {key: v.contiguous() if isinstance(v, Tensor) else v for key, v in content.items()},
            path,
        )
        with open(path, "rb") as file:
            os.fsync(file.fileno())
    except Exception as error:  # told to all ranks: none may wait for this one
        return f"{type(error).__name__}: {error}"
    return None


def _agree(error: str | None, alone: bool, group: Any) -> None:
    """Raise on all ranks if one could not write."""
    errors = [error]
    if not alone:
        errors = [None] * dist.get_world_size(group)
        dist.all_gather_object(errors, error, group)
    failed = [f"rank {rank}: {text}" for rank, text in enumerate(errors) if text is not None]
    if failed:
        raise RuntimeError(f"the checkpoint was not written: {'; '.join(failed)}")


def save_state_dict(
    state_dict: dict[str, Any], storage_writer: Any, process_group: Any = None, **_: Any
) -> None:
    """`save`, as it was called before."""
    save(state_dict, storage_writer=storage_writer, process_group=process_group)


_pool: ThreadPoolExecutor | None = None


def async_save(state_dict: dict[str, Any], **kwargs: Any) -> Future[None]:
    """`save` of copies, in a thread; a future. Other operations of the group wait for it."""
    global _pool
    if _pool is None:
        _pool = ThreadPoolExecutor(1, thread_name_prefix="adjoint-checkpoint")
    if dist.is_initialized() and kwargs.get("process_group") is None:
        # Operations of two threads on one group would meet each other's on other ranks.
        kwargs["process_group"] = dist.new_group()
    copies = _copied(state_dict)
    return _pool.submit(save, copies, **kwargs)


def _copied(tree: Any) -> Any:
    if isinstance(tree, dict):
        return {name: _copied(value) for name, value in tree.items()}
    if isinstance(tree, list):
        return [_copied(value) for value in tree]
    if isinstance(tree, Block):
        return Block(tree.tensor.detach().clone(), tree.offset, tree.size)
    return tree.detach().clone() if isinstance(tree, Tensor) else tree
