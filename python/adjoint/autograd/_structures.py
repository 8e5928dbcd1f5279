"""Arguments and results of custom functions that are nested structures.

The native call (``src/bindings/function/function_apply.cpp``) works on leaves; these objects know
how the leaves make up the arguments and the result, and stay with the node. Calls on plain tensors
never come here.
"""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

from adjoint import _tree
from adjoint._core import Tensor

from . import forward_ad
from ._tensors_in_objects import INNOCENT, hidden_tensors

if TYPE_CHECKING:
    from .function import Function


class InputStructure:
    """How the inputs of one call make up the arguments of forward."""

    __slots__ = ("cls", "leaves", "others", "specs")

    def __init__(self, cls: type[Function], leaves: tuple[Any, ...], specs: list[Any]) -> None:
        self.cls = cls
        self.leaves: tuple[Any, ...] | None = leaves  # taken by the call
        self.specs = specs  # one per argument, None for one that is an input itself
        # Names and numbers in the arguments: a gradient built like its argument carries them along.
        self.others = [i for i, leaf in enumerate(leaves) if not isinstance(leaf, Tensor)]

    def arguments(self, ctx: Any, flat: tuple[Any, ...]) -> tuple[Any, ...]:
        """The arguments of jvp, from one tangent per input."""
        return (ctx, *self.structured(flat))

    def structured(self, flat: tuple[Any, ...]) -> tuple[Any, ...]:
        """One thing per input, in the structure of the arguments."""
        result: list[Any] = []
        at = 0
        for spec in self.specs:
            count = 1 if spec is None else spec.num_leaves
            part = flat[at : at + count]
            result.append(part[0] if spec is None else _tree.unflatten(spec, part))
            at += count
        return tuple(result)

    def gradients(self, ctx: Any, given: tuple[Any, ...]) -> tuple[Any, ...]:
        """What backward returned, as one gradient per input."""
        names = argument_names(self.cls, len(self.specs))
        while len(given) > len(self.specs) and given[-1] is None:
            given = given[:-1]
        if len(given) != len(self.specs):
            raise RuntimeError(
                f"function {ctx.name()} returned an incorrect number of gradients (expected "
                f"{len(self.specs)}, got {len(given)}): {self.cls.__name__}.backward must return "
                f"one gradient per argument of forward ({', '.join(map(repr, names))}), None "
                "where there is none"
            )
        flat: list[Any] = []
        for spec, gradient, name in zip(self.specs, given, names, strict=True):
            if spec is None:
                flat.append(gradient)
                continue
            try:
                part = _tree.leaves_like(spec, gradient, name)
                for i in self.others:
                    k = i - len(flat)
                    if 0 <= k < len(part) and not isinstance(part[k], Tensor):
                        part[k] = None
                flat += part
            except ValueError as error:
                raise RuntimeError(
                    f"{self.cls.__name__}.backward returned a gradient that is not built like its "
                    f"argument: {error}"
                ) from None
        return tuple(flat)

    def name(self, index: int) -> str:
        """Input ``index`` as a place in the arguments: ``params['w']``."""
        at = 0
        for i, spec in enumerate(self.specs):
            count = 1 if spec is None else spec.num_leaves
            if index < at + count:
                root = argument_names(self.cls, i + 1)[i]
                return root if spec is None else _tree.paths(spec, root)[index - at]
            at += count
        return f"argument {index}"


class OutputStructure:
    """How the outputs of one call make up what forward returned."""

    __slots__ = ("carried", "leaves", "spec", "spread")

    def __init__(self, leaves: tuple[Any, ...], spec: Any, spread: bool) -> None:
        self.leaves: tuple[Any, ...] | None = leaves  # taken by the call
        self.spec = spec
        self.spread = spread  # backward gets one argument per item of a tuple
        # Names and numbers within the result, which the gradients of it carry along.
        self.carried = {i: x for i, x in enumerate(leaves) if not isinstance(x, Tensor)}
        if spread and self.carried:  # items of the tuple itself have None for a gradient
            depths = [len(accessor) for accessor in spec.accessors()]
            self.carried = {i: x for i, x in self.carried.items() if depths[i] > 1}

    def rebuild(self, flat: tuple[Any, ...]) -> Any:
        """The result, from its outputs."""
        return _tree.unflatten(self.spec, flat)

    def arguments(self, ctx: Any, flat: tuple[Any, ...]) -> tuple[Any, ...]:
        """The arguments of backward, from one gradient per output."""
        if self.carried:
            flat = tuple(self.carried.get(i, item) for i, item in enumerate(flat))
        gradients = _tree.unflatten(self.spec, flat)
        return (ctx, *gradients) if self.spread else (ctx, gradients)

    def tangents(self, ctx: Any, given: Any) -> tuple[Any, ...]:
        """What jvp returned, as one tangent per output."""
        try:
            tangents = _tree.leaves_like(self.spec, given, "the result")
            for i in self.carried:
                if not isinstance(tangents[i], Tensor):
                    tangents[i] = None
            return tuple(tangents)
        except ValueError as error:
            name = ctx._forward_cls.__name__
            raise RuntimeError(
                f"{name}.jvp returned tangents that are not built like what forward returned: "
                f"{error}"
            ) from None


