"""A class registered with ``utils._pytree`` is a structure for everything that takes structures."""

from __future__ import annotations

import dataclasses
import io
from collections.abc import Callable
from typing import Any

import pytest

import adjoint as ad
from adjoint import func
from adjoint.utils import _pytree as pytree
from adjoint.utils.checkpoint import checkpoint


class Box:
    """Parts are known by position."""

    def __init__(self, a: Any, b: Any, name: str = "box") -> None:
        self.a, self.b, self.name = a, b, name


class Keyed(Box):
    """Parts have keys."""


@dataclasses.dataclass
class Fields:
    """A dataclass whose fields are named by its registration, and that checks them."""

    a: Any
    b: Any
    name: dataclasses.InitVar[str] = "box"

    def __post_init__(self, name: str) -> None:
        self.name = name


class Table(dict):  # type: ignore[type-arg]
    """A container of its own kind."""

    def __init__(self, a: Any, b: Any, name: str = "box") -> None:
        super().__init__(a=a, b=b)
        self.name = name

    a = property(lambda self: self["a"])
    b = property(lambda self: self["b"])


def _parts(box: Any) -> tuple[list[Any], str]:
    return [box.a, box.b], box.name


def _keyed(box: Any) -> tuple[list[tuple[Any, Any]], str]:
    return [(pytree.GetAttrKey("a"), box.a), (pytree.GetAttrKey("b"), box.b)], box.name


@pytest.fixture(params=[Box, Keyed, Fields, Table], ids=lambda cls: cls.__name__)
def cls(request: pytest.FixtureRequest) -> Any:
    made = request.param
    if made is Fields:
        pytree.register_dataclass(made, field_names=["a", "b"], drop_field_names=["name"])
    else:
        keys = _keyed if made is Keyed else None
        pytree.register_pytree_node(
            made, _parts, lambda c, name: made(*c, name), flatten_with_keys_fn=keys
        )
    yield made
    pytree._deregister_pytree_node(made)


A, W = [1.0, 2.0], [3.0, 4.0]


def product(box: Any) -> Any:
    return (box.a * box.b["w"]).sum()


def changed(box: Any) -> Any:
    return type(box)(box.a.sin() * box.b["w"], {"w": box.a * 1})


def by_grad(make: Callable[..., Any]) -> Any:
    return func.grad(product)(make())


def by_vjp(make: Callable[..., Any]) -> Any:
    return func.vjp(product, make())[1](ad.tensor(1.0))[0]


def by_linearity(make: Callable[..., Any]) -> Any:
    jacobian = func.jacrev(lambda box: box.a * box.b["w"])(make())
    forward = func.jacfwd(lambda box: box.a * box.b["w"])(make())
    assert ad.equal(jacobian.a, forward.a)
    return type(jacobian)(jacobian.a.sum(0), {"w": jacobian.b["w"].sum(0)})


def by_backward(make: Callable[..., Any]) -> Any:
    box = make(requires_grad=True)
    return ad.autograd.grad(product(box), box)


def by_vmap(make: Callable[..., Any]) -> Any:
    return func.vmap(func.grad(product))(make())


def by_compile(make: Callable[..., Any]) -> Any:
    compiled = ad.compile(func.grad(product), verify=True)
    compiled(make())
    result = compiled(make())
    assert len(compiled.programs) == 1
    return result


def by_checkpoint(make: Callable[..., Any], reentrant: bool = False) -> Any:
    box = make(requires_grad=True)
    checkpoint(product, box, use_reentrant=reentrant).backward()
    return type(box)(box.a.grad, {"w": box.b["w"].grad})


def by_old_checkpoint(make: Callable[..., Any]) -> Any:
    return by_checkpoint(make, reentrant=True)


class Product(ad.autograd.Function):
    @staticmethod
    def forward(ctx: Any, box: Any) -> Any:
        ctx.save_for_backward(box.a, box.b["w"])
        ctx.cls = type(box)
        return product(box)

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        a, w = ctx.saved_tensors
        return ctx.cls(g * w, {"w": g * a})


def by_function(make: Callable[..., Any]) -> Any:
    box = make(requires_grad=True)
    Product.apply(box).backward()
    return type(box)(box.a.grad, {"w": box.b["w"].grad})


def by_external(make: Callable[..., Any]) -> Any:
    outside = ad.external(lambda box: (box.a * box.b["w"]).sum())
    return func.grad(outside)(make())


def by_composite(make: Callable[..., Any]) -> Any:
    box = make(requires_grad=True)
    copied = ad.clone(box)
    assert type(copied) is type(box)
    vector, back = ad.ravel(box)
    assert vector.tolist() == A + W
    product(back(vector)).backward()
    return type(box)(box.a.grad, {"w": box.b["w"].grad})


def by_file(make: Callable[..., Any]) -> Any:
    file = io.BytesIO()
    ad.save(by_grad(make), file)
    file.seek(0)
    return ad.load(file, classes=[type(make())])


