"""What a composite is: which classes are taken apart, how they are rebuilt, what is refused."""

from __future__ import annotations

import math
from collections import OrderedDict, defaultdict, deque, namedtuple
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import pytest

import adjoint as ad

Pair = namedtuple("Pair", "x y")


class NamedPair(Pair):
    """Derived from a named tuple."""

    def total(self) -> Any:
        return self.x + self.y


@dataclass
class Body:
    position: Any
    velocity: Any
    name: str = "body"


@dataclass(frozen=True)
class Frozen:
    x: Any
    k: int = 3


@dataclass(slots=True)
class Slots:
    x: Any
    y: Any = None


@dataclass(kw_only=True, frozen=True, slots=True)
class Everything:
    x: Any
    extra: Any = field(default_factory=dict)
    made: Any = field(init=False, default=7)


@dataclass
class Checked:
    """A class whose constructor refuses what a gradient may be."""

    mass: Any
    count: int = field(init=False)

    def __post_init__(self) -> None:
        if float(self.mass) <= 0:
            raise ValueError("mass must be positive")
        self.count = 5


@ad.composite
class Own:
    def __init__(self, a: Any, b: Any) -> None:
        self.a, self.b = a, b


@ad.composite
class OwnSlots:
    __slots__ = ("__hidden", "a")

    def __init__(self, a: Any, hidden: Any) -> None:
        self.a, self.__hidden = a, hidden

    def both(self) -> tuple[Any, Any]:
        return self.a, self.__hidden


class Derived(Own):
    pass


class Methods:
    def __init__(self, *items: Any, tag: str = "") -> None:
        self.items, self.tag = items, tag

    def __tree_flatten__(self) -> tuple[Any, Any]:
        return self.items, self.tag

    @classmethod
    def __tree_unflatten__(cls, metadata: Any, children: Any) -> Methods:
        return cls(*children, tag=metadata)


def t(*values: float) -> ad.Tensor:
    return ad.tensor(values)


STRUCTURES = {
    "tensor": lambda: t(1.0),
    "tuple": lambda: (t(1.0), t(2.0)),
    "list": lambda: [t(1.0), [t(2.0)]],
    "dict": lambda: {"b": t(1.0), "a": {"c": t(2.0)}, 3: t(4.0)},
    "OrderedDict": lambda: OrderedDict([("b", t(1.0)), ("a", t(2.0))]),
    "defaultdict": lambda: defaultdict(list, {"a": [t(1.0)]}),
    "deque": lambda: deque([t(1.0)], maxlen=3),
    "namedtuple": lambda: Pair(t(1.0), t(2.0)),
    "derived namedtuple": lambda: NamedPair(t(1.0), t(2.0)),
    "dataclass": lambda: Body(t(1.0), t(2.0), "moon"),
    "frozen": lambda: Frozen(t(1.0), 4),
    "slots": lambda: Slots(t(1.0)),
    "everything": lambda: Everything(x=t(1.0), extra={"k": [t(2.0), "s"]}),
    "checked": lambda: Checked(t(2.0)),
    "own": lambda: Own(t(1.0), {"f": math.sin}),
    "own with slots": lambda: OwnSlots(t(1.0), t(2.0)),
    "derived": lambda: Derived(t(1.0), [t(3.0)]),
    "methods": lambda: Methods(t(1.0), [t(2.0)], tag="m"),
    "nested": lambda: {"w": [Body(Pair(t(1.0), t(2.0)), (Frozen(t(3.0)),))], "none": None},
    "empty": lambda: {"a": [], "b": ()},
}


@pytest.mark.parametrize("kind", STRUCTURES)
def test_taken_apart_and_rebuilt(kind: str) -> None:
    state = STRUCTURES[kind]()
    if kind == "tensor":
        assert ad.map(lambda x: x, state) is state
        return
    tensors, structure = ad.flatten(state)
    assert all(type(x) is ad.Tensor for x in tensors)
    again = ad.unflatten(structure, tensors)
    assert type(again) is type(state) and again is not state
    tensors_again, structure_again = ad.flatten(again)
    assert all(x is y for x, y in zip(tensors, tensors_again, strict=True))
    assert structure == structure_again and hash(structure) == hash(structure_again)


def test_what_is_no_tensor_is_carried_along() -> None:
    f = object()
    state = Body({"x": t(1.0), "f": math.sin, "o": f, "n": None}, 1.5, "earth")
    double = ad.map(lambda x: 2 * x, state)
    assert double.position["f"] is math.sin and double.position["o"] is f
    assert double.position["n"] is None and double.velocity == 1.5 and double.name == "earth"
    assert double.position["x"].tolist() == [2.0]


