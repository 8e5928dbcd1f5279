"""Which ranks there are: `init_process_group`, groups and their numbers.

Read next: _group.py, how a group makes its calls; ../cli/launch.py, how ranks are started.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from adjoint.distributed._group import ProcessGroup
from adjoint.distributed._joining import is_launched, join, store_for
from adjoint.distributed._library import before_end, is_installed, is_started, mpi

__all__ = [
    "GroupMember",
    "destroy_process_group",
    "get_backend",
    "get_global_rank",
    "get_group_rank",
    "get_node_local_rank",
    "get_pg_count",
    "get_process_group_ranks",
    "get_rank",
    "get_world_size",
    "group",
    "init_process_group",
    "is_initialized",
    "new_group",
    "new_subgroups",
    "new_subgroups_by_enumeration",
    "split_group",
]

default_pg_timeout = timedelta(minutes=30)

# How launchers other than `adjoint launch` tell a process its number; the first are torchrun's.
_RANKS = ("RANK", "OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID")
_SIZES = ("WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_NTASKS")
_LOCAL_RANKS = (
    "LOCAL_RANK",
    "OMPI_COMM_WORLD_LOCAL_RANK",
    "MPI_LOCALRANKID",
    "SLURM_LOCALID",
)
_BACKENDS = ("mpi", "gloo")

NON_MEMBER = -100


class _Meta(type):
    """``group.WORLD``: the group of all ranks, None before there is one."""

    @property
    def WORLD(cls) -> ProcessGroup | None:
        """All ranks."""
        return _groups[0] if _groups else None


class group(metaclass=_Meta):
    """``group.WORLD`` is the group of all ranks."""


class GroupMember(metaclass=_Meta):
    """What ``new_group`` returns to ranks outside: ``GroupMember.NON_GROUP_MEMBER``."""

    NON_GROUP_MEMBER = NON_MEMBER


_groups: list[ProcessGroup] = []
_made = 0
_worlds = 0


def number_from(names: Sequence[str]) -> int | None:
    """The first of these environment variables that holds a number."""
    for name in names:
        if (text := os.environ.get(name, "")).isdigit():
            return int(text)
    return None


def is_initialized() -> bool:
    """Whether there is a group of all ranks."""
    return bool(_groups)


def init_process_group(
    backend: str | None = None,
    init_method: str | None = None,
    timeout: timedelta | None = None,
    world_size: int = -1,
    rank: int = -1,
    store: Any = None,
    group_name: str = "",
    pg_options: Any = None,
    device_id: Any = None,
) -> None:
    """Join the group of all ranks.

    ``adjoint launch``, ``mpiexec`` or ``srun`` has started them, or anything else on one machine:
    `multiprocessing.spawn`, a shell. Those find each other as PyTorch's do.

    Parameters
    ----------
    backend : str, optional
        ``"mpi"`` or ``"gloo"``: the same thing here, MPI.
    init_method, store : optional
        Where ranks find each other that no launcher of MPI has started; by default at
        ``MASTER_ADDR`` and ``MASTER_PORT`` of the environment. MPI knows where its own are.
    timeout : timedelta, optional
        How long an operation waits for the other ranks before it raises; half an hour.
    world_size, rank : int, optional
        By default those of the environment: ``WORLD_SIZE`` and ``RANK``, or the launcher's.

    Examples
    --------
    In a script that ``adjoint launch -n 4 script.py`` runs::

        import torch.distributed as dist
        dist.init_process_group("gloo")
        print(dist.get_rank(), dist.get_world_size())
    """
    if _groups:
        raise ValueError("trying to initialize the default process group twice!")
    backend = _checked_backend(backend)
    if timeout is not None and not isinstance(timeout, timedelta):
        raise TypeError(
            f"Expected timeout argument to be of type datetime.timedelta, got {timeout}"
        )
    wanted_rank = rank if rank >= 0 else number_from(_RANKS)
    wanted_size = world_size if world_size >= 0 else number_from(_SIZES)
    if backend != "mpi" and (wanted_rank is None or wanted_size is None):
        missing = "RANK" if wanted_rank is None else "WORLD_SIZE"
        raise ValueError(
            f"Error initializing torch.distributed using env:// rendezvous: environment variable "
            f"{missing} expected, but not set\n  fix: start the script with "
            "`adjoint launch -n 2 script.py`, or `mpiexec -n 2 python script.py`"
        )
    limit = timeout or default_pg_timeout
    if wanted_size is not None and wanted_size > 1 and not is_launched() and not is_started():
        place = 0 if wanted_rank is None else wanted_rank
        _check_rank(place, wanted_size)
        join(place, wanted_size, store or store_for(init_method, place, limit), limit)
    library = mpi()
    comm = library.COMM_WORLD
    _check_size(comm.Get_size(), wanted_size)
    # A communicator of our own, so that nothing else's messages are taken for ours; `key` lets the
    # script number the ranks.
    own = comm.Split(0, comm.Get_rank() if wanted_rank is None else wanted_rank)
    if wanted_rank is not None and own.Get_rank() != wanted_rank:
        raise ValueError(
            f"rank {wanted_rank} was asked for, but the ranks of all processes are not 0 to "
            f"{own.Get_size() - 1}"
        )
    seconds = limit.total_seconds()
    world = ProcessGroup(own, range(own.Get_size()), seconds, backend, "default_pg")
    global _worlds
    _worlds += 1
    world._number = _worlds
    _groups.append(world)
    before_end(world._leave)


def _check_rank(rank: int, size: int) -> None:
    if rank >= size:
        raise ValueError(f"rank is {rank}, but world_size {size}: ranks are 0 to {size - 1}")


def _checked_backend(backend: str | None) -> str:
    name = str(backend or "gloo").lower()
    for part in name.split(","):  # "cpu:gloo,cuda:nccl"
        device, _, given = part.rpartition(":")
        if given in _BACKENDS and device in ("", "cpu"):
            return given
    raise ValueError(
        f"the backend is '{backend}': adjoint computes on CPUs; fix: backend='gloo' or 'mpi'"
    )


def _check_size(there: int, wanted: int | None) -> None:
    if wanted is None or wanted == there:
        return
    raise RuntimeError(
        f"world_size is {wanted}, but MPI has started {there} process{'es' * (there > 1)}.\n"
        f"  fix: start the script with `adjoint launch -n {wanted} script.py`"
    )


def _world() -> ProcessGroup:
    if not _groups:
        raise ValueError(
            "Default process group has not been initialized, please make sure to call "
            "init_process_group."
        )
    return _groups[0]


def group_of(given: Any) -> ProcessGroup | None:
    """The group that is meant; None, and a warning, for a rank that is not in it."""
    if given is None:
        return _world()
    if isinstance(given, ProcessGroup):
        return given
    if given is NON_MEMBER or given == NON_MEMBER:
        warnings.warn(
            f"Running an operation on global rank {get_rank()} which does not belong to the "
            "given group.",
            stacklevel=3,
        )
        return None
    raise TypeError(f"group must be a ProcessGroup or None, not {type(given).__name__}")


def root_of(given: ProcessGroup, root: int | None, group_root: int | None, name: str) -> int:
    """The number in the group of the rank that a collective starts from or ends at."""
    if root is not None and group_root is not None:
        raise ValueError(f"Can't specify both {name} and group_{name}.")
    if group_root is not None:
        return _checked_rank(group_root, given.size(), f"group_{name}")
    if root is None:
        raise ValueError(f"Must specify {name} or group_{name}.")
    if given is _groups[0]:
        return _checked_rank(root, given.size(), name)
    return get_group_rank(given, root)


def _checked_rank(rank: int, size: int, name: str) -> int:
    if not 0 <= rank < size:  # RuntimeError, as of gloo
        raise RuntimeError(f"{name} is {rank}, but ranks are 0 to {size - 1}")
    return rank


def destroy_process_group(group: Any = None) -> None:
    """End a group; by default all of them."""
    if group == NON_MEMBER:
        return
    if group is None or group is _world():
        _world()
        for each in reversed(_groups):
            each._free()
        _groups.clear()
        return
    if group not in _groups:
        raise ValueError("Invalid process group specified")
    _groups.remove(group)
    group._free()


def new_group(
    ranks: Sequence[int] | None = None,
    timeout: timedelta | None = None,
    backend: str | None = None,
    pg_options: Any = None,
    use_local_synchronization: bool = False,
    group_desc: str | None = None,
    device_id: Any = None,
) -> Any:
    """Make a group of some ranks; all ranks call this, in the same order.

    Ranks outside get ``GroupMember.NON_GROUP_MEMBER``.
    """
    global _made
    world = _world()
    chosen = list(range(world.size())) if ranks is None else sorted(ranks)
    if len(set(chosen)) != len(chosen) or not all(0 <= r < world.size() for r in chosen):
        raise ValueError(
            f"the new group's ranks are {chosen}: they must be different, from 0 to "
            f"{world.size() - 1}"
        )
    _made += 1
    inside = world.rank() in chosen
    if use_local_synchronization:  # the others do not call this
        if not inside:
            return NON_MEMBER
        comm = world._comm.Create_group(world._comm.Get_group().Incl(chosen), _made)
    else:
        color = 0 if inside else mpi().UNDEFINED
        comm = world._comm.Split(color, world.rank())
    if not inside:
        return NON_MEMBER
    seconds = world._seconds if timeout is None else timeout.total_seconds()
    kind = world._backend if backend is None else _checked_backend(backend)
    made = ProcessGroup(comm, chosen, seconds, kind, group_desc or str(_made))
    _groups.append(made)
    return made


def new_subgroups(
    group_size: int | None = None,
    group: Any = None,
    timeout: timedelta | None = None,
    backend: str | None = None,
    pg_options: Any = None,
    group_desc: str | None = None,
) -> tuple[Any, list[Any]]:
    """Groups of `group_size` neighbours: this rank's, and all of them."""
    size = get_world_size(group)
    per = size if group_size is None else group_size
    if per <= 0 or size % per:
        raise ValueError(f"The world size ({size}) must be divisible by group_size={per}")
    lists = [list(range(begin, begin + per)) for begin in range(0, size, per)]
    return new_subgroups_by_enumeration(lists, timeout, backend, pg_options, group_desc)