CONSUMERS = [
    by_grad,
    by_vjp,
    by_linearity,
    by_backward,
    by_vmap,
    by_compile,
    by_checkpoint,
    by_old_checkpoint,
    by_function,
    by_external,
    by_composite,
    by_file,
]


@pytest.mark.parametrize("consumer", CONSUMERS, ids=lambda f: f.__name__)
def test_every_consumer_takes_a_registered_class(cls: Any, consumer: Callable[..., Any]) -> None:
    def make(requires_grad: bool = False) -> Any:
        a, w = (ad.tensor(x, requires_grad=requires_grad) for x in (A, W))
        return cls(a, {"w": w})

    gradient = consumer(make)
    assert type(gradient) is cls
    assert gradient.a.flatten().tolist() == pytest.approx(W, rel=1e-3)
    assert gradient.b["w"].flatten().tolist() == pytest.approx(A, rel=1e-3)
    assert gradient.name == "box"


def test_tangents_and_results_have_the_class(cls: Any) -> None:
    box = cls(ad.tensor(A), {"w": ad.tensor(W)})
    value, tangent = func.jvp(changed, (box,), (box,))
    assert type(value) is type(tangent) is cls
    assert tangent.b["w"].tolist() == A
    mapped = func.vmap(changed, in_dims=(cls(0, {"w": None}),))(box)
    assert mapped.a.shape == (2, 2)
    assert ad.autograd.gradcheck(
        changed, (cls(*(_wide(x) for x in (A,)), {"w": _wide(W)}),), raise_exception=True
    )


def _wide(values: list[float]) -> Any:
    return ad.tensor(values, dtype=ad.float64, requires_grad=True)


def test_messages_name_parts_by_their_keys() -> None:
    pytree.register_pytree_node(
        Keyed, _parts, lambda c, name: Keyed(*c, name), flatten_with_keys_fn=_keyed
    )
    try:
        _, structure = ad.flatten(Keyed(ad.ones(2), {"w": ad.ones(2)}))
        assert structure.paths() == ["keyed.a", "keyed.b['w']"]
        assert "  b: dict" in ad.describe(Keyed(ad.ones(2), {"w": ad.ones(2)}))
    finally:
        pytree._deregister_pytree_node(Keyed)


@dataclasses.dataclass
class Scaled:
    """A composite by itself; registered, it is what the registration says."""

    x: Any
    unit: Any

    def __add__(self, other: Scaled) -> Scaled:
        return Scaled(self.x + other.x, self.unit)


def test_a_registration_replaces_what_was_found_out() -> None:
    value = Scaled(ad.tensor(2.0), ad.tensor(10.0))
    gradient = func.grad(lambda s: s.x * s.unit)(value)
    assert gradient.unit.item() == 2.0  # a dataclass is a composite, without a word
    assert pytree.tree_is_leaf(value)
    pytree.register_pytree_node(Scaled, lambda s: ([s.x], s.unit), lambda c, unit: Scaled(*c, unit))
    try:
        gradient = func.grad(lambda s: s.x * s.unit)(value)
        assert gradient.x.item() == 10.0
        assert gradient.unit is value.unit  # a context now, and no part
        assert ad.flatten(value)[0] == [value.x]
    finally:
        pytree._deregister_pytree_node(Scaled)
    assert func.grad(lambda s: s.x * s.unit)(value).unit.item() == 2.0


@ad.composite(arithmetic=True)
class Pair:
    def __init__(self, x: Any, y: Any) -> None:
        self.x, self.y = x, y


def test_native_arithmetic_follows_a_registration() -> None:
    pair = Pair(ad.tensor(1.0), ad.tensor(2.0))
    assert (pair + pair).y.item() == 4.0
    pytree.register_pytree_node(Pair, lambda p: ([p.x], p.y), lambda c, y: Pair(*c, y))
    try:
        assert (pair + pair).x.item() == 2.0
        assert (pair + pair).y is pair.y
    finally:
        pytree._deregister_pytree_node(Pair)
    assert (pair + pair).y.item() == 4.0


def test_a_compiled_function_knows_parts_by_place() -> None:
    """Attributes that are parts are no reason to record again, unless they change places."""

    class Turning:
        def __init__(self, first: Any, second: Any) -> None:
            self.first, self.second = first, second

    order = ["first", "second"]
    pytree.register_pytree_node(
        Turning,
        lambda t: ([getattr(t, name) for name in order], None),
        lambda parts, _: Turning(**dict(zip(order, parts, strict=True))),
    )
    try:
        compiled = ad.compile(lambda t: t.first - t.second)
        for k in range(3):
            assert compiled(Turning(ad.full((2,), float(k)), ad.ones(2))).tolist() == [k - 1.0] * 2
        assert len(compiled.programs) == 1
        order.reverse()
        assert compiled(Turning(ad.zeros(2), ad.ones(2))).tolist() == [-1.0, -1.0]
    finally:
        pytree._deregister_pytree_node(Turning)
