"""Shared memory on its way to another process.

The descriptor of the file goes over a socket that ``multiprocessing.resource_sharer`` serves in a
thread of the sender, or along with a process that is being spawned. The memory needs no name and
leaves none behind, whichever process is killed.

Note [Senders that end first]
A process that ends in the usual way gives what was not yet received a name in /dev/shm, where the
receiver finds it by its token. Spawned processes have a tracker that outlives
them all (``multiprocessing.resource_tracker``) and removes what nobody came for. Where there is
none, the name has an heir: the process that started the sender. When it ends, it passes such files
on to its own parent, and the first process of all removes them. The sender's socket is gone a
moment before the names are there, so a receiver waits for them until the sender has ended. One that
is killed takes what was not yet received along, and the receiver says so.
"""

from __future__ import annotations

import os
import threading
import time
from contextlib import suppress
from multiprocessing import (
    AuthenticationError,
    context,
    current_process,
    parent_process,
    reduction,
    resource_sharer,
    resource_tracker,
    util,
)
from multiprocessing.connection import Listener
from typing import Any, ClassVar
from weakref import WeakKeyDictionary

from adjoint import _core
from adjoint._core import Tensor
from adjoint._sharing.memory import FOLDER, Attached, Sent, _move, is_settled, new_file

__all__ = ["end", "prepare", "reduce", "refuse_history"]

_PREFIX = "adjoint-"
_TRACKED = "tracked"  # in the place of an heir
_PATIENCE = 10.0  # seconds that a sender waits for a receiver where a file cannot have a name


def reduce(sent: Sent) -> tuple[Any, ...]:
    """How multiprocessing pickles the memory of a tensor."""
    t = sent.tensor
    refuse_history(t)
    size = _core._storage(t)[1]
    if size == 0:
        return sent.as_bytes()
    offset = t.storage_offset()
    # Memory that an array shares is to stay where it is: the receiver gets a copy.
    shared = t if _move(t) is None else _copy(t)
    return _receive, (_ticket(shared, is_copy=shared is not t), size, offset)


def refuse_history(t: Tensor) -> None:
    """A tensor that was computed from leaves cannot go without its graph."""
    if t.requires_grad and not t.is_leaf:
        raise RuntimeError(
            "Cowardly refusing to serialize non-leaf tensor which requires_grad, since autograd "
            "does not support crossing process boundaries. If you just want to transfer the data, "
            "call detach() on the tensor before serializing (e.g., putting it on the queue)."
        )


def _copy(t: Tensor) -> Tensor:
    """All of the storage of ``t``, in shared memory of its own."""
    whole = _core._whole(t.detach())
    fd = new_file(whole.numel())
    try:
        copied: Tensor = _core._attach(fd, whole.numel())
    except BaseException:
        os.close(fd)
        raise
    return copied.copy_(whole)


def _receive(ticket: Any, size: int, offset: int) -> Attached:
    prepare()
    return Attached(ticket.attach(size), offset)


def _attach(fd: int, size: int) -> Tensor:
    try:
        return _core._attach(fd, size)
    except BaseException:
        os.close(fd)
        raise


def _ticket(t: Tensor, is_copy: bool) -> Any:
    popen = context.get_spawning_popen()
    if popen is None or type(popen).__module__ != "multiprocessing.popen_spawn_posix":
        return _Ticket.sold(_core._shared_file(t))
    ticket = _Inherited.bought(_core._shared_file(t), popen)  # no limit on their number, no thread
    if is_copy:
        ticket.keep(t)
    return ticket


