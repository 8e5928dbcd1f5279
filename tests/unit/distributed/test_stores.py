"""Keys and values that processes share: all stores promise the same, as PyTorch's do."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest

from adjoint import distributed as dist

Make = Callable[[Path], tuple[dist.Store, dist.Store]]


def tcp(_: Path) -> tuple[dist.Store, dist.Store]:
    master = dist.TCPStore("127.0.0.1", 0, is_master=True)
    return master, dist.TCPStore("127.0.0.1", master.port)


def file(folder: Path) -> tuple[dist.Store, dist.Store]:
    return dist.FileStore(str(folder / "store"), 2), dist.FileStore(str(folder / "store"), 2)


def one_process(_: Path) -> tuple[dist.Store, dist.Store]:
    store = dist.HashStore()
    return store, store


def prefix(folder: Path) -> tuple[dist.Store, dist.Store]:
    first, second = tcp(folder)
    first.set("key", "of nobody with a prefix")
    return dist.PrefixStore("mine", first), dist.PrefixStore("mine", second)


@pytest.mark.parametrize("make", [tcp, file, one_process, prefix])
def test_what_one_sets_the_other_gets(make: Make, tmp_path: Path) -> None:
    one, other = make(tmp_path)
    assert not other.check(["key"])
    one.set("key", b"\x00\xff\n")
    one.set("text", "grün")
    assert other.get("key") == b"\x00\xff\n" and other.get("text") == "grün".encode()
    assert [one.add("n", 3), other.add("n", -1)] == [3, 2] and one.get("n") == b"2"
    assert one.compare_set("text", "red", "blue") == "grün".encode()
    assert one.compare_set("text", "grün", "blue") == b"blue" == other.get("text")
    assert one.compare_set("new", "", "first") == b"first" == other.get("new")
    other.append("new", "and more €")
    assert one.multi_get(["new", "n"]) == ["firstand more €".encode(), b"2"]
    assert other.delete_key("new") and not one.delete_key("new") and not one.check(["new"])


@pytest.mark.parametrize("make", [tcp, file, one_process, prefix])
def test_a_key_is_waited_for(make: Make, tmp_path: Path) -> None:
    one, other = make(tmp_path)
    with pytest.raises(dist.DistStoreError, match=r"wait timeout after 20ms, keys: \['late'\]"):
        other.wait(["late"], timedelta(milliseconds=20))
    setter = threading.Timer(0.02, one.set, ("late", "here"))
    setter.start()
    assert other.get("late") == b"here"
    setter.join()


def test_threads_that_add_lose_nothing(tmp_path: Path) -> None:
    stores = [*tcp(tmp_path)]
    threads = [threading.Thread(target=lambda s=s: [s.add("n", 1) for _ in range(50)])
               for s in stores * 2]  # fmt: skip
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert stores[1].add("n", 0) == 200


def test_a_store_that_is_not_there_is_named() -> None:
    with pytest.raises(dist.DistNetworkError, match=r"no store at 127.0.0.1:1\b"):
        dist.TCPStore("127.0.0.1", 1, timeout=timedelta(milliseconds=10))
