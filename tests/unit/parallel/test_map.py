"""`parallel.map`: results and gradients of a loop, wherever the members run; and its errors."""

from __future__ import annotations

import concurrent.futures as cf
import importlib.util
import os
import random
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import adjoint as ad
from adjoint.parallel import _member
from tests.children import WITH_CHECKOUT

F64 = {"dtype": ad.float64}


class State(NamedTuple):
    place: ad.Tensor
    speed: ad.Tensor


def fly(state: State, k: ad.Tensor, options: dict[str, Any]) -> dict[str, Any]:
    place, speed = state
    for _ in range(options["steps"]):
        speed = speed - 0.1 * k * place.sin()
        place = place + 0.1 * speed
    return {"end": State(place, speed), "energy": (speed**2).sum(), "name": "run"}


def ensemble() -> tuple[list[State], ad.Tensor]:
    ad.manual_seed(1)
    members = [
        State(ad.randn(3, **F64).requires_grad_(), ad.randn(3, **F64).requires_grad_())
        for _ in range(5)
    ]
    return members, ad.tensor([1.5, 0.5, 2.0], requires_grad=True, **F64)


def loss_of(results: list[Any]) -> ad.Tensor:
    weights = ad.arange(1.0, 6.0, **F64)
    return sum(
        w * r["energy"] + r["end"].place.sum() for w, r in zip(weights, results, strict=True)
    )


def gradients(members: list[State], k: ad.Tensor, results: list[Any]) -> list[ad.Tensor]:
    leaves = [leaf for member in members for leaf in member]
    return list(ad.autograd.grad(loss_of(results), [k, *leaves]))


@pytest.fixture(scope="module")
def pool() -> Iterator[ad.parallel.Processes]:
    with ad.parallel.Processes(2) as made:
        yield made


@pytest.fixture(params=["here", "processes", "threads"])
def executor(request: pytest.FixtureRequest, pool: Any) -> Iterator[Any]:
    if request.param == "threads":
        with cf.ThreadPoolExecutor(2) as threads:
            yield threads
    else:
        yield {"here": None, "processes": pool}[request.param]


@pytest.mark.parametrize("keep", [True, False])
def test_results_and_gradients_are_those_of_a_loop(executor: Any, keep: bool) -> None:
    members, k = ensemble()
    shared = (k, {"steps": 4})
    found = ad.parallel.map(fly, members, shared=shared, executor=executor, keep=keep)
    wanted = [fly(member, *shared) for member in members]
    assert [r["name"] for r in found] == ["run"] * 5
    for mine, theirs in zip(found, wanted, strict=True):
        assert ad.equal(mine["end"].place, theirs["end"].place)
    mine, theirs = gradients(members, k, found), gradients(members, k, wanted)
    assert all(map(ad.allclose, mine, theirs))
    assert all(map(ad.equal, mine[1:], theirs[1:]))


def test_bits_do_not_depend_on_where_members_run(pool: Any) -> None:
    members, k = ensemble()
    found = []
    for executor in (None, pool):
        ad.manual_seed(3)
        results = ad.parallel.map(noisy, members, shared=(k,), executor=executor)
        found.append([*results, *ad.autograd.grad(sum(results), [k, members[2].place])])
    assert all(map(ad.equal, *found))
    ad.manual_seed(3)
    again = ad.parallel.map(noisy, members, shared=(k,), keep=False)
    assert ad.equal(ad.autograd.grad(sum(again), k)[0], found[0][-2])  # the same numbers twice
    assert not ad.equal(found[0][0], found[0][1])


def noisy(state: State, k: ad.Tensor) -> ad.Tensor:
    return (k * state.place * ad.randn(3, **F64)).sum() + ad.rand((), **F64)


def test_second_derivatives_go_through(pool: Any) -> None:
    x = [ad.tensor([0.3, 0.7], **F64), ad.tensor([1.0, 2.0], **F64)]
    k = ad.tensor(0.5, requires_grad=True, **F64)
    for executor in (None, pool):

        def total(k: ad.Tensor, executor: Any = executor) -> ad.Tensor:
            return sum(ad.parallel.map(wave, x, shared=(k,), executor=executor))

        (first,) = ad.autograd.grad(total(k), k, create_graph=True)
        (second,) = ad.autograd.grad(first, k)
        wanted = sum(-(v**2 * (k * v).sin()).sum() for v in x)
        assert ad.allclose(second, wanted.detach())


