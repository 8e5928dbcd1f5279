"""`Tensor.share_memory_`, and tensors on their way to other processes.

Shared memory is a file in ``/dev/shm`` that never had a name
(src/bindings/interop/shared_memory.cpp): when the last process lets go of it, by whatever end, it
is gone. Forked processes have it already. To others the descriptor of the file is handed over
(`_handover`): that is what ``multiprocessing`` does with a tensor in the arguments of a process, a
queue, a pipe or a pool. Plain ``pickle`` copies.
"""

from __future__ import annotations

import errno
import gc
import os
import sys
from typing import Any

from adjoint import _core
from adjoint._core import Tensor

__all__ = ["Attached", "Sent", "is_shared", "share_memory_"]

FOLDER = "/dev/shm"


def is_shared(self: Tensor) -> bool:
    """Whether the tensor is in memory that other processes can have too."""
    return _core._is_shared(self)


def share_memory_(self: Tensor) -> Tensor:
    """Move the tensor, and all others on its storage, to memory that processes share.

    Processes that are started afterwards write into the same memory, forked ones and those that get
    the tensor as an argument or through a queue. Nothing is done if it is there already.

    Raises
    ------
    RuntimeError
        The memory is not adjoint's own, or something else than tensors (a NumPy array) uses it.

    Examples
    --------
    >>> import adjoint as ad
    >>> x = ad.zeros(3).share_memory_()
    >>> x.is_shared()
    True
    """
    self.data_ptr()  # refuses a sample of vmap, which has no memory of its own
    reason = _move(self)
    if reason is not None:
        raise RuntimeError(
            f"share_memory_(): {reason}. It would no longer see what the tensor holds.\n"
            "  fix: share a copy, with tensor.clone().share_memory_()"
        )
    return self


def _move(t: Tensor) -> str | None:
    """Move the storage of a tensor; what keeps it from moving."""
    size = _core._storage(t)[1]
    if _core._is_shared(t) or size == 0:
        return None
    if not _core._is_movable(t):
        return "the memory belongs to an array or to another library"
    fd = new_file(size)
    try:
        unknown = _core._share(t, [], fd)
        if unknown:
            unknown = _core._share(t, _all_objects(), fd)
    except BaseException:
        os.close(fd)
        raise
    if unknown:
        os.close(fd)
        return (
            "a NumPy array, another library or a running operation uses the memory beside the "
            "tensors on it"
        )
    return None


def _all_objects() -> list[Any]:
    """What the garbage collector knows, and tensors that it is not shown (they close no cycle)."""
    _core._see_everything()
    return gc.get_objects()


def new_file(size: int) -> int:
    """The descriptor of a file in memory, without a name, of which all pages are there."""
    try:
        try:
            flags = os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC
            return _sized(os.open(FOLDER, flags, 0o600), size)
        except (OSError, AttributeError) as error:
            if getattr(error, "errno", None) == errno.EMFILE:
                raise
            # No such folder, or a small one: containers often have 64 MB.
            return _sized(os.memfd_create("adjoint", os.MFD_CLOEXEC), size)
    except OSError as error:
        if error.errno == errno.EMFILE:
            raise RuntimeError(
                "share_memory_(): too many open files: each storage in shared memory is one.\n"
                "  fix: share fewer and larger tensors, or raise the limit (ulimit -n)"
            ) from None
        raise


def _sized(fd: int, size: int) -> int:
    try:
        os.ftruncate(fd, size)
        # A page that is missing later, on a full /dev/shm, would end the process by SIGBUS.
        os.posix_fallocate(fd, 0, size)
    except BaseException:
        os.close(fd)
        raise
    return fd


class Sent:
    """The memory of a tensor inside a pickle: bytes, or for `multiprocessing` the memory itself.

    It unpickles as bytes, or as `Attached`.
    """

    __slots__ = ("tensor",)

    def __init__(self, tensor: Tensor) -> None:
        self.tensor = tensor

    def __reduce__(self) -> tuple[Any, ...]:
        # Who pickles? Registering with multiprocessing's pickler would mean importing it along with
        # adjoint: a pickler that exists already would not know, and the first tensor be a copy.
        if sys._getframe(1).f_globals.get("__name__") == "multiprocessing.reduction":
            from adjoint._sharing import handover as _handover

            return _handover.reduce(self)
        return self.as_bytes()

    def as_bytes(self) -> tuple[Any, ...]:
        """How a copy of the elements is pickled."""
        return bytes, (_core._to_bytes(self.tensor.detach()),)


class Attached:
    """Memory that another process sent, and where in it the tensor begins."""

    __slots__ = ("offset", "whole")

    def __init__(self, whole: Tensor, offset: int) -> None:
        self.whole, self.offset = whole, offset


# --- processes that start and end -----------------------------------------------------------------
class _Settled:
    """Whether the processes that `multiprocessing` starts from here leave nothing behind."""

    children = False  # they will be seen to
    process = 0  # the one that is


def _after_fork() -> None:
    """A child may leave a tensor behind that nobody asks for (`_handover`)."""
    if "multiprocessing.util" in sys.modules:
        from adjoint._sharing import handover as _handover

        _handover.prepare()


def _see_to_children() -> None:
    util = sys.modules.get("multiprocessing.util")
    if util is not None and not _Settled.children:
        _Settled.children = True
        util.register_after_fork(_settle, _settle)


def _settle(_: Any) -> None:
    """In a child, before its function runs.

    A queue pickles its last tensors while the finalizers of the process are running, and a new one
    would come too late.
    """
    _Settled.process = os.getpid()
    # After queues have joined their threads, which is at -5.
    sys.modules["multiprocessing.util"].Finalize(None, _leave, exitpriority=-100)


def _leave() -> None:
    handover = sys.modules.get("adjoint._sharing.handover")
    if handover is not None:
        handover.end()


def is_settled() -> bool:
    """Whether `_handover.end` is called when this process ends."""
    return _Settled.process == os.getpid()


def _is_started() -> bool:
    """Whether `multiprocessing` has started this process, or is about to run its function."""
    process: Any = sys.modules.get("multiprocessing.process")
    if process is None or "multiprocessing.util" not in sys.modules:
        return False
    inherits = getattr(process.current_process(), "_inheriting", False)
    return inherits or process.parent_process() is not None


os.register_at_fork(after_in_parent=_after_fork, after_in_child=_see_to_children)
_see_to_children()
if _is_started():  # spawned, or the function imports adjoint
    _settle(None)
