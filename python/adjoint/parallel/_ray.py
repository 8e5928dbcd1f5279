"""Ray's tasks as a ``concurrent.futures.Executor``."""

from __future__ import annotations

import importlib
import threading
from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import Any

__all__ = ["RayExecutor"]


class RayExecutor(Executor):
    """Run calls as tasks of Ray, for ``external(..., workers=RayExecutor())``.

    Parameters
    ----------
    **options
        Of the tasks, as Ray's ``options`` takes them: ``num_cpus``, ``max_retries``, ...

    Notes
    -----
    Ray is started on this machine if it is not running (``ray.init()`` beforehand connects to a
    cluster); one that was started here is ended by ``shutdown``.
    """

    def __init__(self, **options: Any) -> None:
        try:
            ray: Any = importlib.import_module("ray")
        except ImportError as error:
            raise ImportError(
                "RayExecutor needs Ray, which is not installed; fix: pip install ray"
            ) from error
        self._ray = ray
        self._owns = not ray.is_initialized()
        if self._owns:
            ray.init(log_to_driver=False, include_dashboard=False)
        options.setdefault("max_retries", 0)
        self._task = ray.remote(_call).options(**options)
        self._lock = threading.Lock()
        self._pending: dict[Future[Any], Any] = {}
        self._closed = False
        self._max_workers = max(1, int(ray.cluster_resources().get("CPU", 1)))

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Start a task; the future ends with it."""
        if self._closed:
            raise RuntimeError("cannot schedule new futures after shutdown")
        reference = self._task.remote(fn, args, kwargs)
        future: _RayFuture = _RayFuture(self._ray, reference)
        with self._lock:
            self._pending[future] = reference
        future.add_done_callback(self._forget)
        future.follow()
        return future

    def _forget(self, future: Future[Any]) -> None:
        with self._lock:
            self._pending.pop(future, None)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Refuse new tasks; wait for those that run, or cancel them; end a Ray of our own."""
        self._closed = True
        with self._lock:
            pending = list(self._pending.items())
        for future, reference in pending:
            if cancel_futures:
                self._ray.cancel(reference, force=True)
            elif wait:
                future.exception()
        if self._owns and self._ray.is_initialized():
            self._ray.shutdown()


class _RayFuture(Future[Any]):
    """A future whose cancellation reaches the task."""

    def __init__(self, ray: Any, reference: Any, is_task: bool = True) -> None:
        super().__init__()
        self._ray, self._reference, self._is_task = ray, reference, is_task

    def cancel(self) -> bool:
        """Stop the task, also one that runs; a call of an actor only if it has not begun."""
        if self.done():
            return False
        self._ray.cancel(self._reference, force=self._is_task)
        return True

    def follow(self) -> None:
        """End when Ray's own future does, which may be at once."""
        self.set_running_or_notify_cancel()
        self._reference.future().add_done_callback(self._arrive)

    def _arrive(self, done: Any) -> None:
        """Take over the result of Ray's own future."""
        error = done.exception()
        if error is None:
            self.set_result(done.result())
        else:
            # Ray wraps what the function raised; `external` wants the error itself.
            self.set_exception(getattr(error, "cause", None) or error)


def _call(fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return fn(*args, **kwargs)
