"""torch.jit hands back what it is given, and says so once."""

from __future__ import annotations

import warnings
from typing import Any

import pytest

import adjoint as ad
from adjoint import jit


def test_functions_and_modules_come_back_as_they_are() -> None:
    jit._note.cache_clear()
    with pytest.warns(UserWarning, match="hands back what it is given"):
        f = jit.script(lambda x: x * 2)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        net = ad.nn.Linear(2, 2)
        assert jit.script(net) is net
    assert f(ad.ones(1)) == 2 and not jit.is_scripting() and not jit.is_tracing()


@pytest.mark.filterwarnings("ignore:torch.jit:UserWarning")
def test_a_trace_runs_the_example() -> None:
    calls: list[Any] = []

    def f(x: Any, y: Any = 1) -> Any:
        calls.append((x.item(), y))
        return x

    assert jit.trace(f, ad.tensor(3.0)) is f
    jit.trace(f, (ad.tensor(4.0), 5))
    jit.trace(f, {"x": ad.tensor(6.0)})
    assert calls == [(3.0, 1), (4.0, 5), (6.0, 1)]


def test_decorators_leave_functions_alone() -> None:
    def f() -> int:
        return 1

    assert jit.export(f) is f and jit.ignore(f) is f and jit.unused(f) is f
    assert jit.ignore()(f) is f and jit.ignore(drop=True)(f) is f
    assert jit.isinstance([1], list[int]) and jit.annotate(int, 3) == 3


def test_files_of_programs_are_refused() -> None:
    with pytest.raises(NotImplementedError, match=r"state_dict"):
        jit.save(None, "f")
    with pytest.raises(NotImplementedError, match=r"state_dict"):
        jit.load("f")
