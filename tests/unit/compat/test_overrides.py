"""`torch.overrides`: classes and modes that are asked before functions run."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest

import adjoint as ad
from adjoint import overrides


class Scaled:
    """Not a tensor, and asked as if it were: `value` times the identity."""

    calls: list[str]

    def __init__(self, n: int, value: float) -> None:
        self.n, self.value = n, value

    def tensor(self) -> ad.Tensor:
        return self.value * ad.eye(self.n)

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if not all(issubclass(t, ad.Tensor | Scaled) for t in types):
            return NotImplemented
        if func is ad.mean:
            return args[0].value / args[0].n

        def plain(a: Any) -> Any:
            if isinstance(a, list):
                return [plain(entry) for entry in a]
            return a.tensor() if isinstance(a, Scaled) else a

        return func(*map(plain, args), **(kwargs or {}))


class Logged(ad.Tensor):
    """A subclass that notes what is called."""

    seen: ClassVar[list[str]] = []

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        cls.seen.append(overrides.resolve_name(func) or str(func))
        return super().__torch_function__(func, types, args, kwargs or {})  # type: ignore[misc]


def test_objects_that_answer_for_tensors_are_asked() -> None:
    d = Scaled(4, 2.0)
    assert ad.mean(d) == 0.5  # type: ignore[arg-type]
    assert ad.add(d, ad.ones(4, 4)).sum().item() == 24.0  # type: ignore[arg-type]
    assert ad.cat([d, d]).shape == (8, 4)  # type: ignore[list-item]
    with pytest.raises(TypeError):
        ad.add(object(), ad.ones(2))  # type: ignore[arg-type]


def test_subclasses_are_told_the_function() -> None:
    x = ad.ones(3).as_subclass(Logged)
    Logged.seen.clear()
    y = ad.sin(x)
    assert isinstance(y, Logged) and Logged.seen[0] in ("torch.sin", "torch.Tensor.sin")


def test_who_wants_to_be_asked() -> None:
    x = ad.ones(2)
    assert not overrides.has_torch_function((x, 1))
    assert not overrides.has_torch_function_unary(ad.nn.Parameter(x))
    assert overrides.has_torch_function_variadic(x, Scaled(1, 1.0))
    assert overrides.is_tensor_like(x) and overrides.is_tensor_like(Scaled(1, 1.0))
    assert not overrides.is_tensor_like(3)


def test_functions_of_ones_own_can_ask() -> None:
    def twice(x: Any) -> Any:
        if overrides.has_torch_function((x,)):
            return overrides.handle_torch_function(twice, (x,), x)
        return x * 2

    assert twice(ad.ones(2)).tolist() == [2.0, 2.0]
    assert twice(Scaled(2, 1.0)).tolist() == [[2.0, 0.0], [0.0, 2.0]]

    class Refuses:
        @classmethod
        def __torch_function__(cls, *args: Any) -> Any:
            return NotImplemented

    with pytest.raises(TypeError, match=r"no implementation found for '.*twice'"):
        twice(Refuses())

    @overrides.wrap_torch_function(lambda x: (x,))
    def thrice(x: Any) -> Any:
        return x * 3

    assert thrice(Scaled(1, 1.0)).tolist() == [[3.0]]


def test_subclasses_come_before_their_bases() -> None:
    class Inner(Scaled):
        @classmethod
        def __torch_function__(
            cls, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            return "inner"

    def f(*xs: Any) -> Any:
        return overrides.handle_torch_function(f, xs, *xs)

    assert f(Scaled(1, 1.0), Inner(1, 1.0)) == "inner"


def test_a_mode_sees_every_call_and_nests() -> None:
    class Note(overrides.TorchFunctionMode):
        def __init__(self) -> None:
            self.seen: ClassVar[list[Any]] = []

        def __torch_function__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            self.seen.append(getattr(func, "__name__", func))
            return func(*args, **(kwargs or {}))

    with Note() as outer:
        x = ad.ones(3)
        with Note() as inner:
            y = (x.exp() + 1).sum()
        z = x.sin()
    assert inner.seen == ["exp", "add", "sum"]
    assert outer.seen == ["ones", "exp", "add", "sum", "sin"]
    x.cos()
    assert outer.seen[-1] == "sin"
    assert y.item() == pytest.approx(3 * 3.718281828, 1e-5) and z.shape == (3,)


def test_a_mode_ends_with_an_error() -> None:
    class Refuse(overrides.TorchFunctionMode):
        def __torch_function__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            raise ValueError("not here")

    with pytest.raises(ValueError, match="not here"), Refuse():
        ad.ones(2)
    assert ad.ones(2).sum().item() == 2.0


def test_lists_of_functions() -> None:
    ignored, found = overrides.get_ignored_functions(), overrides.get_overridable_functions()
    assert ad.zeros in ignored and ad.tensor in ignored
    assert ad.sin in found[ad] and ad.zeros not in found[ad]
    assert ad.nn.functional.mse_loss in found[ad.nn.functional]
    stand_ins = overrides.get_testing_overrides()
    assert stand_ins[ad.sin](1) == -1 and len(stand_ins) > 500
    assert overrides.resolve_name(ad.nn.functional.mse_loss) == "torch.nn.functional.mse_loss"
    assert overrides.is_tensor_method_or_property(ad.Tensor.sin)
    assert not overrides.is_tensor_method_or_property(len)


OPERATORS = {
    "x + 1": "add", "1 + x": "add", "x - 1": "sub", "1 - x": "__rsub__", "x * 2": "mul",
    "x / 2": "div",
    "x // 2": "__floordiv__", "x % 2": "remainder", "x**2": "__pow__", "-x": "neg",
    "+x": "positive",
    "abs(x)": "abs", "x < 1": "lt", "1 < x": "gt", "x == 1": "__eq__", "x != 1": "ne",
    "m @ m": "matmul", "x[0]": "__getitem__", "x[0] = 1.0": "__setitem__", "x += 1": "add_",
    "x /= 2": "div_", "x //= 2": "floor_divide_", "x **= 2": "__ipow__",
}  # fmt: skip


@pytest.mark.parametrize("written", OPERATORS)
def test_an_operator_is_the_method_that_it_is_on_pytorch(written: str) -> None:
    class Note(overrides.TorchFunctionMode):
        seen: ClassVar[list[Any]] = []

        def __torch_function__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            self.seen.append(func)
            return func(*args, **(kwargs or {}))

    given = {"x": ad.tensor([1.0, 2.0]), "m": ad.ones(2, 2)}
    with Note() as note:
        exec(written, {}, given)
    assert note.seen == [getattr(ad.Tensor, OPERATORS[written])]


def test_a_class_is_asked_when_an_element_is_set() -> None:
    class Watched(ad.Tensor):
        seen: ClassVar[list[str]] = []

        @classmethod
        def __torch_function__(
            cls, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            cls.seen.append(func.__name__)
            return super().__torch_function__(func, types, args, kwargs)

    plain, watched = ad.zeros(2), ad.ones(2).as_subclass(Watched)
    Watched.seen.clear()
    watched[0] = 5.0
    plain[:] = watched
    assert Watched.seen == ["__setitem__", "__setitem__"]
    assert plain.tolist() == [5.0, 1.0]
