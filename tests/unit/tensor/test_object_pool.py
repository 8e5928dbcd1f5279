"""Headers and nodes come from memory that is kept: what a long graph leaves serves the next one."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import adjoint as ad

LONG = 30_000  # steps: more than the first region has room for


def chain(n: int) -> Any:
    x = ad.tensor([1.0], requires_grad=True)
    y = x
    for _ in range(n):
        y = y * x
    return y


def objects() -> int:
    return int(ad.memory_stats()["object_bytes"])


def test_a_long_graph_takes_the_memory_of_the_one_before() -> None:
    chain(LONG).backward()
    before = objects()
    for _ in range(3):
        y = chain(LONG)
        y.backward()
        del y
    assert objects() == before


def test_idle_memory_is_given_back_and_counted() -> None:
    code = f"""if True:
        import adjoint as ad
        from tests.unit.tensor.test_object_pool import chain, objects
        y = chain({LONG})
        held = objects()
        assert held > 20_000_000, held
        assert ad.memory_stats()["reserved_bytes"] > held
        ad.release_memory()
        assert objects() == held
        del y
        ad.release_memory()
        print(objects())
        y = chain({LONG})
        y.backward()
        assert objects() == held
    """
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) <= 8 << 20  # what lives beside objects that import made


def test_nodes_that_python_has_seen_are_nodes_again() -> None:
    x = ad.tensor([2.0], requires_grad=True)
    for op, name in ((lambda t: t * t, "MulBackward0"), (lambda t: t.sin(), "SinBackward0")):
        made = [op(x) for _ in range(6000)]
        assert {type(y.grad_fn).__name__ for y in made} == {name}
        del made
    y = chain(LONG)
    assert type(y.grad_fn).__name__ == "MulBackward0"
    y.backward()


def test_graphs_with_and_without_hooks_share_the_memory() -> None:
    for _ in range(2):
        y = chain(LONG // 2)
        z = chain(2)
        z.register_hook(lambda g: g)  # from now on objects come from Python
        more = chain(LONG // 2)
        (y + z + more).backward()
        del y, z, more
        x = chain(LONG // 2)
        x.backward()
        del x
