"""Keys and values that ranks share: `TCPStore`, `FileStore`, `HashStore`.

MPI needs none to find the other ranks; programs keep words of their own there.
"""

from __future__ import annotations

import fcntl
import json
import os
import socket
import socketserver
import threading
import time
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

from adjoint.distributed._errors import DistNetworkError, DistStoreError

__all__ = ["FileStore", "HashStore", "PrefixStore", "Store", "TCPStore"]


class Store:
    """Keys and values; what is asked for is waited for."""

    timeout = timedelta(seconds=300)

    def _change(self, work: Callable[[dict[str, str]], Any]) -> Any:
        raise NotImplementedError

    def set(self, key: str, value: str | bytes) -> None:
        """Set a value."""
        text = _text(value)
        self._change(lambda values: values.__setitem__(key, text))

    def append(self, key: str, value: str | bytes) -> None:
        """Put more behind a value, empty at first."""
        text = _text(value)
        self._change(lambda values: values.__setitem__(key, values.get(key, "") + text))

    def multi_set(self, keys: Sequence[str], values: Sequence[str | bytes]) -> None:
        """Set several values."""
        for key, value in zip(keys, values, strict=True):
            self.set(key, value)

    def multi_get(self, keys: Sequence[str]) -> list[bytes]:
        """Several values, as soon as all have been set."""
        return [self.get(key) for key in keys]

    def get(self, key: str) -> bytes:
        """The value, as soon as somebody has set it."""
        self.wait([key])
        return str(self._change(lambda values: values[key])).encode("latin-1")

    def add(self, key: str, amount: int) -> int:
        """Add to a number, 0 at first; the sum."""

        def add(values: dict[str, str]) -> int:
            total = int(values.get(key, "0")) + amount
            values[key] = str(total)
            return total

        return int(self._change(add))

    def compare_set(self, key: str, expected_value: str, desired_value: str) -> bytes:
        """Set a value if the old one is `expected_value`; the value then."""

        def exchange(values: dict[str, str]) -> str:
            if values.get(key, "") == _text(expected_value):
                values[key] = _text(desired_value)
            return values.get(key, _text(expected_value))

        return str(self._change(exchange)).encode("latin-1")

    def check(self, keys: Sequence[str]) -> bool:
        """Whether all keys are there."""
        return bool(self._change(lambda values: all(key in values for key in keys)))

    def wait(self, keys: Sequence[str], timeout: timedelta | None = None) -> None:
        """Wait until all keys are there."""
        limit = self.timeout if timeout is None else timeout
        end = time.monotonic() + limit.total_seconds()
        while not self.check(keys):
            if time.monotonic() > end:
                raise DistStoreError(
                    f"wait timeout after {limit.total_seconds() * 1000:g}ms, keys: {list(keys)}"
                )
            time.sleep(0.005)

    def delete_key(self, key: str) -> bool:
        """Take a key away; whether it was there."""
        return self._change(lambda values: values.pop(key, None)) is not None

    def num_keys(self) -> int:
        """How many keys there are."""
        return int(self._change(len))

    def set_timeout(self, timeout: timedelta) -> None:
        """How long `get` and `wait` wait."""
        self.timeout = timeout


def _text(value: str | bytes) -> str:
    """Bytes as letters of one byte each, which JSON has."""
    return (value if isinstance(value, bytes) else str(value).encode()).decode("latin-1")


class HashStore(Store):
    """Keys and values of one process."""

    def __init__(self) -> None:
        self._values: dict[str, str] = {}
        self._lock = threading.Lock()

    def _change(self, work: Callable[[dict[str, str]], Any]) -> Any:
        with self._lock:
            return work(self._values)


class FileStore(Store):
    """Keys and values in a file that all processes see."""

    def __init__(self, file_name: str, world_size: int = -1) -> None:
        self.path = file_name
        self.world_size = world_size

    def _change(self, work: Callable[[dict[str, str]], Any]) -> Any:
        with open(os.open(self.path, os.O_RDWR | os.O_CREAT, 0o600), "r+") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            text = file.read()
            values = json.loads(text) if text else {}
            result = work(values)
            file.seek(0)
            file.truncate()
            json.dump(values, file)
            return result


class PrefixStore(Store):
    """Another store, where all keys begin with a prefix."""

    def __init__(self, prefix: str, store: Store) -> None:
        self.prefix = prefix
        self.underlying_store = store
        self.timeout = store.timeout

    def _key(self, key: str) -> str:
        return f"{self.prefix}/{key}"

    def set(self, key: str, value: str | bytes) -> None:
        """Set a value."""
        self.underlying_store.set(self._key(key), value)

    def append(self, key: str, value: str | bytes) -> None:
        """Put more behind a value, empty at first."""
        self.underlying_store.append(self._key(key), value)

    def get(self, key: str) -> bytes:
        """The value, as soon as somebody has set it."""
        self.wait([key])
        return self.underlying_store.get(self._key(key))

    def add(self, key: str, amount: int) -> int:
        """Add to a number, 0 at first; the sum."""
        return self.underlying_store.add(self._key(key), amount)

    def compare_set(self, key: str, expected_value: str, desired_value: str) -> bytes:
        """Set a value if the old one is `expected_value`; the value then."""
        return self.underlying_store.compare_set(self._key(key), expected_value, desired_value)

    def check(self, keys: Sequence[str]) -> bool:
        """Whether all keys are there."""
        return self.underlying_store.check([self._key(key) for key in keys])

    def delete_key(self, key: str) -> bool:
        """Take a key away; whether it was there."""
        return self.underlying_store.delete_key(self._key(key))

    def num_keys(self) -> int:
        """How many keys there are, those of others too."""
        return self.underlying_store.num_keys()