# --- tickets --------------------------------------------------------------------------------------
class _Inherited:
    """A descriptor that a spawned process is born with.

    It has it once, however many tensors are on the memory: they are pickled with the same ticket.
    """

    bought_for: ClassVar[WeakKeyDictionary[Any, dict[int, _Inherited]]] = WeakKeyDictionary()

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._whole: Tensor | None = None

    @classmethod
    def bought(cls, fd: int, popen: Any) -> _Inherited:
        """The ticket for a descriptor of the process that spawns."""
        tickets = cls.bought_for.setdefault(popen, {})
        if fd not in tickets:
            tickets[fd] = cls(popen.duplicate_for_child(fd))
        return tickets[fd]

    def keep(self, t: Tensor) -> None:
        """Keep memory that nobody else has until the process has started."""
        self._whole = t

    def __reduce__(self) -> tuple[Any, ...]:
        return _Inherited, (self._fd,)

    def attach(self, size: int) -> Tensor:
        """The memory, in the process that was spawned."""
        if self._whole is None:
            self._whole = _attach(self._fd, size)
        return self._whole


class _Ticket:
    """A claim to a descriptor of another process."""

    def __init__(self, claim: Any, token: str) -> None:
        self._claim, self._token, self._sender = claim, token, os.getpid()

    @staticmethod
    def sold(fd: int) -> _Ticket:
        """A ticket for a descriptor of this process, which it keeps open until it is claimed."""
        entry = _Entry(os.dup(fd), os.urandom(12).hex())
        _Office.entries.add(entry)
        claim = _sharer.register(entry.send, entry.close)
        prepare()
        return _Ticket(claim, entry.token)

    def attach(self, size: int) -> Tensor:
        """The memory, in the process that received the ticket."""
        return _attach(self._detached(), size)

    def _detached(self) -> int:
        try:
            with _sharer.get_connection(self._claim) as connection:
                fd: int = reduction.recv_handle(connection)
                return fd
        except (OSError, EOFError, RuntimeError, AuthenticationError) as error:
            found = self._left_behind()
            if found is None:
                raise RuntimeError(
                    "the process that sent a tensor ended before it was received, and its memory "
                    f"with it ({type(error).__name__}).\n"
                    "  fix: let the sender wait until the tensor has arrived"
                ) from None
            return found

    def _left_behind(self) -> int | None:
        """The descriptor of the file under its name; a sender that is about to end gives it one."""
        deadline = time.monotonic() + _PATIENCE
        while True:
            running = _is_running(self._sender) and time.monotonic() < deadline
            found = _found(self._token)
            if found is not None or not running:
                return found
            time.sleep(0.005)


class _Sharer(resource_sharer._ResourceSharer):  # type: ignore[name-defined,misc]
    """The thread that gives out descriptors, and a socket that lasts.

    The name of a socket is removed with the first of what a process does at its end, while queues
    are waiting for the receivers of their last items.
    """

    def _start(self) -> None:
        listener = None
        while listener is None:
            listener = self._lasting(Listener(authkey=current_process().authkey, backlog=128))
        self._listener, self._address = listener, listener.address
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    @staticmethod
    def _lasting(listener: Any) -> Any:
        """The listener with its name, unless the process was about to remove that."""
        unlink = listener._listener._unlink
        registry: dict[Any, Any] = util._finalizer_registry  # type: ignore[attr-defined]
        if unlink is None or registry.pop(unlink._key, None):
            return listener
        listener.close()
        return None

    def end(self) -> None:
        """Remove the name of the socket."""
        if isinstance(self._address, str):
            with suppress(OSError):
                os.unlink(self._address)


_sharer: Any = _Sharer()


class _Entry:
    """A descriptor that waits to be claimed."""

    def __init__(self, fd: int, token: str) -> None:
        self.fd, self.token, self.open = fd, token, True
        self._parked = False
        self._lock = threading.Lock()

    def send(self, connection: Any, pid: int) -> None:
        # From its descriptor or under its name: the process may end before it could take one back.
        with self._lock:
            if self._parked:
                raise OSError("the file has a name by now")
            reduction.send_handle(connection, self.fd, pid)
            self._close()

    def close(self) -> None:
        with self._lock:
            self._close()

    def renounce(self) -> None:
        self._lock = threading.Lock()
        self.close()

    def _close(self) -> None:
        if self.open:
            self.open = False
            os.close(self.fd)
        _Office.entries.discard(self)

    def park(self, heir: int) -> bool:
        """Give the file a name, for a receiver that comes after this process."""
        with self._lock:
            if not self.open or self._parked:
                return True
            tracked = _has_tracker()
            name = f"{_PREFIX}{_TRACKED if tracked else heir}-{self.token}"
            if tracked:  # first: this process may be killed in between
                resource_tracker.register(f"/{name}", "shared_memory")
            try:
                _link(self.fd, name)
                self._parked = True
            except OSError:  # a memfd, or a file that had a name before
                _remove(name)
            return self._parked