def wave(v: ad.Tensor, k: ad.Tensor) -> ad.Tensor:
    return (k * v).sin().sum()


def test_a_module_brings_its_parameters(pool: Any) -> None:
    ad.manual_seed(0)
    net = ad.nn.Linear(3, 2)
    rows = list(ad.randn(4, 3))
    sum(r.square().sum() for r in ad.parallel.map(net, rows, executor=pool)).backward()
    mine = net.weight.grad
    net.weight.grad = None
    sum(net(row).square().sum() for row in rows).backward()
    assert mine is not None and ad.allclose(mine, net.weight.grad)


def with_net(member: Any, net: Any) -> dict[str, Any]:
    return {"loss": net(member["x"]).square().sum() + member.get("other", net)(member["x"]).sum()}


class Tied(ad.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = ad.nn.Linear(3, 3), ad.nn.Linear(3, 3)
        self.second.weight = self.first.weight
        self.layers = [self.first, ad.nn.Tanh(), self.second]  # not seen as modules here

    def forward(self, x: Any) -> Any:
        for layer in self.layers:
            x = layer(x)
        return x


def test_modules_among_the_arguments_bring_their_parameters(executor: Any) -> None:
    ad.manual_seed(0)
    net, other = Tied(), ad.nn.Linear(3, 1)
    members: list[Any] = [{"x": row} for row in ad.randn(6, 3)]
    members[1]["other"] = other
    leaves = [*net.parameters(), *other.parameters()]
    found = ad.parallel.map(with_net, members, shared=(net,), executor=executor)
    mine = ad.autograd.grad(sum(r["loss"] for r in found), leaves)
    wanted = ad.autograd.grad(sum(with_net(m, net)["loss"] for m in members), leaves)
    assert all(ad.allclose(a, b) for a, b in zip(mine, wanted, strict=True))
    assert net.second.weight is net.first.weight and net.first.weight.grad is None


def test_threads_do_not_see_each_others_parameters() -> None:
    net = ad.nn.Sequential(ad.nn.Linear(50, 50), ad.nn.Tanh(), ad.nn.Linear(50, 1))
    rows = list(ad.randn(64, 20, 50))
    with cf.ThreadPoolExecutor(4) as threads:
        mine, here = (
            ad.autograd.grad(
                sum(r.sum() for r in ad.parallel.map(net, rows, executor=where)),
                list(net.parameters()),
            )
            for where in (threads, None)
        )
    assert all(map(ad.equal, mine, here))


def test_graphs_stay_where_they_were_made_and_are_let_go_of(pool: Any) -> None:
    members, k = ensemble()
    results = ad.parallel.map(fly, members, shared=(k, {"steps": 2}), executor=pool)
    counts = [pool.submit(place, graphs_kept).result() for place in (0, 1)]
    assert sum(counts) == 5
    loss_of(results).backward()
    del results
    deadline = time.monotonic() + 60  # a thread tells the workers
    while any(pool.submit(place, graphs_kept).result() for place in (0, 1)):
        assert time.monotonic() < deadline
    ad.parallel.map(fly, members, shared=(k, {"steps": 2}))
    assert graphs_kept() == 0


def test_a_map_that_is_collected_inside_of_submit_does_not_wait_for_itself() -> None:
    program = """
import weakref, threading
import adjoint as ad
from concurrent.futures import process

class Lock:  # collects a map where the executor's lock is taken, as any allocation there may
    def __init__(self):
        self.lock = threading.Lock()
    def __enter__(self):
        self.lock.acquire()
        kept.clear()
    def __exit__(self, *_):
        self.lock.release()

kept = []
if __name__ == "__main__":
    x = ad.tensor([2.0], requires_grad=True)
    with ad.parallel.Processes(1) as pool:
        kept.append(ad.parallel.map(abs, [x], executor=pool))
        worker = pool._workers[0]
        worker = getattr(worker, "_executor", worker)
        worker._shutdown_lock = Lock()
        (found,) = ad.parallel.map(abs, [x], executor=pool)
        assert not kept and found.item() == 2
        worker._shutdown_lock = threading.Lock()
    print("done")
"""
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        timeout=120,
        env=WITH_CHECKOUT,
    )
    assert done.stdout == "done\n", done.stderr