def input_structure(
    cls: type[Function], args: tuple[Any, ...], others: list[Tensor]
) -> InputStructure | None:
    """Take arguments apart that hold tensors which need a gradient; None if there are none.

    Tensors inside objects that are not structures are added to ``others``.
    """
    leaves: list[Any] = []
    specs: list[Any] = []
    for arg in args:
        if isinstance(arg, Tensor):
            leaves.append(arg)
            specs.append(None)
            continue
        found, spec = _tree.flatten(arg)
        wanted = False
        for leaf in found:
            if isinstance(leaf, Tensor):
                wanted = wanted or leaf.requires_grad or _has_tangent(leaf)
            elif type(leaf) not in INNOCENT:
                others += hidden_tensors(leaf)
        if wanted:
            leaves += found
            specs.append(spec)
        else:
            leaves.append(arg)
            specs.append(None)
    if all(spec is None for spec in specs):
        return None
    return InputStructure(cls, tuple(leaves), specs)


def output_structure(raw: Any) -> OutputStructure | None:
    """Take a result apart that holds tensors in more than a tuple; None if it does not."""
    leaves, spec = _tree.flatten(raw)
    if spec.is_leaf() or not any(isinstance(leaf, Tensor) for leaf in leaves):
        return None
    return OutputStructure(tuple(leaves), spec, isinstance(raw, tuple))


def _has_tangent(tensor: Tensor) -> bool:
    return forward_ad.unpack_dual(tensor).tangent is not None


def describe_reads(
    cls: type[Function], args: tuple[Any, ...], tensors: list[Tensor | None], tangents: bool
) -> tuple[list[str], str, str]:
    """What messages say of tensors that forward read although they are not arguments.

    Names for them, how their gradient (or their tangent) is lost, and what to do about it.
    """
    from ._hidden_read_names import describe

    own = getattr(cls, "_describe_reads", None)  # of functions that stand for one of the user's
    if own is not None:
        words: tuple[list[str], str, str] = own(args, tensors, tangents)
        return words
    roots = list(zip(argument_names(cls, len(args)), args, strict=True))
    names = describe(roots, cls.forward, tensors)
    name = cls.__name__
    cause = f"{name}.forward computes with it although it is not an argument of apply, and "
    fix = "pass it to apply as an argument of its own and "
    if tangents:
        cause += f"{name}.jvp is told of its arguments alone"
        fix += "use its tangent in jvp"
    else:
        cause += f"{name}.backward gave it no gradient"
        fix += (
            "return its gradient from backward; use its detach() in forward, or call apply under "
            "no_grad(), if none is wanted"
        )
    rule = "jvp sees to its tangent" if tangents else "backward sees to its gradient"
    fix += f"; or, if {rule} in another way, set allow_hidden_tensors = True in the class"
    return names, cause, fix


def argument_names(cls: type[Function], count: int) -> list[str]:
    """What forward calls its first ``count`` arguments (without ctx)."""
    from .function import _is_setup_context_defined

    try:
        parameters = list(inspect.signature(cls.forward).parameters.values())
    except (TypeError, ValueError):
        parameters = []
    takes_ctx = not _is_setup_context_defined(cls.setup_context)
    if takes_ctx and parameters and parameters[0].kind is not inspect.Parameter.VAR_POSITIONAL:
        parameters = parameters[1:]
    names: list[str] = []
    for parameter in parameters:
        if parameter.kind is inspect.Parameter.VAR_POSITIONAL:
            start = len(names)
            names += [f"{parameter.name}[{i - start}]" for i in range(start, count)]
        else:
            names.append(parameter.name)
    names += [f"argument {i}" for i in range(len(names), count)]
    return names[:count]


def input_name(cls: type[Function], structure: InputStructure | None, index: int) -> str:
    """Input ``index`` of a call, quoted, for messages."""
    if structure is not None:
        return f"'{structure.name(index)}'"
    return f"'{argument_names(cls, index + 1)[index]}'"
