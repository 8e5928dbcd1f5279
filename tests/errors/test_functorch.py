"""Messages of modules called with other tensors, of functorch's names and of pytree."""

from __future__ import annotations

import collections
import dataclasses
from typing import Any

import pytest

import adjoint as ad
from adjoint import func, nn
from adjoint._functorch import make_functional as made
from adjoint.functorch import experimental
from adjoint.nn.utils import stateless
from adjoint.utils import _pytree
from tests.errors.table import Row, check, refusals

x = ad.ones(2)
lin = nn.Linear(2, 2)


class Tied(nn.Module):
    """Two names of one parameter, an attribute that is not a tensor."""

    def __init__(self) -> None:
        super().__init__()
        self.a = self.b = nn.Parameter(ad.ones(2))
        self.number = 3

    def forward(self, y: Any) -> Any:
        return self.a * y


def evaluated() -> nn.Module:
    return nn.Linear(2, 2).eval()


def frozen() -> nn.Module:
    return nn.Linear(2, 2).requires_grad_(False)


def call(tensors: Any, module: Any = None, **options: Any) -> Any:
    return func.functional_call(module or Tied(), tensors, (x,), **options)


@refusals(
    (lambda: call(3), ValueError, "to be a dict, or a list/tuple of dicts, but got <class 'int'>"),
    (lambda: call([3]), ValueError, "to be dictionaries, but got <class 'int'>"),
    (lambda: call([{"a": x}, {"a": x}]), ValueError, "['a'] appeared in multiple dictionaries"),
    (lambda: call({"a": x, "b": x + 1}), ValueError, "keys ['a', 'b'], which are tied."),
    (lambda: call({"c": x}, strict=True), RuntimeError, "Unexpected key(s): 'c'."),
    (lambda: call({}, strict=True), RuntimeError, "Missing key(s): 'a', 'b'."),
    (lambda: call({"c.d": x}), AttributeError, "Tied has no attribute `c`"),
    (lambda: call({"number.d": x}), TypeError, "submodule `number`: 3 is not an instance"),
    (lambda: call({"a": 3}), TypeError, "3 is not an instance of torch.Tensor"),
    (lambda: call({"number": x}), TypeError, "attribute `number`: 3 is not an instance"),
    (lambda: func.functional_call(3, {}, (x,)), TypeError, "expected a module, got int"),  # type: ignore[arg-type]
    (lambda: stateless.call_with(lin, 3), TypeError, "to be a dictionary, but got int"),  # type: ignore[arg-type]
    (lambda: func.stack_module_state([]), RuntimeError, "Expected at least one model, got 0."),
    (lambda: func.stack_module_state([lin, evaluated()]), RuntimeError, "same training/eval mode."),
    (lambda: func.stack_module_state([lin, Tied()]), RuntimeError, "to be of the same class."),
    (lambda: func.stack_module_state([lin, frozen()]), RuntimeError, "the same .requires_grad"),
    (lambda: func.functionalize(abs, remove="views"), RuntimeError, "remove=views. Valid options"),
    (lambda: made.make_functional(nn.BatchNorm1d(2)), RuntimeError, "make_functional_with_buffers"),
    (lambda: made.combine_state_for_ensemble([]), RuntimeError, "at least one model, got 0."),
    (
        lambda: made.combine_state_for_ensemble([lin, evaluated()]),
        RuntimeError,
        "training/eval mode",
    ),
    (lambda: made.combine_state_for_ensemble([lin, Tied()]), RuntimeError, "of the same class."),
    (lambda: experimental.chunk_vmap(abs, chunks=0), ValueError, "greater than 0. (got 0)"),
)
def test_modules_called_with_other_tensors(row: Row) -> None:
    check(row)


def test_a_refused_call_leaves_the_module_as_it_was() -> None:
    module = Tied()
    before = module.a
    for tensors in ({"a": ad.zeros(2), "number": x}, {"a": 3}, {"a": ad.zeros(2), "c.d": x}):
        with pytest.raises((TypeError, AttributeError)):
            call(tensors, module, tie_weights=False)
    assert module.a is before and module.b is before and (before == 1).all()


def test_the_old_address_of_functional_call_warns() -> None:
    with pytest.warns(FutureWarning, match=r"Please use `torch\.func\.functional_call` instead"):
        stateless.functional_call(Tied(), {"a": x}, x)


@dataclasses.dataclass
class Pair:
    """Two fields."""

    a: Any
    b: Any


class Plain:
    pass


class Unnamed:
    def __init__(self, *parts: object) -> None:
        self.parts = parts


