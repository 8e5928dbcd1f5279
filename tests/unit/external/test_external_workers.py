"""Evaluations on threads, processes and the executors of others; and what goes wrong there."""

from __future__ import annotations

import concurrent.futures as cf
import gc
import importlib.util
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import adjoint as ad
from adjoint import _mpiexec
from tests.children import WITH_CHECKOUT


def cube(x: Any) -> Any:
    return x**3


def gradient(f: Any, n: int = 4) -> Any:
    x = ad.tensor(np.linspace(0.5, 1.5, n), requires_grad=True)
    f(x).sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), 3 * x.detach().numpy() ** 2, rtol=1e-7)


@pytest.mark.parametrize("workers", [None, 2, "threads"])
def test_where_evaluations_run_does_not_matter(workers: Any) -> None:
    f = ad.external(lambda x: x**3, workers=workers)
    gradient(f)
    gradient(f)
    f.close()


def test_any_executor_will_do() -> None:
    with cf.ThreadPoolExecutor(2) as pool:
        gradient(ad.external(lambda x: x**3, workers=pool))
    with cf.ProcessPoolExecutor(2, multiprocessing.get_context("forkserver")) as processes:
        gradient(ad.external(cube, workers=processes, probe=False))


@ad.external(probe=False)
def decorated(x: Any) -> Any:
    return x**3


def test_a_decorated_function_is_sent_by_its_name() -> None:
    with cf.ProcessPoolExecutor(1, multiprocessing.get_context("forkserver")) as pool:
        gradient(ad.external(decorated.function, workers=pool, probe=False))


def test_an_argument_that_cannot_be_sent_says_so(capfd: pytest.CaptureFixture[str]) -> None:
    class Local(NamedTuple):
        k: Any

    f = ad.external(lambda p: p.k**3, workers=1, probe=False)
    with pytest.raises(ad.external.EvaluationError, match="cannot be sent to the workers"):
        f(Local(ad.ones(2, dtype=ad.float64, requires_grad=True))).sum().backward()
    f.close()
    assert capfd.readouterr().err == ""


def test_a_function_that_cannot_be_sent_says_so() -> None:
    with cf.ProcessPoolExecutor(1, multiprocessing.get_context("forkserver")) as pool:
        f = ad.external(lambda x: x**3, workers=pool, probe=False)
        with pytest.raises(ad.external.EvaluationError, match="cannot be sent to the workers"):
            gradient(f)


def test_evaluations_run_together(tmp_path: Path) -> None:
    parent = os.getpid()

    def meets_another(x: Any) -> Any:
        if os.getpid() != parent:
            (tmp_path / str(os.getpid())).touch()
            if not eventually(lambda: len(list(tmp_path.iterdir())) == 2, 60):
                raise TimeoutError("no other evaluation runs")
        return x**3

    f = ad.external(meets_another, workers=2, step=1e-5)
    gradient(f, 4)
    f.close()


def children() -> set[int]:
    return {p.pid for p in multiprocessing.active_children() if p.pid is not None}


def eventually(true: Callable[[], bool], seconds: float = 10) -> bool:
    """Whether it comes true soon: a process that was ended takes a moment to go."""
    deadline = time.perf_counter() + seconds
    while not true() and time.perf_counter() < deadline:
        gc.collect()
        time.sleep(0.02)
    return true()


def test_a_pool_ends_with_its_external() -> None:
    f = ad.external(cube, workers=2)
    gradient(f)
    mine = children()
    assert len(mine) >= 2
    del f
    assert eventually(lambda: not children() & mine)


def failing(kind: str) -> Any:
    parent = os.getpid()

    def f(x: Any) -> Any:
        if x[1] > 1 and os.getpid() != parent:
            if kind == "raise":
                raise ArithmeticError("diverged")
            if kind == "die":
                os.kill(os.getpid(), signal.SIGKILL)
            time.sleep(60)
        return x

    return f


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("raise", r"f failed at x\[1\] \+ 0.001: ArithmeticError: diverged"),
        ("die", "a worker process died while f was evaluated"),
        ("hang", r"f did not return within timeout=0.5 s at x\[1\] \+ 0.001 and was ended"),
    ],
)
def test_what_goes_wrong_in_a_worker_is_one_clear_error(kind: str, message: str) -> None:
    f = ad.external(failing(kind), workers=2, timeout=0.5, step=1e-3)
    before = children()
    x = ad.tensor([0.5, 1.0, 0.7], dtype=ad.float64, requires_grad=True)
    y = f(x)
    with pytest.raises(ad.external.EvaluationError, match=message):
        y.sum().backward()
    assert x.grad is None
    assert eventually(lambda: children() <= before)