def graphs_kept() -> int:
    return len(_member._graphs)


hidden = ad.ones(3, requires_grad=True)


def reads_hidden(x: ad.Tensor) -> ad.Tensor:
    return (hidden * x).sum()


def test_a_hidden_tensor_is_refused_and_not_lost(executor: Any) -> None:
    x = ad.ones(3, requires_grad=True)
    with pytest.raises(RuntimeError, match=r"`reads_hidden` reads a tensor of shape \[3\]"):
        ad.parallel.map(reads_hidden, [x], executor=executor)


def test_a_hidden_tensor_is_refused_where_no_argument_requires_a_gradient(executor: Any) -> None:
    with pytest.raises(RuntimeError, match=r"`reads_hidden` reads a tensor of shape \[3\]"):
        ad.parallel.map(reads_hidden, [ad.ones(3)], executor=executor)
    with ad.no_grad():
        (found,) = ad.parallel.map(reads_hidden, [ad.ones(3)], executor=executor)
    assert found == 3


def trained(seed: int) -> ad.Tensor:
    """The loss of a model that nobody else has."""
    ad.manual_seed(seed)
    net = ad.nn.Linear(2, 1)
    net(ad.ones(2)).square().sum().backward()
    with ad.no_grad():
        net.weight -= 0.1 * net.weight.grad
    return net(ad.ones(2)).square().sum()


def test_a_member_may_train_a_model_of_its_own(executor: Any) -> None:
    found = ad.parallel.map(trained, [0, 1], executor=executor)
    assert [f.item() for f in found] == [trained(0).item(), trained(1).item()]
    assert not any(f.requires_grad for f in found)


def fails_at_two(x: ad.Tensor) -> ad.Tensor:
    if float(x) == 2:
        raise ValueError("not two")
    return x


def test_an_error_names_the_member(executor: Any) -> None:
    with pytest.raises(ValueError, match="not two") as caught:
        ad.parallel.map(fails_at_two, [ad.tensor(float(k)) for k in range(5)], executor=executor)
    assert "in member 2 of parallel.map" in caught.value.__notes__


def fails_once(x: ad.Tensor, folder: str) -> ad.Tensor:
    mark = Path(folder) / f"{int(x)}"
    if not mark.exists():
        mark.touch()
        os._exit(1) if int(x) == 1 else None
        raise OSError("the first time")
    return 2 * x


class TwoWords(Exception):
    """Cannot be unpickled: it is made of two arguments, and keeps one."""

    def __init__(self, first: str, second: str) -> None:
        super().__init__(first + second)


def raise_two_words(x: ad.Tensor) -> None:
    raise TwoWords("sim", "ulated")


def test_an_error_that_cannot_be_sent_is_told(pool: Any) -> None:
    with pytest.raises(RuntimeError, match=r"TwoWords: simulated\n(.|\n)*in raise_two_words"):
        ad.parallel.map(raise_two_words, [ad.ones(1)], executor=pool)


@pytest.mark.parametrize("pool_of", ["two processes", "a number"])
def test_an_interrupt_ends_members_that_run(pool_of: str) -> None:
    code = f"""if __name__ == "__main__":
        import os, signal, threading, time, adjoint as ad
        threading.Timer(1.0, os.kill, (os.getpid(), signal.SIGINT)).start()
        signal.signal(signal.SIGINT, signal.default_int_handler)
        where = 2 if {pool_of!r} == "a number" else ad.parallel.Processes(2)
        ad.parallel.map(time.sleep, [600.0] * 4, executor=where)"""
    done = subprocess.run(
        [sys.executable, "-c", code], env=WITH_CHECKOUT, capture_output=True, text=True, timeout=60
    )
    assert done.stderr.endswith("KeyboardInterrupt\n") and done.stderr.count("Traceback") == 1