def _link(fd: int, name: str) -> None:
    """Give a file without a name one."""
    folder = os.open(FOLDER, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        # With a folder descriptor os.link follows the link in /proc.
        os.link(f"/proc/self/fd/{fd}", f"{FOLDER}/{name}", src_dir_fd=folder)
    finally:
        os.close(folder)


class _Office:
    """The entries of this process, and what becomes of them when it ends."""

    entries: ClassVar[set[_Entry]] = set()
    prepared: ClassVar[int] = 0  # the process that `end` will be called in


def prepare() -> None:
    """See to it that this process leaves nothing behind, once."""
    if _Office.prepared == os.getpid():
        return
    _Office.prepared = os.getpid()
    if not is_settled():
        util.Finalize(None, end, exitpriority=-100)  # after it has joined its children
    if parent_process() is None:
        _sweep()


def end() -> None:
    """Note [Senders that end first]."""
    if _Office.prepared != os.getpid():
        return  # registered before this process was forked
    parent = parent_process()
    _pass_on(os.getpid(), None if parent is None else parent.pid)
    if parent is not None:
        waiting = [entry for entry in list(_Office.entries) if not entry.park(parent.pid or 0)]
        deadline = time.monotonic() + _PATIENCE
        while any(entry.open for entry in waiting) and time.monotonic() < deadline:
            time.sleep(0.01)
    _sharer.end()


def _forget() -> None:
    """In a forked child: the entries are the parent's, and a thread that has a lock is not here."""
    entries, _Office.entries = _Office.entries, set()
    for entry in entries:
        entry.renounce()


os.register_at_fork(after_in_child=_forget)


def _named() -> list[tuple[str, str, str]]:
    """The files that wait under a name: path, heir, token."""
    try:
        names = os.listdir(FOLDER)
    except OSError:
        return []
    parts = [name.split("-") for name in names if name.startswith(_PREFIX)]
    return [(f"{FOLDER}/{'-'.join(p)}", p[1], p[2]) for p in parts if len(p) == 3]


def _found(token: str) -> int | None:
    for path, _, this in _named():
        if this == token:
            with suppress(OSError):
                fd = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
                _remove(os.path.basename(path))
                return fd
    return None


def _is_running(pid: int) -> bool:
    """Whether a process has not come to its end yet, which may be before its parent looks at it."""
    try:
        with open(f"/proc/{pid}/stat", encoding="latin-1") as file:
            return file.read().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def _has_tracker() -> bool:
    """Whether this process has its tracker from another one, which then outlives it."""
    tracker = getattr(resource_tracker, "_resource_tracker", None)
    return getattr(tracker, "_fd", None) is not None and getattr(tracker, "_pid", None) is None


def _remove(name: str) -> None:
    with suppress(OSError):
        os.unlink(f"{FOLDER}/{name}")
    if name.startswith(_PREFIX + _TRACKED):
        resource_tracker.unregister(f"/{name}", "shared_memory")


def _pass_on(heir: int, to: int | None) -> None:
    """Give the files that wait for a process to another one, or remove them."""
    for path, this, token in _named():
        if this == str(heir):
            with suppress(OSError):
                if to is None:
                    os.unlink(path)
                else:
                    os.rename(path, f"{FOLDER}/{_PREFIX}{to}-{token}")


def _sweep() -> None:
    """Remove the files of heirs that were killed."""
    for path, heir, _ in _named():
        with suppress(OSError):
            if heir.isdigit() and not os.path.exists(f"/proc/{heir}"):
                os.unlink(path)