def test_the_choice_of_steps_does_not_wait_again_and_again() -> None:
    """One wait for the probe, one for the differences: not one for every step."""
    f = ad.external(failing("hang"), workers=1, timeout=0.2)
    waits = []
    wait = f.workers._wait

    def counted(future: Any) -> Any:
        try:
            return wait(future)
        except TimeoutError:
            waits.append(future)
            raise

    f.workers._wait = counted  # type: ignore[method-assign]
    x = ad.tensor([0.5, 1.0, 0.7], dtype=ad.float64, requires_grad=True)
    with pytest.raises(ad.external.EvaluationError, match=r"did not return within timeout=0\.2 s"):
        f(x).sum().backward()
    assert len(waits) == 2


def test_a_failed_evaluation_is_tried_again(tmp_path: Path) -> None:
    mark, parent = tmp_path / "mark", os.getpid()

    def f(x: Any) -> Any:
        if os.getpid() != parent and not mark.exists():
            mark.touch()
            raise ArithmeticError("once")
        return x**3

    g = ad.external(f, workers=1, retries=2, step=1e-5)
    gradient(g)
    g.close()


def _failing_once(kind: str, mark: Path) -> Callable[[Any], Any]:
    """Hangs or dies in one evaluation of a worker, the first that finds no mark."""
    here = os.getpid()

    def f(x: Any) -> Any:
        if os.getpid() != here:
            try:
                mark.touch(exist_ok=False)
            except FileExistsError:
                return x**3
            if kind == "dies":
                os.kill(os.getpid(), signal.SIGKILL)
            time.sleep(600)
        return x**3

    return f


@pytest.mark.parametrize("kind", ["hangs", "dies"])
def test_an_evaluation_that_is_lost_is_made_again(kind: str, tmp_path: Path) -> None:
    timeout = 3.0 if kind == "hangs" else None
    f = ad.external(
        _failing_once(kind, tmp_path / "mark"), workers=2, timeout=timeout, retries=1, probe=False
    )
    gradient(f)
    assert (tmp_path / "mark").exists()
    gradient(f)
    f.close()


class Silent(cf.Executor):
    """Does not tell when an evaluation starts, as Dask's executor does not."""

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Any:
        silent: cf.Future[Any] = cf.Future()

        def run() -> None:
            result = fn(*args, **kwargs)
            if not silent.cancelled():
                silent.set_result(result)

        threading.Thread(target=run).start()
        return silent


@pytest.mark.parametrize("workers", ["threads", Silent()])
def test_a_hung_thread_is_reported(workers: Any) -> None:
    stop = threading.Event()
    main = threading.get_ident()

    def f(x: Any) -> Any:
        if threading.get_ident() != main:
            stop.wait(20)
        return x

    try:
        g = ad.external(f, workers=workers, timeout=0.2, step=1e-3)
        with pytest.raises(ad.external.EvaluationError, match="it may still run"):
            g(ad.tensor([1.0], requires_grad=True)).sum().backward()
    finally:
        stop.set()


INTERRUPTED = r"""
import adjoint as ad, time, sys, os
def f(x):
    if os.getpid() != parent:
        os.write(1, b"%d\n" % os.getpid())  # in one piece: two workers share the pipe
        time.sleep(60)
    return x
parent = os.getpid()
x = ad.ones(4, dtype=ad.float64, requires_grad=True)
y = ad.external(f, workers=2, step=1e-3)(x)
try:
    y.sum().backward()
except KeyboardInterrupt:
    print("stopped", flush=True)
"""


def test_ctrl_c_stops_cleanly() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", INTERRUPTED],
        stdout=subprocess.PIPE,
        text=True,
        env=WITH_CHECKOUT,
        start_new_session=True,
    ) as process:
        assert process.stdout is not None
        workers = [int(process.stdout.readline()) for _ in range(2)]
        os.killpg(process.pid, signal.SIGINT)
        rest, _ = process.communicate(timeout=20)
    assert "stopped" in rest and process.returncode == 0
    assert eventually(lambda: not any(Path(f"/proc/{pid}").exists() for pid in workers))


def test_a_progress_bar_can_be_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    gradient(ad.external(cube, progress=True, step=1e-5))
    assert "derivative of cube" in capsys.readouterr().err


# --- the executors of others, on the real thing ---------------------------------------------------