def _random_program(x: ad.Tensor, k: ad.Tensor, seed: int) -> dict[str, Any]:
    """Eight operations that follow from a seed."""
    choose = random.Random(seed)
    values = [x, k * x, x.sin()]
    for _ in range(8):
        a, b = choose.choice(values), choose.choice(values)
        made = (
            a + b, a * b, (a * a + 1).log(), a.cumsum(0), a.softmax(0) * b, (a @ b) * a,
            ad.where(a > b, a, 2 * b), a + ad.randn_like(b),
        )  # fmt: skip
        values.append(choose.choice(made))
    return {"last": values[-1], "before": (values[-2].sum(), choose.random())}


def _bits_of(seed: int, executor: Any, keep: bool) -> tuple[Any, ...]:
    ad.manual_seed(seed)
    k = ad.randn((), dtype=ad.float32, requires_grad=True)
    members = [ad.randn(5).requires_grad_() for _ in range(4)]
    options: dict[str, Any] = {"executor": executor, "keep": keep}
    found = ad.parallel.map(_random_program, members, shared=(k, seed), **options)
    loss = sum(r["last"].sum() + r["before"][0] * r["before"][1] for r in found)
    first = ad.autograd.grad(loss, [k, *members], create_graph=True, materialize_grads=True)
    whole = sum((g * g).sum() for g in first)
    second = (
        ad.autograd.grad(whole, [k, *members], materialize_grads=True)
        if whole.requires_grad
        else ()
    )
    return tuple(t.detach().numpy().tobytes() for t in (loss, *first, *second))


@pytest.mark.parametrize("seed", range(8))
def test_random_programs_have_the_same_bits_everywhere(seed: int, pool: Any) -> None:
    here = _bits_of(seed, None, True)
    with cf.ThreadPoolExecutor(3) as threads:
        for executor in (pool, threads):
            assert here == _bits_of(seed, executor, seed % 2 == 0)


_turns = threading.Barrier(2)


def _draw(x: ad.Tensor, take_turns: bool) -> dict[str, Any]:
    drawn = []
    for _ in range(3):
        if take_turns:
            _turns.wait(30)
        drawn.append(ad.randn(2) + ad.nn.functional.dropout(ad.ones(2)))
    drawn.append(ad.random.get_rng_state())
    ad.manual_seed(int(x))
    return {"drawn": drawn, "seeded": ad.rand(1)}


def test_members_on_threads_draw_numbers_of_their_own() -> None:
    def drawn(executor: Any, take_turns: bool) -> list[Any]:
        ad.manual_seed(3)
        members, shared = [ad.tensor(1.0), ad.tensor(2.0)], (take_turns,)
        found = ad.parallel.map(_draw, members, shared=shared, executor=executor)
        for k, result in enumerate(found):
            generator = ad.Generator().manual_seed(k + 1)
            assert ad.equal(result["seeded"], ad.rand(1, generator=generator))
        return [t.tolist() for result in found for t in result["drawn"]]

    with cf.ThreadPoolExecutor(2) as threads:
        assert drawn(threads, True) == drawn(None, False)


def test_the_stream_of_the_caller_goes_on() -> None:
    ad.manual_seed(5)
    ad.randint(2**62, ())  # what a map draws
    expected = ad.rand(3)
    ad.manual_seed(5)
    ad.parallel.map(ad.rand_like, [ad.ones(2)] * 3)
    assert ad.equal(ad.rand(3), expected)
    with pytest.raises(TypeError, match="of one's own"):
        ad._core._draw_from(ad.random.default_generator)