def test_containers_keep_what_they_are() -> None:
    made = ad.clone(STRUCTURES["defaultdict"]())
    assert made.default_factory is list and made["new"] == []
    assert list(ad.clone({"b": t(1.0), "a": t(2.0)})) == ["b", "a"]
    assert ad.clone(STRUCTURES["deque"]()).maxlen == 3
    assert ad.clone(STRUCTURES["derived namedtuple"]()).total().tolist() == [3.0]
    assert [x.tolist() for x in ad.clone(STRUCTURES["own with slots"]()).both()] == [[1.0], [2.0]]


def test_objects_are_rebuilt_without_their_constructor() -> None:
    negative = ad.map(lambda m: -m, Checked(ad.tensor(2.0)))
    assert negative.mass.item() == -2.0 and negative.count == 5


def test_fields_without_a_value_stay_without() -> None:
    body = Body.__new__(Body)
    body.position = t(1.0)
    again = ad.clone(body)
    assert again.position.tolist() == [1.0] and not hasattr(again, "velocity")
    assert again.name == "body"  # the default of the class


def test_other_attributes_go_along_and_tensors_among_them_are_parts() -> None:
    body = Body(t(1.0), t(2.0))
    body.cache = {"k": 1}  # type: ignore[attr-defined]
    body.mass = t(3.0)  # type: ignore[attr-defined]
    again = ad.map(lambda x: x * 2, body)
    assert again.cache is body.cache and again.mass.tolist() == [6.0]  # type: ignore[attr-defined]


def test_other_attributes_go_along_where_a_field_is_in_the_class_only() -> None:
    @dataclass
    class Grown:
        x: Any
        made: Any = field(default=None, init=False)  # is not put into the object

    @dataclass(slots=True)
    class Base:
        x: Any

    class Extended(Base):
        """Fields in slots, and a ``__dict__``."""

    for cls in (Grown, Extended):
        value: Any = cls(ad.ones(1))
        value.more = ad.ones(2)
        again = ad.map(lambda x: x * 2, value)
        assert again.x.tolist() == [2.0] and again.more.tolist() == [2.0, 2.0]


def test_cached_properties_are_computed_anew() -> None:
    @ad.composite
    class Square:
        def __init__(self, x: Any) -> None:
            self.x = x

        @cached_property
        def area(self) -> Any:
            return self.x**2

    @dataclass
    class Side(Square):
        x: Any

    for cls in (Square, Side):
        square = cls(t(3.0))
        assert square.area.tolist() == [9.0]
        assert ad.map(lambda x: x * 2, square).area.tolist() == [36.0]


def test_a_field_behind_a_property_is_set_through_it() -> None:
    @dataclass
    class Logged:
        x: Any

    def get(self: Any) -> Any:
        return self._x

    def put(self: Any, value: Any) -> None:
        self._x = value
        self.sets = getattr(self, "sets", 0) + 1

    Logged.x = property(get, put)  # type: ignore[assignment]
    again = ad.clone(Logged(t(1.0)))
    assert again.x.tolist() == [1.0]


def test_classes_with_only_one_of_the_methods_are_refused() -> None:
    class Half:
        def __tree_flatten__(self) -> Any:
            return (), None

    with pytest.raises(TypeError, match=r"Half has only one of .* __tree_unflatten__ is missing"):
        ad.flatten(Half())


def test_methods_must_return_children_and_metadata() -> None:
    class Wrong(Methods):
        def __tree_flatten__(self) -> Any:
            return [1]

    with pytest.raises(TypeError, match=r"Wrong.__tree_flatten__ must return"):
        ad.flatten(Wrong())


def test_attrs_classes_need_no_registration() -> None:
    attrs = pytest.importorskip("attrs")

    @attrs.frozen
    class Point:
        x: Any
        name: str = "p"

    @attrs.define
    class Line:
        a: Any
        b: Any = attrs.field(factory=list)

    line = Line(Point(t(1.0)), [t(2.0)])
    double = ad.map(lambda x: 2 * x, line)
    assert isinstance(double, Line) and isinstance(double.a, Point)
    assert double.a.x.tolist() == [2.0] and double.a.name == "p" and double.b[0].tolist() == [4.0]


def test_a_class_decorated_after_it_was_met_is_a_composite() -> None:
    class Late:
        def __init__(self) -> None:
            self.x = t(1.0)

    assert ad.numel({"late": Late(), "y": t(1.0, 2.0)}) == 2
    ad.composite(Late)
    assert ad.numel({"late": Late(), "y": t(1.0, 2.0)}) == 3


