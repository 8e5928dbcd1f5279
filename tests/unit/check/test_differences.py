"""Difference methods as objects: what they say of themselves holds, and everybody uses them.

Read next: test_external_methods.py, for their derivatives.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint.differences import METHODS, Central, ComplexStep, Forward, Method, Richardson, Spsa
from adjoint.differences import Stencil as StencilMethod

EVERY = [Forward(), Central(), ComplexStep(), Richardson(), Spsa()]
ids = [m.name for m in EVERY]


def leaf(*values: float) -> ad.Tensor:
    return ad.tensor(values, dtype=ad.float64, requires_grad=True)


def gradient(f: Any, x: ad.Tensor) -> Any:
    x.grad = None
    f(x).sum().backward()
    assert x.grad is not None
    return x.grad.numpy().copy()


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class FivePoint(StencilMethod):
    """Of fourth order: f(x ± h) and f(x ± 2h)."""

    order = 4
    offsets = (1, -1, 2, -2)

    step: Any = None
    scale: Any = None
    probe: bool = True

    def ends(self, steps: Any) -> Any:
        size = steps.sizes(self.order)
        return tuple(steps.point.representable(steps.point.x + k * size) for k in self.offsets)

    def combine(self, distances: Sequence[Any], values: Sequence[Any], y: Any) -> Any:
        near = (values[0] - values[1]) / (distances[0] - distances[1])
        far = (values[2] - values[3]) / (distances[2] - distances[3])
        return near + (near - far) / 3

    def error(self, noise: float) -> float:
        return float(noise**0.8)


# --- what they say of themselves ------------------------------------------------------------------


@pytest.mark.parametrize("method", EVERY, ids=ids)
def test_a_jacobian_takes_as_many_evaluations_as_the_method_says(method: Method) -> None:
    count = 0

    def f(x: Any) -> Any:
        nonlocal count
        count += 1
        return np.sin(x)

    x = leaf(0.3, 0.5, 1.9)
    e = ad.external(f, derivative=method)
    gradient(e, x)  # with its checks
    count = 0
    gradient(e, x)
    said = 1 + method.evaluations(3) + 2 * method.directional_check  # a pair verifies
    assert count <= said if method.at_most else count == said


@pytest.mark.parametrize("method", EVERY[:-1], ids=ids[:-1])
def test_errors_are_what_the_method_expects(method: Method) -> None:
    x = leaf(0.3, 0.5, 1.9)
    found = gradient(ad.external(np.exp, derivative=method), x)
    error = np.max(np.abs(found / np.exp(x.detach().numpy()) - 1))
    assert error <= 30 * method.error(2.2e-16)


@pytest.mark.parametrize("name", sorted(METHODS))
def test_a_name_is_short_for_the_object(name: str) -> None:
    def f(x: Any) -> Any:
        return np.cumsum(x) if name == "linear" else np.exp(x) * x.sum()

    x = leaf(0.3, 0.5, 1.9)
    for settings in ({}, {"scale": 0.5}) if name != "linear" else ({},):
        short = ad.external(f, derivative=name, **settings)
        whole = ad.external(f, derivative=METHODS[name](**settings))
        np.testing.assert_array_equal(gradient(short, x), gradient(whole, x))
        assert short.derivative == whole.derivative == name


def test_settings_reach_the_method() -> None:
    x = leaf(1.0)
    np.testing.assert_allclose(gradient(ad.external(lambda x: x**3, step=0.5), x), [3.25])
    method = Central(step={"x": 0.5})
    np.testing.assert_allclose(gradient(ad.external(lambda x: x**3, derivative=method), x), [3.25])
    assert ad.external(np.sin, derivative=Spsa(directions=5)).cost(x).vjp == 10
    assert ad.external(np.sin, derivative=Richardson(rounds=3)).cost(x).vjp == 6 + 2


def test_one_object_serves_any_number_of_functions() -> None:
    method, x = Spsa(directions=2, seed=3), leaf(0.3, 0.5, 1.9)
    first, second = (ad.external(np.sin, derivative=method) for _ in range(2))
    once = gradient(first, x)
    np.testing.assert_array_equal(gradient(second, x), once)
    assert (gradient(first, x) != once).any()  # each function draws on


def test_objects_print_their_settings() -> None:
    assert repr(Central()) == "Central()"
    assert repr(Spsa(directions=3, step=0.1)) == "Spsa(step=0.1, directions=3)"
    e = ad.external(np.sin, derivative=Forward(step=0.1), name="wave")
    assert repr(e) == "<external wave: derivative=Forward(step=0.1)>"


# --- what does not go together --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "kind", "message"),
    [
        (
            {"derivative": Central(scale=2.0), "step": 0.1},
            ValueError,
            r"step= and derivative=Central\(scale=2.0\) are both given; "
            r"fix: derivative=Central\(step=0.1, scale=2.0\)",
        ),
        (
            {"derivative": Central(), "directions": 3},
            ValueError,
            r"directions= and .* both given; fix: omit directions=, which Central does not have",
        ),
        (
            {"evaluate": ad.Evaluation(), "workers": 2},
            ValueError,
            r"workers= and evaluate=Evaluation\(.* are both given; .*Evaluation\(workers=2, ...\)",
        ),
        ({"evaluate": 4}, TypeError, "evaluate= takes an ad.Evaluation, got int"),
        ({"derivative": 3}, ValueError, "or a method of ad.differences; got 3"),
        ({"derivative": Central}, ValueError, "got <class 'adjoint.numeric._central.Central'>"),
        ({"steps": 3}, TypeError, "external() got an unexpected keyword argument 'steps'"),
        (
            {"derivative": Richardson(), "elementwise": True},
            ValueError,
            "go with derivative='central' or 'forward', not 'richardson'",
        ),
    ],
)
def test_what_does_not_go_together_is_refused(
    options: dict[str, Any], kind: type[Exception], message: str
) -> None:
    message = message.replace("external()", r"external\(\)")
    with pytest.raises(kind, match=message):
        ad.external(np.sin, **options)
    if "elementwise" not in options:
        with pytest.raises(kind, match=message):
            ad.external(**options)  # a decorator, not yet applied


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Spsa(directions=0), "directions= must be at least 1, got 0"),
        (lambda: Richardson(rounds=0), "rounds= must be at least 1, got 0"),
        (lambda: ad.Evaluation(retries=-1), "retries= must not be negative, got -1"),
        (lambda: ad.Evaluation(workers="many"), "workers= takes None"),
        (lambda: ad.Evaluation(timeout=3), "timeout=3 needs workers"),
    ],
)
def test_wrong_settings_are_refused_where_they_are_made(make: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()


# --- evaluations ----------------------------------------------------------------------------------


def test_an_evaluation_says_where_and_how_often() -> None:
    failures = iter([True, False] * 100)

    def f(x: Any) -> Any:
        if next(failures):
            raise OSError("busy")
        return np.sin(x)

    x = leaf(0.3, 0.5)
    again = ad.Evaluation(retries=1)
    found = gradient(ad.external(f, derivative=Central(step=1e-5), evaluate=again), x)
    np.testing.assert_allclose(found, np.cos(x.detach().numpy()), 1e-9)


def test_one_evaluation_serves_several_functions() -> None:
    two = ad.Evaluation(workers=2, timeout=60)
    x = leaf(0.3, 0.5)
    for f, slope in ((np.sin, np.cos), (np.exp, np.exp)):
        e = ad.external(lambda x, f=f: f(x), evaluate=two)
        np.testing.assert_allclose(gradient(e, x), slope(x.detach().numpy()), 1e-8)
        e.close()


# --- a method of one's own ------------------------------------------------------------------------


def test_a_stencil_of_ones_own_serves_every_pattern() -> None:
    method = FivePoint()
    x = leaf(*np.linspace(0.2, 2.0, 6))
    at = x.detach().numpy()
    np.testing.assert_allclose(
        gradient(ad.external(np.exp, derivative=method), x), np.exp(at), 1e-11
    )
    each = ad.external(np.exp, derivative=method, elementwise=True)
    for _ in range(2):  # verified, and then
        np.testing.assert_allclose(gradient(each, x), np.exp(at), 1e-11)
    sparse = ad.external(np.exp, derivative=method, sparsity=np.eye(6))
    np.testing.assert_allclose(gradient(sparse, x), np.exp(at), 1e-11)
    assert each.cost(x).vjp == sparse.cost(x).vjp == 4 + 2
    rows = ad.tensor(at.reshape(2, 3), requires_grad=True)
    batched = ad.external(np.exp, derivative=method, batched=True)
    np.testing.assert_allclose(gradient(ad.vmap(batched), rows), np.exp(at.reshape(2, 3)), 1e-11)


def test_a_stencil_without_its_parts_cannot_be_made() -> None:
    class Empty(StencilMethod):
        """Nothing yet."""

    with pytest.raises(TypeError, match=r"abstract .*combine"):
        Empty()  # type: ignore[abstract]


def test_a_method_with_a_name_can_be_asked_for_by_it() -> None:
    class Named(FivePoint, name="five-point"):
        """The same, with a name."""

    try:
        e = ad.external(np.exp, derivative="five-point", step=1e-3)
        np.testing.assert_allclose(gradient(e, leaf(1.0)), [np.e], 1e-11)
        assert "4 more (five-point)" in str(e.cost(leaf(1.0)))
    finally:
        del METHODS["five-point"]


# --- one core -------------------------------------------------------------------------------------


def test_externals_gradcheck_and_check_take_the_same_differences(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Square(ad.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: ad.Tensor) -> ad.Tensor:
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx: Any, g: ad.Tensor) -> ad.Tensor:
            return 2 * g * ctx.saved_tensors[0]

    x = leaf(0.3, 0.5)
    assert ad.autograd.gradcheck(ad.sin, (x,)) and Square.check(x)
    wrong = ad.check(lambda x: x * x.detach(), x, order=1)
    combine = Central.combine
    monkeypatch.setattr(Central, "combine", lambda *args: 2 * combine(*args))
    found = gradient(ad.external(np.sin), x)
    np.testing.assert_allclose(found, 2 * np.cos(x.detach().numpy()), 1e-8)
    assert not ad.autograd.gradcheck(ad.sin, (x,), raise_exception=False)
    assert not Square.check(x)
    # `check` differences what is left beside the derivative: the error of a wrong one is doubled.
    again = ad.check(lambda x: x * x.detach(), x, order=1)
    assert again.first.inputs[0].relative > 1.2 * wrong.first.inputs[0].relative > 0.1


ROOT = Path(ad.__file__).parent


def imports(package: str, types: bool) -> dict[str, set[str]]:
    """Which modules of a package each of them imports, anywhere; ``types`` those for types too."""
    found: dict[str, set[str]] = {}
    for file in (ROOT / package).glob("*.py"):
        tree = ast.parse(file.read_text())
        if not types:
            tree.body = [node for node in tree.body if not isinstance(node, ast.If)]
        nodes = [n for n in ast.walk(tree) if isinstance(n, ast.ImportFrom) and n.level == 1]
        found[file.stem] = {n.module for n in nodes if n.module}
    return found


@pytest.mark.parametrize(("package", "types"), [("external", True), ("numeric", False)])
def test_dependencies_go_one_way(package: str, types: bool) -> None:
    left = imports(package, types)
    assert left
    while left:
        free = {name for name, needs in left.items() if not needs & left.keys()}
        assert free, f"these modules of {package} import each other: {sorted(left)}"
        left = {name: needs for name, needs in left.items() if name not in free}


def test_the_core_knows_nothing_of_its_users() -> None:
    text = "".join(file.read_text() for file in (ROOT / "numeric").glob("*.py"))
    tree = ast.parse(text.replace("from __future__ import annotations\n", ""))
    modules = {n.module or "" for n in ast.walk(tree) if isinstance(n, ast.ImportFrom)}
    users = {m for m in modules if m.startswith(("adjoint.external", "adjoint.autograd"))}
    assert not users and not {m for m in modules if m.startswith("adjoint.check")}
