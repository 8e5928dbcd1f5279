"""A file is replaced whole or not at all, with the permissions that `open` would give."""

from __future__ import annotations

import io
import os
import pickle
import signal
import stat
import subprocess
import sys
import tempfile
import textwrap
import time
from pathlib import Path
from typing import Any

import pytest

import adjoint as ad

OLD = {"old": 1}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    ad.save(OLD, tmp_path / "file")
    return tmp_path / "file"


def unchanged(path: Path) -> bool:
    """Whether the old file is there, alone and whole."""
    return ad.load(path) == OLD and os.listdir(path.parent) == [path.name]


def child(code: str, path: Path) -> subprocess.Popen[bytes]:
    begin = "import adjoint as ad, resource, sys, os, signal\npath = sys.argv[1]\n"
    return subprocess.Popen(
        [sys.executable, "-c", begin + textwrap.dedent(code), str(path)], stdout=subprocess.PIPE
    )


def test_an_object_that_cannot_be_saved_leaves_the_old_file(path: Path) -> None:
    with pytest.raises((pickle.PicklingError, AttributeError)):
        ad.save([ad.ones(1000), lambda: 0], path)
    assert unchanged(path)


def test_a_write_that_fails_leaves_the_old_file(path: Path) -> None:
    """As on a full disk: the process may write files of 100 kB and no larger."""
    code = """
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
        try:
            ad.save([ad.ones(1000), ad.ones(100_000)], path)
        except OSError as error:
            print(error.errno)
    """
    out, _ = child(code, path).communicate(timeout=60)
    assert out.split() == [b"27"] and unchanged(path)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root mounts")
def test_a_full_disk_leaves_the_old_file(tmp_path: Path) -> None:
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=64k", "none", str(tmp_path)], capture_output=True
    )
    if mounted.returncode:
        pytest.skip("mounting is not allowed")
    try:
        path = tmp_path / "file"
        ad.save(OLD, path)
        with pytest.raises(OSError, match="No space left"):
            ad.save(ad.ones(100_000), path)
        assert unchanged(path)
    finally:
        subprocess.run(["umount", str(tmp_path)], check=True)


STOPPED = """
    import threading, time
    from adjoint.serialization import _replace
    real = os.fsync
    def stop(fd):
        print("here", flush=True)
        time.sleep(60)
        real(fd)
    os.fsync = stop
    try:
        ad.save(ad.ones(1000), path)
    except KeyboardInterrupt:
        sys.exit(3)
"""


def test_ctrl_c_leaves_the_old_file(path: Path) -> None:
    with child(STOPPED, path) as process:
        assert process.stdout is not None and process.stdout.readline() == b"here\n"
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 3
    assert unchanged(path)


def test_a_killed_process_leaves_the_old_file(path: Path) -> None:
    with child(STOPPED, path) as process:
        assert process.stdout is not None and process.stdout.readline() == b"here\n"
        process.kill()
        process.wait(60)
    assert ad.load(path) == OLD


def test_permissions_are_those_of_an_ordinary_file(tmp_path: Path) -> None:
    path = tmp_path / "file"
    old = os.umask(0o027)
    try:
        ad.save(1, path)
        assert stat.S_IMODE(path.stat().st_mode) == 0o640
        path.chmod(0o604)
        ad.save(2, path)
        assert stat.S_IMODE(path.stat().st_mode) == 0o604
    finally:
        os.umask(old)