def test_composite_decorates_classes_only() -> None:
    with pytest.raises(TypeError, match=r"composite\(\) decorates classes, got a dict"):
        ad.composite({})
    with pytest.raises(TypeError, match=r"composite\(\) decorates classes, got 3"):
        ad.composite(arithmetic=True)(3)  # type: ignore[type-var]


def test_a_structure_that_contains_itself_is_refused_with_the_path() -> None:
    state = {"bodies": [Body(t(1.0), t(2.0))]}
    state["bodies"][0].name = state  # type: ignore[assignment]
    with pytest.raises(ValueError, match=r"structure\['bodies'\]\[0\].name is structure itself"):
        ad.requires_grad(state)
    body = Body(t(1.0), [])
    body.velocity.append(body.velocity)
    with pytest.raises(ValueError, match=r"body.velocity\[0\] is body.velocity itself"):
        ad.autograd.grad(body.position.sum(), body)


def test_the_same_part_twice_is_no_cycle() -> None:
    part = [t(1.0)]
    assert ad.numel((part, part, {"p": part})) == 1


def test_very_deep_structures_are_refused_as_such() -> None:
    deep: Any = t(1.0)
    for _ in range(2000):
        deep = [deep]
    with pytest.raises(ValueError, match=r"nested more than 1000 levels deep"):
        ad.clone(deep)


class Plain:
    def __init__(self, x: Any) -> None:
        self.x = x


class Params(dict[str, Any]):
    pass


def test_tensors_hidden_in_other_objects_are_refused() -> None:
    x = ad.ones(1, requires_grad=True)
    with pytest.raises(TypeError, match=r"grads\(\): composite\['p'\].x, a tensor that requires"):
        ad.grads({"p": Plain(x), "y": t(1.0)})
    with pytest.raises(TypeError, match=r"\['p'\]\['w'\].* hidden in an object of class Params"):
        ad.detach({"p": Params(w=x), "y": t(1.0)})
    assert ad.numel({"p": Plain(t(1.0)), "y": t(1.0)}) == 1  # a constant: carried along


@pytest.mark.parametrize("f", [ad.clone, ad.flatten, ad.ravel, ad.detach, ad.numel, ad.grads])
def test_classes_that_are_no_composites_get_a_fix(f: Any) -> None:
    with pytest.raises(TypeError, match=r"fix: decorate class Plain with @adjoint.composite"):
        f(Plain(t(1.0)))


@pytest.mark.parametrize("f", [ad.clone, ad.flatten, ad.ravel, ad.detach, ad.numel, ad.grads])
def test_structures_without_tensors_are_refused(f: Any) -> None:
    with pytest.raises(TypeError, match=r"but this list holds none"):
        f([1, 2.0, "x"])
    with pytest.raises(TypeError, match=r"must be Tensor, not str|expected a Tensor or"):
        f("text")


def test_structures_compare_what_is_beside_the_tensors() -> None:
    def structure(value: Any) -> Any:
        return ad.flatten([t(1.0), value])[1]

    assert structure(math.nan) == structure(math.nan)
    assert structure(np.arange(3)) == structure(np.arange(3))
    assert structure(np.arange(3)) != structure(np.arange(4))
    assert structure(1) != structure(2) and structure(1) != "something else"
    assert structure(t(1.0)) != structure(None)

    class Awkward:
        def __eq__(self, other: object) -> bool:
            raise RuntimeError

        __hash__ = None  # type: ignore[assignment]

    assert structure(Awkward()) != structure(Awkward())


def test_structures_print_as_trees() -> None:
    structure = ad.flatten({"a": Body(t(1.0), [2])})[1]
    assert repr(structure).splitlines() == [
        "Structure of a dict",
        "  ['a']: Body",
        "    position: tensor",
        "    velocity: list",
        "      [0]: 2",
        "    name: 'body'",
    ]
    assert structure.num_tensors == 1 and structure.paths("s") == ["s['a'].position"]


def test_unflatten_counts_its_leaves() -> None:
    structure = ad.flatten([t(1.0), t(2.0)])[1]
    with pytest.raises(ValueError, match=r"the structure has 2 tensors, got 1"):
        ad.unflatten(structure, [t(1.0)])
    with pytest.raises(TypeError, match=r"expected a sequence of tensors, not int"):
        ad.unflatten(structure, 3)
    assert ad.unflatten(structure, iter("ab")) == ["a", "b"]


def test_flatten_of_a_composite_takes_no_dims() -> None:
    with pytest.raises(TypeError, match=r"start_dim and end_dim are for tensors"):
        ad.flatten([t(1.0)], 0)