def run(code: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        timeout=120,
        env=WITH_CHECKOUT,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


CHECK = (
    "from tests.unit.external.test_external_workers import cube, gradient; import adjoint as ad\n"
)


@pytest.mark.slow
def test_dask() -> None:
    pytest.importorskip("distributed")
    assert "fine" in run(
        CHECK + "from distributed import Client, LocalCluster\n"
        "if __name__ == '__main__':\n"
        "    with LocalCluster(2, processes=False, dashboard_address=None) as c:\n"
        "        with Client(c) as client:\n"
        "            gradient(ad.external(cube, workers=client.get_executor()))\n"
        "            print('fine')\n"
    )


@pytest.mark.slow
def test_ray() -> None:
    pytest.importorskip("ray")
    assert "fine" in run(
        CHECK + "with ad.parallel.RayExecutor() as pool:\n"
        "    gradient(ad.external(cube, workers=pool)); print('fine')\n"
    )


@pytest.mark.slow
def test_mpi(tmp_path: Path) -> None:
    pytest.importorskip("mpi4py")
    if _mpiexec.find() is None:
        pytest.skip("no mpiexec")
    script = tmp_path / "mpi_check.py"
    script.write_text(
        CHECK + "from mpi4py.futures import MPIPoolExecutor\n"
        "if __name__ == '__main__':\n"
        "    with MPIPoolExecutor() as pool:\n"
        "        gradient(ad.external(cube, workers=pool)); print('fine')\n"
    )
    done = subprocess.run(
        [str(_mpiexec.find()), "-n", "3", sys.executable, "-m", "mpi4py.futures", str(script)],
        capture_output=True,
        text=True,
        timeout=120,
        env=WITH_CHECKOUT | _mpiexec.OPEN_MPI,
        check=False,
    )
    assert done.returncode == 0 and "fine" in done.stdout, done.stderr


def test_ray_is_asked_for_when_it_is_missing() -> None:
    if importlib.util.find_spec("ray") is not None:
        pytest.skip("ray is installed")
    with pytest.raises(ImportError, match="pip install ray"):
        ad.parallel.RayExecutor()


# --- batches -------------------------------------------------------------------------------------


def test_the_samples_of_a_batch_run_on_the_workers() -> None:
    from adjoint.func import grad, vmap

    def f(x: Any) -> Any:
        return np.sin(x) * x.sum(), float(os.getpid())

    def plain(x: Any) -> Any:
        return x.sin() * x.sum()

    e = ad.external(f, workers=2, nondifferentiable=[1])
    rows = ad.tensor([[0.1, 0.2], [0.3, 0.4], [0.5, 0.6]], dtype=ad.float64)
    values, pids = vmap(e)(rows)
    np.testing.assert_allclose(values, vmap(plain)(rows), 1e-14)
    assert os.getpid() not in {int(p) for p in pids}
    assert e.evaluator.count == 3
    found = vmap(grad(lambda x: e(x)[0].sum()))(rows)
    np.testing.assert_allclose(found, vmap(grad(lambda x: plain(x).sum()))(rows), 1e-7)
    twice = vmap(vmap(lambda x, k: e(k * x)[0], (0, None)), (None, 0))
    factors = ad.tensor([1.0, 2.0], dtype=ad.float64)
    expected = vmap(vmap(lambda x, k: plain(k * x), (0, None)), (None, 0))(rows, factors)
    np.testing.assert_allclose(twice(rows, factors), expected, 1e-14)
    e.close()


def test_a_sample_that_fails_is_named() -> None:
    from adjoint.func import vmap

    def f(x: Any) -> Any:
        if x[0] > 0.4:
            raise ValueError("too large")
        return x

    e = ad.external(f, workers=2)
    rows = ad.tensor([[0.1], [0.3], [0.5]], dtype=ad.float64)
    with pytest.raises(ad.external.EvaluationError, match=r"sample 2 of the batch.*too large"):
        vmap(e)(rows)
    e.close()


def test_a_with_block_ends_the_workers() -> None:
    def own() -> set[int | None]:  # those of other tests may not be collected yet
        return {child.pid for child in multiprocessing.active_children()} - others

    others: set[int | None] = set()
    others = own()
    x = ad.tensor([2.0], dtype=ad.float64, requires_grad=True)
    with ad.external(cube, workers=1) as f:
        (slope,) = ad.autograd.grad(f(x).sum(), x)
        assert own()
    assert abs(slope.item() - 12) < 1e-6
    assert not own()
