"""Where members run: here, in processes of our own, or on somebody's executor.

A *place* is asked for by number. Where an engine can be told which of its workers is meant (a
process of our own, a worker of Dask's, an actor of Ray's), the same number is the same worker, and
finds the graph that it kept. Elsewhere numbers mean nothing, and a graph that is not found is
computed again.
"""

from __future__ import annotations

import concurrent.futures as cf
import fcntl
import multiprocessing
import os
import select
import signal
from collections.abc import Callable
from typing import Any

__all__ = ["Here", "Places", "Processes", "places_of"]


class Here:
    """The process itself, one member after the other."""

    count = 1
    is_addressed = True
    is_elsewhere = False
    knows_main = True

    def submit(self, place: int, function: Callable[..., Any], *args: Any) -> cf.Future[Any]:
        """Run it at once."""
        future: cf.Future[Any] = cf.Future()
        try:
            future.set_result(function(*args))
        except BaseException as error:
            if not isinstance(error, Exception):
                raise
            future.set_exception(error)
        return future

    def tell(self, place: int, function: Callable[..., Any], *args: Any) -> None:
        """There is nobody else to be told."""

    def stop(self) -> None:
        """Nothing runs."""

    def close(self) -> None:
        """Nothing is open."""


class Places:
    """Workers that are asked for by number.

    Parameters
    ----------
    count
        How many there are; numbers beyond it begin again.
    start
        Makes the worker of a number: something with ``submit`` and ``shutdown``.
    """

    is_addressed = True
    is_elsewhere = True
    knows_main = True  # whether the script that runs here can be imported there

    def __init__(self, count: int, start: Callable[[int], Any]) -> None:
        self.count = count
        self._start = start
        self._workers: dict[int, Any] = {}

    def submit(self, place: int, function: Callable[..., Any], *args: Any) -> cf.Future[Any]:
        """Run it on one worker; one that died is started anew."""
        place %= self.count
        if place not in self._workers:
            self._workers[place] = self._start(place)
        try:
            return self._workers[place].submit(function, *args)  # type: ignore[no-any-return]
        except cf.BrokenExecutor:
            self._workers.pop(place).shutdown(wait=False)
            return self.submit(place, function, *args)

    def tell(self, place: int, function: Callable[..., Any], *args: Any) -> None:
        """Run it on a worker that is there; what it would be told is gone with one that is not."""
        if (worker := self._workers.get(place % self.count)) is not None:
            worker.submit(function, *args)

    def stop(self) -> None:
        """Let go of what runs; an engine's workers are the user's."""

    def close(self) -> None:
        """End all workers."""
        for worker in self._workers.values():
            worker.shutdown(wait=False, cancel_futures=True)
        self._workers.clear()


class Processes(Places):
    """Processes of our own, which live until ``close()`` or the end of a ``with`` block.

    `parallel.map` with a number as executor starts processes for that one call; these serve many.

    Parameters
    ----------
    count
        How many.

    Examples
    --------
    >>> import adjoint as ad
    >>> with ad.parallel.Processes(2) as pool:  # doctest: +SKIP
    ...     found = ad.parallel.map(simulate, members, shared=(k,), executor=pool)
    ...     sum(found).backward()
    """

    def __init__(self, count: int) -> None:
        if isinstance(count, bool) or not isinstance(count, int) or count < 1:
            raise ValueError(f"Processes takes a positive number of processes, got {count!r}")
        super().__init__(count, _process)

    def stop(self) -> None:
        """End the processes at once, whatever they do: Python would wait for them at its end."""
        for worker in self._workers.values():
            processes = [*(worker._processes or {}).values()]
            worker.shutdown(wait=False, cancel_futures=True)
            for process in processes:
                process.terminate()
        self._workers.clear()

    def __enter__(self) -> Processes:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class _Anywhere:
    """An executor that chooses the worker itself."""

    is_addressed = False
    is_elsewhere = True
    knows_main = True

    def __init__(self, executor: Any) -> None:
        self._executor = executor
        self.count = max(1, int(getattr(executor, "_max_workers", 0) or 1))

    def submit(self, place: int, function: Callable[..., Any], *args: Any) -> cf.Future[Any]:
        return self._executor.submit(function, *args)  # type: ignore[no-any-return]

    def stop(self) -> None:
        """It is the user's."""

    close = stop


