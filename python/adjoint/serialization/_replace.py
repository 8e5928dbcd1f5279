"""Writing a file whole or not at all.

What is written goes to a temporary file beside the old one, which takes its name when it is whole.
A full disk, Ctrl-C or an error in between leaves the old file as it was. A process that is killed
leaves the temporary file, ``.adjoint-*.tmp``, beside it. Where there is an old file to lose, every
byte of the new one is on the disk before it takes the name: a power cut leaves one of the two.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from errno import EISDIR
from os import PathLike
from typing import IO

__all__ = ["replacing"]


@contextmanager
def replacing(path: str | PathLike[str]) -> Iterator[IO[bytes]]:
    """A file to write to, which becomes ``path`` if the block ends without an exception.

    A symbolic link stays one: what it points to is replaced. What is not a regular file (a pipe,
    ``/dev/null``) or is open already (``/dev/stdout``, the file of a `NamedTemporaryFile`) is
    written to directly: who has it open is to see what was written.
    """
    target = os.path.realpath(path)
    old = _writable(path, target)
    direct = old is not None and (not stat.S_ISREG(old.st_mode) or _is_open_here(old))
    if direct or _is_open_file(path):
        with open(path, "wb") as file:
            yield file
        return
    folder = os.path.dirname(target)
    temporary = os.path.join(folder, f".adjoint-{os.urandom(8).hex()}.tmp")
    try:
        with _created(temporary) as file:
            if old is not None:
                _take_over(file.fileno(), target, old)
            yield file
            file.flush()
            if old is not None and old.st_size:
                os.fsync(file.fileno())
        os.replace(temporary, target)
    except BaseException as error:
        with suppress(OSError):
            os.unlink(temporary)
        if isinstance(error, OSError):
            raise _explained(error, path, folder) from None
        raise


def _is_open_file(path: str | PathLike[str]) -> bool:
    """Whether a path means an open file of the process, as /dev/stdout: it has to stay that one."""
    at = os.path.abspath(path)
    for _ in range(40):  # links, as many as the system follows
        if at.startswith(("/dev/fd/", "/dev/std", "/proc/")):
            return True
        if not os.path.islink(at):
            break
        at = os.path.abspath(os.path.join(os.path.dirname(at), os.readlink(at)))
    return False


def _is_open_here(old: os.stat_result) -> bool:
    """Whether this process has the file open, as far as the system tells."""
    try:
        numbers = [int(name) for name in os.listdir("/proc/self/fd")]
    except OSError:
        return False
    for number in numbers:
        with suppress(OSError):  # the one that listed the folder is closed again
            found = os.fstat(number)
            if (found.st_dev, found.st_ino) == (old.st_dev, old.st_ino):
                return True
    return False


def _writable(path: str | PathLike[str], target: str) -> os.stat_result | None:
    """The status of an existing file; raises what ``open(path, "wb")`` raises for it."""
    try:
        old = os.stat(target)
    except FileNotFoundError:
        if os.fspath(path).endswith(os.sep):
            raise IsADirectoryError(EISDIR, os.strerror(EISDIR), os.fspath(path)) from None
        return None
    if stat.S_ISREG(old.st_mode) or stat.S_ISDIR(old.st_mode):
        # A rename would not mind a write-protected file: the folder alone decides.
        os.close(os.open(path, os.O_WRONLY | os.O_CLOEXEC))
    return old


def _created(temporary: str) -> IO[bytes]:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    # 0o666 less the umask: the permissions that open() gives.
    return os.fdopen(os.open(temporary, flags, 0o666), "wb")


def _explained(error: OSError, path: str | PathLike[str], folder: str) -> OSError:
    """The same error with the file that the caller knows, and what the folder has to do with it."""
    text = error.strerror
    if error.filename is not None and not isinstance(error, FileNotFoundError):
        text = f"{text} (the new file is written beside the old one, in {folder}, and renamed)"
    return OSError(error.errno, text, os.fspath(path))


def _take_over(fd: int, target: str, old: os.stat_result) -> None:
    """Give the new file the owner, the permissions and the attributes of the old one."""
    mode = old.st_mode & 0o777
    if not _chown(fd, old.st_uid, old.st_gid) and not _chown(fd, -1, old.st_gid):
        # Another group than before: it may do what others may.
        mode &= ~0o070 | (mode & 0o007) << 3
    os.fchmod(fd, mode)
    with suppress(OSError):  # not all systems have such attributes, access lists among them
        for name in os.listxattr(target):
            os.setxattr(fd, name, os.getxattr(target, name))


def _chown(fd: int, user: int, group: int) -> bool:
    """Whether a file belongs to these, if need be from now on."""
    now = os.fstat(fd)
    if (user, group) in ((now.st_uid, now.st_gid), (-1, now.st_gid)):
        return True
    try:
        os.fchown(fd, user, group)
    except PermissionError:
        return False
    return True
