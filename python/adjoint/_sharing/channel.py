"""Messages between two processes over a socket; large tensors in them go as shared memory.

The descriptors of the memory travel with the message itself, so that neither a thread nor a name is
needed, and what was sent is there even if the sender has ended (compare `handover.py`, which serves
pickles of which nobody knows where they go). Small tensors are copied into the message.
"""

from __future__ import annotations

import io
import os
import pickle
import resource
import select
import socket
import struct
import threading
import weakref
from collections import deque
from multiprocessing import reduction
from typing import Any, ClassVar

from adjoint import _core
from adjoint._core import Tensor
from adjoint._pending import unsigned
from adjoint._sharing.handover import refuse_history
from adjoint._sharing.memory import Attached, new_file

__all__ = ["INLINE", "Channel", "shared_like"]

# Below this many bytes a copy through the socket is cheaper than a file, its pages and descriptor.
INLINE = 16 * 1024
_HEADER = struct.Struct("<QI")  # bytes of the pickle, descriptors that come with it
_AT_ONCE = 200  # descriptors in one system call; Linux takes 253
_MARK = b"F"  # what they come with, after the header
_PIECE = 1 << 18  # bytes to read at once


def shared_like(shape: tuple[int, ...], like: Tensor, stride: tuple[int, ...] = ()) -> Tensor:
    """An uninitialised dense tensor in shared memory, of another one's dtype."""
    plan = _core.empty_strided(shape, stride, dtype=like.dtype) if stride else None
    count = 1
    steps = []
    for length in reversed(shape):
        steps.append(count)
        count *= length
    if count == 0:
        return plan if plan is not None else _core.empty(shape, dtype=like.dtype)
    size = count * like.element_size()
    fd = new_file(size)
    try:
        whole = _core._attach(fd, size)
    except BaseException:
        os.close(fd)
        raise
    return _core._on_storage(whole, like.dtype, shape, stride or tuple(reversed(steps)), 0)


# --- pickling -------------------------------------------------------------------------------------
class _Slot:
    """Memory that comes with the message: which descriptor, its size, where the tensor begins."""

    def __init__(self, *place: int) -> None:
        self._place = place

    def __reduce__(self) -> tuple[Any, ...]:
        return _claimed, self._place


class _Pickler(reduction.ForkingPickler):
    """Pickles a message, and collects the memory of the large tensors in it."""

    def __init__(self, file: Any) -> None:
        super().__init__(file, pickle.HIGHEST_PROTOCOL)
        self.shared: list[Tensor] = []  # whose files are sent along

    def reducer_override(self, obj: Any) -> Any:
        if not isinstance(obj, Tensor) or type(obj).__reduce_ex__ is not Tensor.__reduce_ex__:
            return NotImplemented
        refuse_history(obj)
        reduced: Any = obj.__reduce_ex__(pickle.HIGHEST_PROTOCOL)
        rebuild, (cls, _, dtype, shape, stride, *rest) = reduced
        plain = unsigned(obj)
        data: Any
        if plain.numel() * plain.element_size() < INLINE:
            data = bytes(_core._to_bytes(plain))
        else:
            if not _core._is_shared(plain):
                stride = tuple(_core.empty_like(plain).stride())
                plain = shared_like(shape, plain, stride).copy_(plain)
            data = _Slot(len(self.shared), _core._storage(plain)[1], plain.storage_offset())
            self.shared.append(plain)
        return rebuild, (cls, data, dtype, shape, stride, *rest)


class _Arrived(threading.local):
    """The descriptors of the message that is being unpickled, in this thread."""

    files: list[int] | None = None


_arrived = _Arrived()


def _claimed(index: int, size: int, offset: int) -> Attached:
    files = _arrived.files
    assert files is not None
    fd, files[index] = files[index], -1
    try:
        whole = _core._attach(fd, size)
    except BaseException:
        os.close(fd)
        raise
    # Each holds its file open. Who keeps very many of them gets memory of its own.
    return Attached(whole if fd < _many_files() else whole.clone(), offset)