def test_links_stay_links(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    link, target = tmp_path / "link", tmp_path / "folder" / "target"
    link.symlink_to("folder/target")
    for value in (1, 2):  # the first makes what the link points to
        ad.save(value, link)
        assert link.is_symlink() and ad.load(target) == value
    assert os.listdir(tmp_path / "folder") == ["target"]


def test_what_is_not_a_file_is_written_to(tmp_path: Path) -> None:
    ad.save(1, "/dev/null")
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    code = "ad.save([1, 2], path)"
    with child(code, pipe) as process:
        assert ad.load(pipe) == [1, 2]
        assert process.wait(60) == 0


def test_an_open_file_stays_the_same_file(tmp_path: Path) -> None:
    path = tmp_path / "out"
    with open(path, "wb") as out:
        subprocess.run(
            [sys.executable, "-c", "import adjoint as ad; ad.save([1, 2], '/dev/stdout')"],
            stdout=out, check=True,
        )  # fmt: skip
        assert os.fstat(out.fileno()).st_ino == path.stat().st_ino
    assert ad.load(path) == [1, 2]


def test_what_was_written_is_there_for_who_opens_the_file_by_name() -> None:
    with tempfile.NamedTemporaryFile() as file:
        ad.save([1, ad.ones(2)], file)
        assert ad.load(file.name)[1].tolist() == [1, 1]


def test_tensors_are_written_from_their_own_memory(tmp_path: Path) -> None:
    """The process may take 40 MB more than it has, and saves and loads 64 MB."""
    code = """
        x = ad.ones(16 << 20)
        ad.save(ad.load(path), path)
        pages = int(open("/proc/self/statm").read().split()[0])
        limit = pages * resource.getpagesize() + (40 << 20)
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
        ad.save([x, x[1:], x.view(4096, 4096).t()], path)
        del x
        print(ad.load(path)[2].shape)
    """
    ad.save(OLD, tmp_path / "file")
    out, _ = child(code, tmp_path / "file").communicate(timeout=60)
    assert out == b"torch.Size([4096, 4096])\n"


def test_who_has_the_file_open_sees_what_is_written() -> None:
    with tempfile.NamedTemporaryFile() as file:
        ad.save([1, ad.ones(2)], file.name)
        assert ad.load(file)[1].tolist() == [1, 1]
        ad.save([2], file.name)
        file.seek(0)
        assert ad.load(file) == [2] and ad.load(file.name) == [2]


@pytest.mark.parametrize("name", ["missing/file", "."])
def test_places_that_cannot_be_written_are_named(tmp_path: Path, name: str) -> None:
    with pytest.raises(OSError) as caught, open(tmp_path / name, "wb"):
        pass
    with pytest.raises(caught.type, match=name.split("/")[0]) as ours:
        ad.save(1, tmp_path / name)
    assert ours.value.errno == caught.value.errno and "adjoint-" not in str(ours.value)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everything")
def test_a_protected_file_is_not_replaced(path: Path) -> None:
    path.chmod(0o444)
    with pytest.raises(PermissionError):
        ad.save(1, path)
    assert unchanged(path)


def test_a_long_name_is_written(tmp_path: Path) -> None:
    ad.save(1, tmp_path / ("a" * 255))
    assert ad.load(tmp_path / ("a" * 255)) == 1


def test_pictures_are_replaced_whole(tmp_path: Path, monkeypatch: Any) -> None:
    figures = pytest.importorskip("matplotlib.figure")
    from adjoint.plot._figure import write

    figure, path = figures.Figure((1, 1)), tmp_path / "picture.png"
    write(figure, path)
    before = path.read_bytes()

    def fails(fd: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fails)
    with pytest.raises(OSError, match="No space left"):
        write(figure, path)
    assert path.read_bytes() == before and os.listdir(tmp_path) == ["picture.png"]


def test_file_objects_are_written_in_order() -> None:
    class Writer:
        """Has nothing but write."""

        def __init__(self) -> None:
            self.parts: list[bytes] = []

        def write(self, data: Any) -> int:
            self.parts.append(bytes(data))
            return len(data)

    class Slow(Writer):
        """Takes three bytes at a time, as a file without a buffer may."""

        def write(self, data: Any) -> int:
            return super().write(data[:3])

    import io

    slow = Slow()
    ad.save(ad.arange(5), slow)
    assert ad.load(io.BytesIO(b"".join(slow.parts))).tolist() == [0, 1, 2, 3, 4]
    writer = Writer()
    ad.save([ad.arange(3), "a"], writer)
    assert ad.load(io.BytesIO(b"".join(writer.parts)))[0].tolist() == [0, 1, 2]
    before = len(writer.parts)
    with pytest.raises((pickle.PicklingError, AttributeError)):
        ad.save([ad.arange(3), lambda: 0], writer)
    assert len(writer.parts) == before


def test_a_link_to_an_open_file_is_that_file(tmp_path: Path) -> None:
    path = tmp_path / "out"
    (tmp_path / "link").symlink_to("/dev/stdout")
    code = "import sys, adjoint as ad; ad.save([1, 2], sys.argv[1])"
    with open(path, "wb") as out:
        command = [sys.executable, "-c", code, str(tmp_path / "link")]
        subprocess.run(command, stdout=out, check=True)
        assert os.fstat(out.fileno()).st_ino == path.stat().st_ino
    assert ad.load(path) == [1, 2]


def test_the_name_of_a_folder_is_refused(tmp_path: Path) -> None:
    for name in (f"{tmp_path}/new/", str(tmp_path)):
        with pytest.raises(IsADirectoryError, match=name):
            ad.save(1, name)
    assert os.listdir(tmp_path) == []


USER, GROUP, OTHER_GROUP = 61234, 61235, 61236


def as_user(path: Path, groups: list[int]) -> str:
    """What becomes of a save by somebody who is not root."""
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.setgroups(groups)
            os.setgid(GROUP)
            os.setuid(USER)
            ad.save({"new": 1}, path)
            os.write(write, b"saved")
        except BaseException as error:
            os.write(write, f"{type(error).__name__} {error}".encode())
        finally:
            os._exit(0)
    os.waitpid(pid, 0)
    os.close(write)
    with open(read, encoding="utf-8") as file:
        return file.read()


@pytest.fixture
def public(tmp_path_factory: Any) -> Any:
    """A folder for everybody, outside the one that is pytest's own."""
    if os.geteuid() != 0:
        pytest.skip("only root changes owners")
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o777)
        path = Path(folder) / "file"
        ad.save(OLD, path)
        yield path


