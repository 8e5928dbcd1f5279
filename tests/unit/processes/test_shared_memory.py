"""Memory that processes share: what moves, what is refused, what arrives, what is left behind."""

from __future__ import annotations

import multiprocessing as mp
import os
import pickle
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from tests.children import ADJOINT, ENVIRONMENT

METHODS = ("fork", "spawn", "forkserver")


def left_behind() -> list[str]:
    return [name for name in os.listdir("/dev/shm") if name.startswith("adjoint-")]


def script(code: str, tmp_path: Path, *arguments: str) -> str:
    """What a program prints; it must end well. A file, since spawned processes import it."""
    path = tmp_path / "program.py"
    path.write_text(textwrap.dedent(code))
    out = subprocess.run(
        [sys.executable, str(path), *arguments], env=ENVIRONMENT,
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert out.returncode == 0, out.stderr[-3000:]
    assert "Traceback" not in out.stderr and "leaked" not in out.stderr, out.stderr
    return out.stdout


# --- moving ---------------------------------------------------------------------------------------
def test_all_tensors_on_the_storage_move() -> None:
    x = ad.arange(6.0)
    row, turned, raw = x[2:4], x.view(2, 3).t(), x.view(ad.int32)
    assert not x.is_shared()
    assert x.share_memory_() is x
    assert all(t.is_shared() for t in (x, row, turned, raw, x[1:], x.detach()))
    assert turned.tolist() == [[0, 3], [1, 4], [2, 5]]
    x[2] = 9.0
    assert row[0] == 9.0 and turned[2, 0] == 9.0
    assert x.untyped_storage().is_shared() and not x.clone().is_shared()
    address = x.data_ptr()
    assert x.share_memory_().data_ptr() == address


def test_the_graph_goes_on() -> None:
    x = ad.ones(3, requires_grad=True)
    y = (x * x).sum()  # keeps x for its gradient
    x.share_memory_()
    y.backward()
    assert x.is_shared() and x.grad is not None and x.grad.tolist() == [2.0, 2.0, 2.0]
    z = (x.exp() * 2).sum()
    with ad.no_grad():
        x.add_(1)
    z.backward()
    w = ad.ones(2, requires_grad=True)
    kept = (w * w).sum()
    version = w._version
    w.share_memory_()
    assert w._version == version
    with ad.no_grad():
        w.add_(1)
    with pytest.raises(RuntimeError, match="changed in place"):
        kept.backward()


def test_modules_move_with_buffers_and_gradients() -> None:
    model = ad.nn.Sequential(ad.nn.Linear(2, 2), ad.nn.BatchNorm1d(2))
    model(ad.ones(3, 2)).sum().backward()
    parameters = list(model.parameters())
    assert model.share_memory() is model
    assert all(p.is_shared() and p.grad is not None and p.grad.is_shared() for p in parameters)
    assert all(b.is_shared() for b in model.buffers())
    assert [id(p) for p in model.parameters()] == [id(p) for p in parameters]


def test_parts_of_one_memory_move_together() -> None:
    flat = ad.zeros(6)
    a, b = ad.nn.Parameter(flat[:2]), ad.nn.Parameter(flat[2:])
    a.share_memory_()
    with ad.no_grad():
        a.fill_(1.0)
    assert b.is_shared() and flat.tolist() == [1, 1, 0, 0, 0, 0]


def test_memory_of_others_is_refused() -> None:
    array = np.zeros(3)
    for t in (ad.from_numpy(array), ad.frombuffer(bytearray(8), dtype=ad.uint8)):
        with pytest.raises(
            RuntimeError, match=r"belongs to an array.*\n.*clone\(\)\.share_memory_"
        ):
            t.share_memory_()
        assert not t.is_shared() and t.clone().share_memory_().is_shared()
    x = ad.zeros(3)
    seen = x.numpy()
    with pytest.raises(RuntimeError, match="a NumPy array, another library or a running operation"):
        x.share_memory_()
    x[0] = 1.0
    assert seen[0] == 1.0 and not x.is_shared()
    del seen
    assert x.share_memory_().is_shared()


def test_tensors_without_elements_have_nothing_to_share() -> None:
    assert ad.ones(0).share_memory_().tolist() == []


def test_shared_memory_is_freed() -> None:
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(50):
        ad.ones(1000).share_memory_()
    assert len(os.listdir("/proc/self/fd")) == before


def test_too_many_files_are_said_to_be_too_many() -> None:
    code = """
        import resource, adjoint as ad
        resource.setrlimit(resource.RLIMIT_NOFILE, (40, 40))
        held = []
        try:
            for _ in range(60):
                held.append(ad.ones(2).share_memory_())
        except RuntimeError as error:
            print(error)
    """
    out = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True,
                         text=True, env=ENVIRONMENT)  # fmt: skip
    assert "too many open files" in out.stdout and "ulimit -n" in out.stdout


