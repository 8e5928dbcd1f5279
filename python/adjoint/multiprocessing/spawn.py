"""`spawn`: a function in several processes, and the error of the first that fails."""

from __future__ import annotations

import multiprocessing
import multiprocessing.connection
import signal
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Sequence
from multiprocessing.process import BaseProcess
from typing import Any

__all__ = [
    "ProcessContext",
    "ProcessException",
    "ProcessExitedException",
    "ProcessRaisedException",
    "SpawnContext",
    "spawn",
    "start_processes",
]

_UNTIL_KILLED = 30.0  # seconds that a process has to end when another one failed


class ProcessException(Exception):
    """A process of `spawn` failed.

    Attributes
    ----------
    error_index : int
        Which process.
    pid : int
        Its process id.
    """

    def __init__(self, msg: str, error_index: int, pid: int) -> None:
        super().__init__(msg)
        self.msg, self.error_index, self.pid = msg, error_index, pid

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.msg, self.error_index, self.pid)

    @property
    def error_pid(self) -> int:
        """The process id."""
        return self.pid


class ProcessRaisedException(ProcessException):
    """The function raised; the message has the traceback."""


class ProcessExitedException(ProcessException):
    """The process ended by an exit code (``exit_code``) or a signal (``signal_name``)."""

    def __init__(
        self, msg: str, error_index: int, pid: int, exit_code: int, signal_name: str | None = None
    ) -> None:
        super().__init__(msg, error_index, pid)
        self.exit_code, self.signal_name = exit_code, signal_name

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (
            self.msg,
            self.error_index,
            self.pid,
            self.exit_code,
            self.signal_name,
        )


def _run(fn: Callable[..., Any], index: int, args: tuple[Any, ...], report: Any) -> None:
    """What a process does."""
    try:
        fn(index, *args)
    except KeyboardInterrupt:
        pass  # the terminal sent it to all; the parent has one too
    except Exception:
        # Short enough for the pipe to hold: nobody reads before this process has ended.
        report.send(traceback.format_exc()[-12_000:])
        sys.exit(1)


class ProcessContext:
    """The processes that `start_processes` started."""

    def __init__(self, processes: Sequence[BaseProcess], reports: Sequence[Any]) -> None:
        self.processes = list(processes)
        self._reports = list(reports)
        self._running = {process.sentinel: i for i, process in enumerate(processes)}

    def pids(self) -> list[int | None]:
        """The process ids."""
        return [process.pid for process in self.processes]

    def join(self, timeout: float | None = None, grace_period: float | None = None) -> bool:
        """Wait for processes to end; call it until it returns True.

        Parameters
        ----------
        timeout : float, optional
            Seconds to wait for the next one.
        grace_period : float, optional
            Seconds that the others may go on after one failed, before they are terminated.

        Returns
        -------
        bool
            Whether all have ended.

        Raises
        ------
        ProcessRaisedException, ProcessExitedException
            One failed. The others are ended first.
        """
        if not self._running:
            return True
        failed = None
        for sentinel in multiprocessing.connection.wait(list(self._running), timeout):
            index = self._running.pop(sentinel)  # type: ignore[arg-type]
            self.processes[index].join()
            if self.processes[index].exitcode and failed is None:
                failed = index
        if failed is None:
            return not self._running
        self._end_others(grace_period)
        raise self._error(failed)

    def _end_others(self, grace_period: float | None) -> None:
        self._wait(grace_period)
        for process in self.processes:
            if process.is_alive():
                process.terminate()
        self._wait(_UNTIL_KILLED)
        for process in self.processes:
            if process.is_alive():
                process.kill()
            process.join()
        self._running.clear()

    def _wait(self, seconds: float | None) -> None:
        end = time.monotonic() + (seconds or 0.0)
        for process in self.processes:
            process.join(max(end - time.monotonic(), 0.0))

    def _error(self, index: int) -> ProcessException:
        process, report = self.processes[index], self._reports[index]
        code, pid = process.exitcode or 0, process.pid or 0
        try:
            text = report.recv() if report.poll() else None
        except (EOFError, OSError):
            text = None
        if text is not None:
            msg = f"\n\n-- Process {index} terminated with the following error:\n{text}"
            return ProcessRaisedException(msg, index, pid)
        if code >= 0:
            msg = f"process {index} terminated with exit code {code}"
            return ProcessExitedException(msg, index, pid, code)
        try:
            name = signal.Signals(-code).name
        except ValueError:
            name = f"<Unknown signal {-code}>"
        msg = f"process {index} terminated with signal {name}"
        return ProcessExitedException(msg, index, pid, code, name)


SpawnContext = ProcessContext


def start_processes(
    fn: Callable[..., Any],
    args: tuple[Any, ...] = (),
    nprocs: int = 1,
    join: bool = True,
    daemon: bool = False,
    start_method: str = "spawn",
) -> ProcessContext | None:
    """Run ``fn(i, *args)`` in processes of any start method; see `spawn`."""
    context = multiprocessing.get_context(start_method)
    processes: list[BaseProcess] = []
    reports = []
    for i in range(nprocs):
        reader, writer = context.Pipe(duplex=False)
        process = context.Process(  # type: ignore[attr-defined]
            target=_run, args=(fn, i, args, writer), daemon=daemon
        )
        process.start()
        writer.close()
        processes.append(process)
        reports.append(reader)
    started = ProcessContext(processes, reports)
    if not join:
        return started
    while not started.join():
        pass
    return None


def spawn(
    fn: Callable[..., Any],
    args: tuple[Any, ...] = (),
    nprocs: int = 1,
    join: bool = True,
    daemon: bool = False,
    start_method: str = "spawn",
) -> ProcessContext | None:
    """Run ``fn(i, *args)`` in ``nprocs`` new processes, i from 0 on.

    Parameters
    ----------
    fn : callable
        A function at the top level of a module.
    args : tuple
        Its further arguments. Tensors among them are shared with the processes.
    nprocs : int, default 1
        How many processes.
    join : bool, default True
        Wait for all of them. Otherwise a `ProcessContext` is returned, to be joined.
    daemon : bool, default False
        Whether they are ended when this process ends.

    Raises
    ------
    ProcessRaisedException, ProcessExitedException
        One failed: with an exception, or by an exit code or a signal. The others are ended.
    """
    if start_method != "spawn":
        warnings.warn(
            f"This method only supports start_method=spawn (got: {start_method}).\n"
            "To use a different start_method use:\n\t\t torch.multiprocessing.start_processes(...)",
            FutureWarning,
            stacklevel=2,
        )
    return start_processes(fn, args, nprocs, join, daemon, start_method="spawn")
