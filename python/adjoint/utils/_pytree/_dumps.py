"""Structures as JSON, in the format of ``torch.utils._pytree.treespec_dumps``.

Reading never imports or calls anything that a text names: classes are those registered under a
name, members of enums are looked up in modules that are there, and factories of defaultdicts are
few.
"""

from __future__ import annotations

import enum
import json
import sys
from collections import OrderedDict, defaultdict, deque, namedtuple
from typing import Any

from . import _nodes
from ._spec import TreeSpec, treespec_leaf

_PROTOCOL = 1
_FACTORIES: tuple[Any, ...] = (
    bool, int, float, complex, str, bytes, list, tuple, dict, set, frozenset, OrderedDict, deque
)  # fmt: skip


def treespec_dumps(treespec: TreeSpec, protocol: int | None = None) -> str:
    """Write a structure as text.

    Parameters
    ----------
    treespec
        The structure. Classes in it need the ``serialized_type_name`` of their registration.
    protocol
        The version of the format: 1, or None for the newest.

    Examples
    --------
    >>> from adjoint.utils import _pytree
    >>> text = _pytree.treespec_dumps(_pytree.tree_structure({"a": 1}))
    >>> _pytree.treespec_loads(text)
    TreeSpec(dict, ['a'], [*])
    """
    if not isinstance(treespec, TreeSpec):
        raise TypeError(
            "treespec_dumps(treespec): Expected `treespec` to be instance of TreeSpec but got "
            f"item of type {type(treespec)}."
        )
    _check_protocol(_PROTOCOL if protocol is None else protocol)
    return json.dumps((_PROTOCOL, _row(treespec)), default=_enum_row)


def treespec_loads(serialized: str) -> TreeSpec:
    """The structure that `treespec_dumps` wrote."""
    protocol, row = json.loads(serialized)
    _check_protocol(protocol)
    return _spec(row)


def _check_protocol(protocol: Any) -> None:
    if protocol != _PROTOCOL:
        raise ValueError(f"Unknown protocol {protocol}. Available protocols: {[_PROTOCOL]}")


def _row(spec: TreeSpec) -> dict[str, Any]:
    if spec.is_leaf():
        return {"type": None, "context": None, "children_spec": []}
    writing = _nodes.written.get(spec.type)
    if writing is None or writing.name is None:
        raise NotImplementedError(
            f"No registered serialization name for {spec.type} found.\n"
            "  fix: pass serialized_type_name to register_pytree_node"
        )
    context = spec.context
    if spec.type is namedtuple:
        text: Any = _name_of_namedtuple(context)
    elif spec.type is defaultdict:
        text = _factory_row(*context)
    elif writing.to_json is not None:
        text = writing.to_json(context)
    else:
        try:
            text = json.dumps(context, default=_enum_row)
        except TypeError as error:
            raise TypeError(
                f"Unable to serialize context {context!r} of {spec.type}.\n"
                "  fix: pass to_dumpable_context and from_dumpable_context to register_pytree_node"
            ) from error
    children = [_row(child) for child in spec.children()]
    return {"type": writing.name, "context": text, "children_spec": children}


def _spec(row: Any) -> TreeSpec:
    name, text, children = row["type"], row["context"], row["children_spec"]
    if name is None:
        return treespec_leaf()
    writing = _registered(name)
    if writing.type is namedtuple:
        context = _registered(text).type
    elif writing.type is defaultdict:
        context = _factory(text)
    elif writing.from_json is not None:
        context = writing.from_json(text)
    else:
        context = json.loads(text, object_hook=_enum_member)
    return TreeSpec(writing.type, context, [_spec(child) for child in children])


def _registered(name: Any) -> _nodes.Written:
    for writing in reversed(_nodes.written.values()):  # the latest to take a name has it
        if writing.name == name:
            return writing
    raise NotImplementedError(f"Deserializing {name} in pytree is not registered.")


def _name_of_namedtuple(cls: type) -> str:
    writing = _nodes.written.get(cls)
    if writing is None or writing.name is None:
        raise NotImplementedError(
            f"Can't serialize TreeSpec of namedtuple class {cls}: it has no name.\n"
            f"  fix: _register_namedtuple({cls.__name__}, serialized_type_name=...)"
        )
    return writing.name


def _factory_row(factory: Any, keys: list[Any]) -> dict[str, Any]:
    if factory not in _FACTORIES:
        raise NotImplementedError(
            f"Can't serialize a defaultdict of {factory!r}: a text could name anything to be "
            f"called.\n  fix: use one of {', '.join(f.__name__ for f in _FACTORIES)}"
        )
    return {
        "default_factory_module": factory.__module__,
        "default_factory_name": factory.__qualname__,
        "dict_context": keys,
    }


def _factory(row: Any) -> list[Any]:
    module, name = row["default_factory_module"], row["default_factory_name"]
    for factory in _FACTORIES:
        if (factory.__module__, factory.__qualname__) == (module, name):
            return [factory, row["dict_context"]]
    raise NotImplementedError(f"A defaultdict of {module}.{name} is not read from a text.")


def _enum_row(value: Any) -> dict[str, Any]:
    if not isinstance(value, enum.Enum):
        raise TypeError(f"Object of type {type(value).__name__} is not JSON serializable")
    cls = type(value)
    return {"__enum__": True, "fqn": f"{cls.__module__}:{cls.__qualname__}", "name": value.name}


def _enum_member(row: dict[str, Any]) -> Any:
    if "__enum__" not in row:
        return row
    module, _, path = row["fqn"].partition(":")
    found: Any = sys.modules.get(module)
    for part in path.split("."):
        found = vars(found).get(part) if hasattr(found, "__dict__") else None
    if not isinstance(found, enum.EnumMeta):
        raise NotImplementedError(f"No enum {row['fqn']} is imported.")
    return found.__members__[row["name"]]