def test_a_full_folder_is_no_bus_error(tmp_path: Path, monkeypatch: Any) -> None:
    """Containers often have 64 MB of /dev/shm; a mapped page that is missing would be fatal."""
    from adjoint._sharing import memory as _shared_memory

    if (
        os.geteuid() != 0
        or subprocess.run(
            ["mount", "-t", "tmpfs", "-o", "size=64k", "none", str(tmp_path)], capture_output=True
        ).returncode
    ):
        pytest.skip("mounting is not allowed")
    try:
        monkeypatch.setattr(_shared_memory, "FOLDER", str(tmp_path))
        x = ad.ones(100_000).share_memory_()
        x.add_(1)
        assert x.is_shared() and x.sum() == 200_000
    finally:
        subprocess.run(["umount", str(tmp_path)], check=True)


def test_plain_pickles_are_copies() -> None:
    for x in (ad.ones(2).share_memory_(), ad.nn.Parameter(ad.ones(2)), ad.arange(6).view(2, 3).t()):
        y = pickle.loads(pickle.dumps(x))
        assert type(y) is type(x) and y.tolist() == x.tolist() and not y.is_shared()
        assert y.stride() == x.stride() and y.requires_grad == x.requires_grad


# --- sending --------------------------------------------------------------------------------------
def add(x: Any, n: float) -> None:
    with ad.no_grad():
        x.add_(n)


def put(queue: Any, n: int) -> None:
    queue.put([ad.full((n,), float(i)) for i in range(3)])


def take(requests: Any, answers: Any) -> None:
    for x in iter(requests.get, None):
        add(x, 1.0)
        answers.put((x.is_shared(), x.requires_grad, type(x).__name__, x.stride()))


@pytest.mark.parametrize("method", METHODS)
def test_processes_write_into_the_same_memory(method: str) -> None:
    context = mp.get_context(method)
    x = ad.zeros(4).share_memory_()
    parts = [x, x[1:3], ad.nn.Parameter(ad.zeros(2)).share_memory_()]
    for part in parts:
        process = context.Process(target=add, args=(part, 2.0))
        process.start()
        process.join(60)
        assert process.exitcode == 0
    assert x.tolist() == [2.0, 4.0, 4.0, 2.0] and parts[2].tolist() == [2.0, 2.0]


@pytest.mark.parametrize("method", METHODS)
def test_tensors_in_queues_arrive_on_the_same_memory(method: str) -> None:
    context = mp.get_context(method)
    requests, answers = context.Queue(), context.Queue()
    process = context.Process(target=take, args=(requests, answers))
    process.start()
    sent = [
        ad.zeros(3), ad.zeros(2, 3).t(), ad.zeros(6)[2:4], ad.nn.Parameter(ad.zeros(2)),
        ad.zeros(2, requires_grad=True), ad.zeros(2).to(ad.bfloat16), ad.from_numpy(np.zeros(2)),
    ]  # fmt: skip
    for x in sent:
        requests.put(x)
        shared, requires_grad, kind, stride = answers.get(timeout=60)
        assert shared and requires_grad == x.requires_grad and kind == type(x).__name__
        assert stride == x.stride()
    for x in sent[:-1]:
        assert x.is_shared() and x.detach().float().sum() == x.numel()
    assert sent[-1].tolist() == [0.0, 0.0]  # NumPy's memory is not moved: that one was a copy
    requests.put(None)
    process.join(60)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("n", [3, 100_000])
def test_a_sender_may_end_first(method: str, n: int) -> None:
    context = mp.get_context(method)
    queue = context.Queue()
    process = context.Process(target=put, args=(queue, n))
    process.start()
    process.join(60)
    assert process.exitcode == 0
    found = queue.get(timeout=60)
    assert [x.sum().item() for x in found] == [0.0, n, 2.0 * n]
    found[1].add_(1)
    assert found[1][0] == 2.0