def new_subgroups_by_enumeration(
    ranks_per_subgroup_list: Sequence[Sequence[int]],
    timeout: timedelta | None = None,
    backend: str | None = None,
    pg_options: Any = None,
    group_desc: str | None = None,
) -> tuple[Any, list[Any]]:
    """Groups of the listed ranks: this rank's, and all of them."""
    every = [rank for ranks in ranks_per_subgroup_list for rank in ranks]
    if len(set(every)) != len(every):
        raise ValueError("the new groups have ranks in common")
    made = [new_group(r, timeout, backend, pg_options) for r in ranks_per_subgroup_list]
    own = [each for each in made if isinstance(each, ProcessGroup)]
    return (own[0] if own else None), made


def split_group(
    parent_pg: Any = None,
    split_ranks: Sequence[Sequence[int]] | None = None,
    timeout: timedelta | None = None,
    pg_options: Any = None,
    group_desc: str | None = None,
) -> Any:
    """The group of this rank among those that the lists split all ranks into."""
    return new_subgroups_by_enumeration(split_ranks or [], timeout)[0]


def get_rank(group: Any = None) -> int:
    """The number of this process; -1 outside the group."""
    if group is not None and group == NON_MEMBER:
        return -1
    return (_world() if group is None else group).rank()


def get_world_size(group: Any = None) -> int:
    """How many ranks there are; -1 outside the group."""
    if group is not None and group == NON_MEMBER:
        return -1
    return (_world() if group is None else group).size()