class _DaskWorker:
    """One worker of a Dask cluster."""

    def __init__(self, client: Any, address: str) -> None:
        self._client, self._address = client, address

    def submit(self, function: Callable[..., Any], *args: Any) -> Any:
        options = {"workers": [self._address], "pure": False, "allow_other_workers": True}
        return self._client.submit(function, *args, **options)

    def shutdown(self, **_: Any) -> None:
        """It is the user's."""


class _RayWorker:
    """An actor of Ray's: a process of its own."""

    def __init__(self, ray: Any, options: dict[str, Any]) -> None:
        self._ray = ray
        self._actor = ray.remote(_Actor).options(**options).remote()
        self._is_dead = False

    def submit(self, function: Callable[..., Any], *args: Any) -> Any:
        from ._ray import _RayFuture

        if self._is_dead:
            raise cf.BrokenExecutor("the actor has died")
        reference = self._actor.call.remote(function, args)
        future = _RayFuture(self._ray, reference, is_task=False)
        future.add_done_callback(self._look)
        future.follow()
        return future

    def _look(self, future: cf.Future[Any]) -> None:
        """Whether the actor is still there."""
        self._is_dead |= isinstance(future.exception(), self._ray.exceptions.RayActorError)

    def shutdown(self, **_: Any) -> None:
        self._ray.kill(self._actor)


class _Actor:
    def call(self, function: Callable[..., Any], args: tuple[Any, ...]) -> Any:
        return function(*args)


def places_of(executor: Any) -> tuple[Any, bool]:
    """The places of an executor, and whether they end with the map that uses them."""
    if executor is None:
        return Here(), True
    if isinstance(executor, Places):
        return executor, False
    if isinstance(executor, int):
        return Processes(executor), True
    if not hasattr(executor, "submit"):
        raise TypeError(
            "executor= takes None (here), a number of processes, parallel.Processes, or a "
            "concurrent.futures.Executor (also Dask's Client.get_executor(), MPIPoolExecutor, "
            f"RayExecutor); got {executor!r}"
        )
    found = getattr(executor, "_adjoint_places", None)
    if found is None:
        found = executor._adjoint_places = _of_engine(executor)
    return found, False


def _of_engine(executor: Any) -> Any:
    """Workers by number where the engine has addresses."""
    from ._ray import RayExecutor

    if isinstance(executor, RayExecutor):
        ray = executor._ray
        places = Places(executor._max_workers, lambda _: _RayWorker(ray, {"num_cpus": 1}))
        places.knows_main = False
        return places
    client = getattr(executor, "_client", None)
    if client is not None and hasattr(client, "scheduler_info"):
        addresses = sorted(client.scheduler_info(n_workers=-1)["workers"])
        if addresses:
            return Places(len(addresses), lambda k: _DaskWorker(client, addresses[k]))
    return _Anywhere(executor)


def _process(_: int) -> cf.ProcessPoolExecutor:
    # A server that was started clean: threads of this process are not forked.
    context = multiprocessing.get_context("forkserver")
    return cf.ProcessPoolExecutor(1, context, _end_with_parent)


def _end_with_parent() -> None:
    """Let the kernel end this worker when the process is gone that made the pool, however it ended.

    The worker would first finish its call, and the server, whose child it is, waits for that.
    """
    parent = multiprocessing.parent_process()
    assert parent is not None
    pipe = parent.sentinel  # has an end when the parent has
    fcntl.fcntl(pipe, fcntl.F_SETOWN, os.getpid())
    fcntl.fcntl(pipe, fcntl.F_SETSIG, signal.SIGKILL)
    fcntl.fcntl(pipe, fcntl.F_SETFL, fcntl.fcntl(pipe, fcntl.F_GETFL) | os.O_ASYNC)
    if select.select([pipe], [], [], 0)[0]:  # it was there before
        os.kill(os.getpid(), signal.SIGKILL)