def put_many(queue: Any, n: int) -> None:
    for i in range(n):
        queue.put(ad.full((2,), float(i)))


@pytest.mark.parametrize("method", METHODS)
def test_a_sender_may_end_while_its_queue_is_full(method: str) -> None:
    """More than a pipe holds: the sender waits for the receiver among the last things it does."""
    context = mp.get_context(method)
    queue = context.Queue()
    process = context.Process(target=put_many, args=(queue, 400))
    process.start()
    time.sleep(0.5)
    assert [queue.get(timeout=60)[0].item() for _ in range(400)] == list(range(400))
    process.join(60)
    assert process.exitcode == 0 and left_behind() == []


def write_both(whole: Any, part: Any, array: Any) -> None:
    whole[0] = 1.0
    part[0] = 2.0
    assert array.tolist() == [3.0, 4.0]


@pytest.mark.parametrize("method", METHODS)
def test_arguments_may_share_memory_or_be_copies(method: str) -> None:
    x, array = ad.zeros(3), np.array([3.0, 4.0])
    process = mp.get_context(method).Process(
        target=write_both, args=(x.share_memory_(), x[1:], ad.from_numpy(array))
    )
    process.start()
    process.join(60)
    assert process.exitcode == 0 and x.tolist() == [1.0, 2.0, 0.0]


def doubled(x: Any) -> Any:
    add(x, 1.0)
    return x * 2


@pytest.mark.parametrize("method", METHODS)
def test_pools_share_arguments_and_results(method: str) -> None:
    with mp.get_context(method).Pool(2) as pool:
        x = [ad.full((3,), float(i)) for i in range(20)]
        found = pool.map(doubled, x)
    assert [y[0].item() for y in found] == [2.0 * (i + 1) for i in range(20)]
    assert [y[0].item() for y in x] == [i + 1.0 for i in range(20)]


def test_one_memory_is_mapped_once() -> None:
    x = ad.zeros(6)
    one, other = mp.Pipe()
    one.send([x, x[2:], x])
    a, b, c = other.recv()
    assert a is c and a.data_ptr() == x.data_ptr() and b.data_ptr() == x[2:].data_ptr()
    one.send(x)
    assert other.recv().data_ptr() == x.data_ptr()


def test_a_tensor_with_a_history_is_refused() -> None:
    one, _ = mp.Pipe()
    with pytest.raises(RuntimeError, match="Cowardly refusing to serialize non-leaf tensor"):
        one.send(ad.ones(2, requires_grad=True) * 2)


class Tagged(ad.Tensor):
    """A tensor of the user's."""


def test_subclasses_and_attributes_arrive() -> None:
    one, other = mp.Pipe()
    x = ad.ones(2).as_subclass(Tagged)
    x.tag = "a"
    one.send(x)
    y = other.recv()
    assert type(y) is Tagged and y.tag == "a" and y.data_ptr() == x.data_ptr()


# --- ends -----------------------------------------------------------------------------------------
def test_a_killed_sender_is_named(tmp_path: Path) -> None:
    code = """
        import multiprocessing as mp, os, signal
        import adjoint as ad

        def put(pipe):
            pipe.send(ad.ones(3))
            os.kill(os.getpid(), signal.SIGKILL)

        if __name__ == "__main__":
            for method in ("fork", "spawn"):
                context = mp.get_context(method)
                ours, theirs = context.Pipe()
                process = context.Process(target=put, args=(theirs,))
                process.start()
                process.join()
                try:
                    ours.recv()
                except RuntimeError as error:
                    print(error)
    """
    shown = script(code, tmp_path)
    assert shown.count("the process that sent a tensor ended before it was received") == 2