def _many_files() -> int:
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 2


def _unpickled(data: bytes, files: list[int]) -> Any:
    _arrived.files = files
    try:
        return pickle.loads(data)
    finally:
        _arrived.files = None
        for fd in files:
            if fd >= 0:
                os.close(fd)


# --- the socket -----------------------------------------------------------------------------------
class Channel:
    """One end of a connection between two processes.

    An end that cannot write takes in what arrives meanwhile, piece by piece: both may be in the
    middle of a message that the other has no room for.

    Parameters
    ----------
    connection : multiprocessing.connection.Connection
        One end of a `Pipe`, which knows how to get into another process.
    """

    # Ends that this process holds: a forked child closes its copies, or the other ends would never
    # see that this process is gone.
    _open: ClassVar[weakref.WeakSet[Channel]] = weakref.WeakSet()

    def __init__(self, connection: Any) -> None:
        self._socket = socket.socket(fileno=os.dup(connection.fileno()))
        connection.close()
        self._bytes = bytearray()  # of messages that have not arrived as a whole
        self._files: list[int] = []
        self.waiting: deque[tuple[bytes, list[int]]] = deque()  # messages that have
        Channel._open.add(self)

    def fileno(self) -> int:
        """The descriptor of the socket, to wait for messages."""
        return self._socket.fileno()

    def close(self) -> None:
        """Let go of the socket; the other end sees it."""
        self._socket.close()
        unread = [self._files, *(files for _, files in self.waiting)]
        self._files = []
        self.waiting.clear()
        for fd in (fd for files in unread for fd in files):
            os.close(fd)

    def send(self, message: Any) -> None:
        """Send an object."""
        file = io.BytesIO()
        pickler = _Pickler(file)
        pickler.dump(message)
        files = [_core._shared_file(t) for t in pickler.shared]
        with file.getbuffer() as data:
            self._write(_HEADER.pack(len(data), len(files)), [])
            for begin in range(0, len(files), _AT_ONCE):
                self._write(_MARK, files[begin : begin + _AT_ONCE])
            self._write(data, [])

    def receive(self) -> Any:
        """The next object; EOFError if the other end is closed."""
        while not self.waiting:
            self._take_in()
        return _unpickled(*self.waiting.popleft())

    def poll(self, seconds: float) -> bool:
        """Whether something arrives within this time."""
        if self.waiting:
            return True
        poller = select.poll()
        poller.register(self._socket, select.POLLIN)
        return bool(poller.poll(seconds * 1000))

    def _write(self, data: Any, files: list[int]) -> None:
        view = memoryview(data)
        while len(view):
            try:
                flags = socket.MSG_DONTWAIT
                if files:
                    sent = socket.send_fds(self._socket, [view], files, flags)
                else:
                    sent = self._socket.send(view, flags)
            except BlockingIOError:
                self._wait_for_room()
                continue
            files = []
            view = view[sent:]

    def _wait_for_room(self) -> None:
        poller = select.poll()
        poller.register(self._socket, select.POLLIN | select.POLLOUT)
        ((_, event),) = poller.poll()
        if event & select.POLLIN:
            self._take_in()

    def _take_in(self) -> None:
        """Read what has arrived, or wait for something."""
        flags = socket.MSG_CMSG_CLOEXEC
        data, files, _, _ = socket.recv_fds(self._socket, _PIECE, _AT_ONCE, flags)
        if not data:
            raise EOFError
        self._bytes += data
        self._files += files
        while len(self._bytes) >= _HEADER.size:
            length, count = _HEADER.unpack_from(self._bytes)
            begin = _HEADER.size + -(-count // _AT_ONCE)
            if len(self._bytes) < begin + length or len(self._files) < count:
                return
            self.waiting.append((bytes(self._bytes[begin : begin + length]), self._files[:count]))
            del self._bytes[: begin + length], self._files[:count]


def _close_copies() -> None:
    for channel in list(Channel._open):
        channel.close()


os.register_at_fork(after_in_child=_close_copies)