def test_what_failed_is_tried_elsewhere(tmp_path: Path) -> None:
    x = [ad.tensor(float(k), requires_grad=True) for k in range(3)]
    found = ad.parallel.map(fails_once, x, shared=(str(tmp_path),), executor=2, retries=2)
    assert [float(y) for y in found] == [0, 2, 4]
    for mark in tmp_path.iterdir():
        mark.unlink()
    with pytest.raises((OSError, cf.BrokenExecutor)):
        ad.parallel.map(fails_once, x, shared=(str(tmp_path),), executor=2)


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: ad.parallel.map(wave, [], executor="two"), TypeError, "executor= takes None"),
        (lambda: ad.parallel.map(wave, [], executor=0), ValueError, "positive number"),
        (lambda: ad.parallel.map(wave, [], executor=True), ValueError, "positive number"),
        (lambda: ad.parallel.map(wave, [], retries=-1), ValueError, "retries= must not"),
        (lambda: ad.parallel.Processes(0), ValueError, "positive number of processes, got 0"),
    ],
)
def test_bad_arguments(call: Any, error: type, words: str) -> None:
    with pytest.raises(error, match=words):
        call()


def test_samples_of_a_vmap_are_refused() -> None:
    with pytest.raises(RuntimeError, match=r"parallel\.map inside vmap"):
        ad.vmap(lambda x: ad.parallel.map(reads_hidden, [x])[0])(ad.ones(2, 3))


def test_an_empty_ensemble_has_no_results() -> None:
    assert ad.parallel.map(wave, []) == []


def test_nothing_is_recorded_without_gradients() -> None:
    k = ad.tensor(1.0, requires_grad=True)
    with ad.no_grad():
        (found,) = ad.parallel.map(wave, [ad.ones(2)], shared=(k,))
    assert not found.requires_grad and graphs_kept() == 0


def same_on(executor: Any) -> None:
    members, k = ensemble()
    shared = (k, {"steps": 4})
    mine = gradients(members, k, ad.parallel.map(fly, members, shared=shared, executor=executor))
    here = gradients(members, k, ad.parallel.map(fly, members, shared=shared))
    assert all(map(ad.equal, mine, here))


@pytest.mark.skipif(importlib.util.find_spec("distributed") is None, reason="no Dask")
@pytest.mark.filterwarnings("ignore")
def test_dask() -> None:
    import distributed

    with (
        distributed.LocalCluster(2, threads_per_worker=1, dashboard_address=None) as cluster,
        distributed.Client(cluster) as client,
    ):
        same_on(client.get_executor())


@pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="no Ray")
@pytest.mark.filterwarnings("ignore")
def test_ray() -> None:
    executor = ad.parallel.RayExecutor(num_cpus=1)
    try:
        same_on(executor)
        with pytest.raises(ValueError, match="not two"):  # others are cancelled
            ad.parallel.map(fails_at_two, list(ad.arange(9.0)), executor=executor)
        with pytest.raises(Exception, match="died"):
            ad.parallel.map(ends_its_process, list(ad.arange(9.0)), executor=executor)
        same_on(executor)  # with actors that were started anew
        space: dict[str, Any] = {"__name__": "__main__"}
        exec("def doubled(x):\n    return 2 * x", space)  # as in a script
        sys.modules["__main__"].doubled = space["doubled"]  # type: ignore[attr-defined]
        assert ad.parallel.map(space["doubled"], [ad.ones(())], executor=executor) == [2]
    finally:
        vars(sys.modules["__main__"]).pop("doubled", None)
        executor.shutdown()


def ends_its_process(x: ad.Tensor) -> ad.Tensor:
    if float(x) == 2:
        os._exit(3)
    return x


def test_workers_end_with_a_parent_that_is_killed(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        "import os, time, adjoint as ad\n"
        "def busy(x):\n"
        "    os.write(1, b'%d\\n' % os.getpid())\n"  # a line at once, also if unbuffered
        "    time.sleep(600)\n"
        "if __name__ == '__main__':\n"
        "    ad.parallel.map(busy, [ad.ones(1), ad.ones(1)], executor=2)"
    )
    command = [sys.executable, str(program)]
    with subprocess.Popen(command, env=WITH_CHECKOUT, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        try:
            pids = [parent.stdout.readline() for _ in range(2)]
            assert all(pid.strip().isdigit() for pid in pids)
        finally:
            parent.kill()
        assert parent.stdout.read() == ""  # the pipe has an end: nobody holds it any more