@pytest.mark.parametrize("end", ["pass", "os.kill(os.getpid(), 9)", "raise SystemExit"])
def test_what_nobody_received_is_removed(end: str, tmp_path: Path) -> None:
    """Also when the receiver is killed with tensors of ended senders on the way."""
    code = f"""
        import multiprocessing as mp, os, signal, sys, time
        import adjoint as ad

        def put(queue):
            queue.put(ad.ones(1000))

        def nested(queue):
            process = mp.get_context("fork").Process(target=put, args=(queue,))
            process.start()
            process.join()

        def main(method):
            context = mp.get_context(method)
            queue = context.Queue()
            for target in (put, nested):
                process = context.Process(target=target, args=(queue,))
                process.start()
                process.join()
            held = ad.ones(10).share_memory_()
            print(*(name for name in os.listdir("/dev/shm") if "adjoint-" in name), flush=True)
            {end}

        if __name__ == "__main__":
            main(sys.argv[1])
    """
    path = tmp_path / "program.py"
    path.write_text(textwrap.dedent(code))
    left = set()
    for method in ("fork", "spawn"):
        out = subprocess.run([sys.executable, str(path), method], timeout=120, capture_output=True,
                             text=True, env=ENVIRONMENT)  # fmt: skip
        assert len(out.stdout.split()) >= 2, out.stderr  # the files that nobody came for
        left |= set(out.stdout.split())
    # The tracker of spawned processes needs a moment; heirs that were killed are swept by the next.
    subprocess.run(
        [sys.executable, "-c", "import multiprocessing, adjoint as ad\n"
         "a, b = multiprocessing.Pipe(); a.send(ad.ones(1))"],
        env=ENVIRONMENT, check=True,
    )  # fmt: skip
    deadline = time.monotonic() + 10
    while left & set(left_behind()) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert left & set(left_behind()) == set()


def test_spawned_processes_have_the_alias(tmp_path: Path) -> None:
    code = """
        import torch
        import torch.multiprocessing as mp

        def note(i, x):
            x[i] = 1.0 if torch.__version__.endswith("adjoint") else -1.0

        if __name__ == "__main__":
            for method in ("spawn", "forkserver", "fork"):
                x = torch.zeros(2).share_memory_()
                mp.start_processes(note, (x,), nprocs=2, start_method=method)
                print(x.tolist())
    """
    path = tmp_path / "program.py"
    path.write_text(textwrap.dedent(code))
    begun = "import sys; sys.path.insert(0, sys.argv.pop(1)); from adjoint.cli import main; "
    for command in (["-m", "adjoint"], ["-c", begun + "sys.exit(main())", str(ADJOINT)]):
        environment = dict(ENVIRONMENT)
        if command[0] == "-c":  # adjoint is found by sys.path alone, which the child has not got
            del environment["PYTHONPATH"]
        out = subprocess.run([sys.executable, *command, "run", str(path)], capture_output=True,
                             text=True, timeout=120, env=environment)  # fmt: skip
        assert out.stdout.split("\n")[:3] == ["[1.0, 1.0]"] * 3, out.stderr[-2000:]


def test_a_guarded_install_holds_in_children(tmp_path: Path) -> None:
    code = """
        import multiprocessing as mp

        def version(_):
            import torch
            return torch.__version__

        if __name__ == "__main__":
            import adjoint
            adjoint.install_as_torch()
            adjoint.install_as_torch()
            with mp.get_context("spawn").Pool(1) as pool:
                print(pool.map(version, [1]))
    """
    assert "+adjoint" in script(code, tmp_path)


def test_what_a_fork_server_imports_has_the_alias(tmp_path: Path) -> None:
    (tmp_path / "ahead.py").write_text("import torch\n")
    code = """
        import multiprocessing as mp

        def version(_):
            import ahead
            return ahead.torch.__version__

        if __name__ == "__main__":
            import adjoint
            adjoint.install_as_torch()
            mp.set_forkserver_preload(["ahead"])
            with mp.get_context("forkserver").Pool(1) as pool:
                print(pool.map(version, [1]))
    """
    assert "+adjoint" in script(code, tmp_path)


def _fill(queue: Any) -> None:
    make, arguments = queue.get()
    make(*arguments).fill_(3)


def test_a_tensor_taken_apart_is_made_on_the_same_memory_elsewhere() -> None:
    from adjoint.multiprocessing import reductions

    context = mp.get_context("fork")
    queue, x = context.Queue(), ad.zeros(4)
    taken = reductions.reduce_tensor(x)
    taken[0](*taken[1]).fill_(1)
    assert x.tolist() == [1] * 4
    process = context.Process(target=_fill, args=(queue,))
    process.start()
    queue.put(taken)
    process.join(60)
    assert process.exitcode == 0 and x.tolist() == [3] * 4
    parameter = reductions.reduce_tensor(ad.nn.Parameter(ad.ones(1)))
    made = parameter[0](*parameter[1])
    assert isinstance(made, ad.nn.Parameter) and made.requires_grad
    with pytest.raises(RuntimeError, match="non-leaf"):
        reductions.reduce_tensor(ad.ones(1, requires_grad=True) * 2)