def owner(path: Path) -> tuple[int, int, str]:
    status = path.stat()
    return status.st_uid, status.st_gid, oct(stat.S_IMODE(status.st_mode))


def test_the_owner_stays_as_far_as_that_is_allowed(public: Path) -> None:
    os.chown(public, USER, OTHER_GROUP)
    public.chmod(0o660)
    ad.save(OLD, public)  # root may give it away
    assert owner(public) == (USER, OTHER_GROUP, "0o660")
    assert as_user(public, [OTHER_GROUP]) == "saved"
    assert owner(public) == (USER, OTHER_GROUP, "0o660")
    os.chown(public, 0, OTHER_GROUP)
    assert as_user(public, [OTHER_GROUP]) == "saved"  # who is in the group keeps that
    assert owner(public) == (USER, OTHER_GROUP, "0o660")
    public.chmod(0o664)
    assert as_user(public, []) == "saved"  # another group may do no more than anybody
    assert owner(public) == (USER, GROUP, "0o644")


def test_a_folder_that_does_not_allow_it_is_named(public: Path) -> None:
    public.chmod(0o666)
    public.parent.chmod(0o755)
    assert as_user(public, []) == (
        "PermissionError [Errno 13] Permission denied (the new file is written beside the old one, "
        f"in {public.parent}, and renamed): '{public}'"
    )
    public.parent.chmod(0o1777)  # as /tmp: only the owner may rename over it
    assert as_user(public, []).startswith("PermissionError [Errno 1] Operation not permitted (the")
    assert unchanged(public)


def test_attributes_of_the_file_stay(path: Path) -> None:
    try:
        os.setxattr(path, "user.origin", b"here")
    except OSError:
        pytest.skip("this file system has no attributes")
    ad.save({"new": 1}, path)
    assert os.getxattr(path, "user.origin") == b"here"


def test_a_file_that_takes_nothing_is_an_error() -> None:
    class Blocked(io.RawIOBase):
        def write(self, data: Any) -> int | None:
            return None

    class Stuck:
        def write(self, data: Any) -> int:
            return 0

    for target in (Blocked(), Stuck()):
        with pytest.raises(BlockingIOError, match=r"takes none of \d+ bytes"):
            ad.save(1, target)  # type: ignore[arg-type]


def test_a_process_killed_at_any_moment_leaves_one_file_or_the_other(path: Path) -> None:
    code = """
        x = ad.ones(300_000)
        while True:
            ad.save({"old": 1}, path)
            print("here", flush=True)
            ad.save({"new": x}, path)
    """
    for i in range(12):
        with child(code, path) as process:
            assert process.stdout is not None and process.stdout.readline() == b"here\n"
            time.sleep(0.001 * i)
            process.kill()
            process.wait(60)
        found = ad.load(path)
        assert found == OLD or found["new"].sum() == 300_000


def test_processes_that_save_at_once_leave_a_whole_file(path: Path) -> None:
    code = "for i in range(40): ad.save([path, ad.full((20_000,), float(os.getpid()))], path)"
    processes = [child(code, path) for _ in range(3)]
    for process in processes:
        assert process.wait(60) == 0
        assert process.stdout is not None
        process.stdout.close()
    found = ad.load(path)[1]
    assert found.min() == found.max() and os.listdir(path.parent) == [path.name]