class Named(Unnamed):
    pass


_pytree.register_pytree_node(Unnamed, lambda u: (u.parts, None), lambda c, _: Unnamed(*c))
_pytree.register_pytree_node(
    Named, lambda u: (u.parts, {1j}), lambda c, _: Named(*c), serialized_type_name="named"
)
spec = _pytree.tree_flatten({"a": 1, "b": (2, 3)})[1]


@refusals(
    (lambda: _pytree.register_pytree_node(dict, iter, dict), ValueError, "already registered"),  # type: ignore[arg-type]
    (
        lambda: _pytree.register_dataclass(int),
        ValueError,
        "initialize <class 'int'>, as it is not a dataclass.",
    ),
    (
        lambda: _pytree.register_constant(Plain),
        TypeError,
        "expects `cls` to have a non-default `__eq__`",
    ),
    (
        lambda: _pytree.register_constant(list),
        TypeError,
        "expects `cls` to have a non-default `__hash__`",
    ),
    (
        lambda: _pytree.register_pytree_node(
            Plain, lambda p: ([], None), lambda c, _: Plain(), to_dumpable_context=repr
        ),
        ValueError,
        "must be None or registered.",
    ),
    (
        lambda: _pytree._register_namedtuple(int, serialized_type_name="i"),
        TypeError,
        "expects a class of named tuples, got <class 'int'>",
    ),
    (
        lambda: _pytree.TreeSpec(Plain, None, []),
        ValueError,
        "fix: register_pytree_node(Plain, ...) first",
    ),
    (lambda: _pytree.treespec_tuple([3]), ValueError, "Expected a tuple of TreeSpec values"),  # type: ignore[list-item]
    (lambda: _pytree.treespec_dict(a=3), ValueError, "Expected a dictionary of TreeSpec"),  # type: ignore[arg-type]
    (lambda: _pytree.treespec_dumps(3), TypeError, "got item of type <class 'int'>."),  # type: ignore[arg-type]
    (lambda: _pytree.treespec_dumps(spec, 2), ValueError, "Unknown protocol 2."),
    (lambda: _pytree.treespec_loads("[0, null]"), ValueError, "Unknown protocol 0."),
    (
        lambda: _pytree.treespec_loads('[1, {"type": "x", "context": "", "children_spec": []}]'),
        NotImplementedError,
        "Deserializing x in pytree is not registered.",
    ),
    (
        lambda: _pytree.treespec_dumps(_pytree.tree_structure(Unnamed(1))),
        NotImplementedError,
        "fix: pass serialized_type_name to register_pytree_node",
    ),
    (
        lambda: _pytree.treespec_dumps(_pytree.tree_structure(Named(1))),
        TypeError,
        "fix: pass to_dumpable_context and from_dumpable_context",
    ),
    (
        lambda: _pytree.treespec_dumps(_pytree.tree_structure(collections.namedtuple("N", "a")(1))),
        NotImplementedError,
        "fix: _register_namedtuple(N, serialized_type_name=...)",
    ),
    (
        lambda: _pytree.treespec_dumps(_pytree.tree_structure(collections.defaultdict(Plain))),
        NotImplementedError,
        "fix: use one of bool, int, float",
    ),
    (
        lambda: _pytree.treespec_loads(
            '[1, {"type": "builtins.dict", "children_spec": [],'
            ' "context": "{\\"__enum__\\": true, \\"fqn\\": \\"os:path\\"}"}]'
        ),
        NotImplementedError,
        "No enum os:path is imported.",
    ),
    (
        lambda: _pytree.tree_leaves_with_path(Unnamed(1)),
        ValueError,
        "Did not find a flatten_with_keys_fn for type: <class",
    ),
    (
        lambda: _pytree.register_dataclass(Pair, field_names=["c"]),
        ValueError,
        "field_names ['c'] do not name the fields of Pair, which are ['a', 'b']",
    ),
    (lambda: _pytree.tree_unflatten([1], spec), ValueError, "`leaves` has length 1 but the spec"),
    (lambda: _pytree.tree_unflatten([1], 3), TypeError, "got item of type <class 'int'>."),  # type: ignore[arg-type]
    (lambda: spec.flatten_up_to([1]), ValueError, "Expected an instance of dict, collections"),
    (lambda: spec.flatten_up_to({"a": 1, "c": 1}), ValueError, "missing key(s): ['b']"),
    (lambda: _pytree.tree_map_only(3, abs, [1]), TypeError, "Argument must be a type, a tuple"),  # type: ignore[call-overload]
)
def test_trees(row: Row) -> None:
    check(row)