def get_backend(group: Any = None) -> str:
    """The backend's name, as it was given."""
    found = group_of(group)
    if found is None:
        raise ValueError("Invalid process group specified")
    return found._backend


def get_group_rank(group: Any, global_rank: int) -> int:
    """A rank's number in the group."""
    if global_rank not in group._ranks:
        raise ValueError(f"Global rank {global_rank} is not part of group {group}")
    return int(group._ranks.index(global_rank))


def get_global_rank(group: Any, group_rank: int) -> int:
    """The number among all ranks of a rank of the group."""
    if not 0 <= group_rank < group.size():
        raise ValueError(f"Group rank {group_rank} is not part of group {group}")
    return int(group._ranks[group_rank])


def get_process_group_ranks(group: Any = None) -> list[int]:
    """The ranks of the group, by their numbers among all."""
    return list((_world() if group is None else group)._ranks)


def get_node_local_rank(fallback_rank: int | None = None) -> int:
    """The number of this process among those on its machine."""
    found = number_from(_LOCAL_RANKS)
    if found is None and fallback_rank is None:
        raise RuntimeError("LOCAL_RANK is not in the environment; fix: start with adjoint launch")
    return found if found is not None else int(fallback_rank or 0)


def get_pg_count() -> int:
    """How many groups there are."""
    return len(_groups)


def is_available() -> bool:
    """Whether mpi4py is installed."""
    return is_installed()