class TCPStore(Store):
    """Keys and values that one process keeps and others reach by a port.

    Lines of JSON travel; nothing that comes in is run.
    """

    def __init__(
        self,
        host_name: str,
        port: int,
        world_size: int | None = None,
        is_master: bool = False,
        timeout: timedelta | None = None,
        wait_for_workers: bool = True,
        multi_tenant: bool = False,
        **_: Any,
    ) -> None:
        self.timeout = Store.timeout if timeout is None else timeout
        self._lock = threading.Lock()
        self._server = _serve(host_name, port) if is_master else None
        if self._server is not None:
            port = self._server.server_address[1]
            threading.Thread(target=self._server.serve_forever, daemon=True).start()
        self.host, self.port = host_name, port
        with self._connect() as connection:  # which remains open until its file is closed
            self._file = connection.makefile("rw")
        if world_size is not None and wait_for_workers:
            self._await_workers(world_size)

    def _connect(self) -> socket.socket:
        end = time.monotonic() + self.timeout.total_seconds()
        while True:
            try:
                return socket.create_connection((self.host, self.port), timeout=5)
            except OSError as error:
                if time.monotonic() > end:
                    raise DistNetworkError(
                        f"no store at {self.host}:{self.port}: {error}; one process makes it with "
                        "is_master=True"
                    ) from error
                time.sleep(0.02)

    def _await_workers(self, world_size: int) -> None:
        self.add("/workers", 1)
        end = time.monotonic() + self.timeout.total_seconds()
        while self.add("/workers", 0) < world_size:
            if time.monotonic() > end:
                raise DistStoreError(f"fewer than {world_size} processes came to the store")
            time.sleep(0.005)

    def _ask(self, method: str, *args: Any) -> Any:
        with self._lock:
            self._file.write(json.dumps([method, *args]) + "\n")
            self._file.flush()
            line = self._file.readline()
        if not line:
            raise DistNetworkError(f"the store at {self.host}:{self.port} has gone")
        return json.loads(line)

    def set(self, key: str, value: str | bytes) -> None:
        """Set a value."""
        self._ask("set", key, _text(value))

    def append(self, key: str, value: str | bytes) -> None:
        """Put more behind a value, empty at first."""
        self._ask("append", key, _text(value))

    def get(self, key: str) -> bytes:
        """The value, as soon as somebody has set it."""
        self.wait([key])
        return str(self._ask("get", key)).encode("latin-1")

    def add(self, key: str, amount: int) -> int:
        """Add to a number, 0 at first; the sum."""
        return int(self._ask("add", key, amount))

    def compare_set(self, key: str, expected_value: str, desired_value: str) -> bytes:
        """Set a value if the old one is `expected_value`; the value then."""
        got = self._ask("compare_set", key, _text(expected_value), _text(desired_value))
        return str(got).encode("latin-1")

    def check(self, keys: Sequence[str]) -> bool:
        """Whether all keys are there."""
        return bool(self._ask("check", list(keys)))

    def delete_key(self, key: str) -> bool:
        """Take a key away; whether it was there."""
        return bool(self._ask("delete_key", key))

    def num_keys(self) -> int:
        """How many keys there are."""
        return int(self._ask("num_keys"))


def _serve(host: str, port: int) -> _Server:
    try:
        return _Server((host, port), _Answers)
    except OSError as error:
        raise DistNetworkError(
            f"The server socket has failed to listen on {host}:{port}: {error}.\n  fix: another "
            "MASTER_PORT, or end what uses this one"
        ) from error


class _Server(socketserver.ThreadingTCPServer):
    """What the master of a `TCPStore` runs."""

    allow_reuse_address = True
    daemon_threads = True

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.store = HashStore()


class _Answers(socketserver.StreamRequestHandler):
    """Answers one process, line by line."""

    server: _Server
    _METHODS = ("set", "append", "get", "add", "compare_set", "check", "delete_key", "num_keys")

    def handle(self) -> None:
        """Answer until it goes."""
        for line in self.rfile:
            method, *args = json.loads(line)
            if method not in self._METHODS:
                return
            values = [a.encode("latin-1") if isinstance(a, str) else a for a in args[1:]]
            answer = getattr(self.server.store, method)(*args[:1], *values)
            text = _text(answer) if isinstance(answer, bytes) else answer
            self.wfile.write(json.dumps(text).encode() + b"\n")
