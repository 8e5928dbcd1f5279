"""What the transforms share: choosing arguments, checking results, variables of one's own.

Note [Variables of a transform]: a transform differentiates with respect to fresh aliases of its
arguments. An argument that already has a history keeps it (the alias is a view of it), so that
transforms nest on the one tape; any other becomes a leaf. Whether the derivative itself must be
recorded follows from the graph: only if it leads to something other than these variables.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from adjoint import _core, _tree
from adjoint._core import Tensor
from adjoint._transforming import by_variables
from adjoint.autograd.grad_mode import enable_grad

from ._tensor_leaves import TensorLeaves, tensor_inputs

Argnums = int | tuple[int, ...]


def positions(argnums: Argnums, count: int) -> tuple[int, ...]:
    """``argnums`` as non-negative positions among ``count`` arguments, checked."""
    if not isinstance(argnums, int | tuple):
        raise RuntimeError(f"argnums must be int or Tuple[int, ...], got: {type(argnums)}")
    given = (argnums,) if isinstance(argnums, int) else argnums
    if not given:
        raise RuntimeError("argnums must be non-empty")
    found = []
    for n in given:
        if not isinstance(n, int):
            raise RuntimeError(f"argnums must be int or Tuple[int, ...], got {n!r} in {argnums!r}")
        if not -count <= n < count:
            raise RuntimeError(
                f"Got argnum={n}, but only {count} positional inputs: it must lie in "
                f"[{-count}, {count})"
            )
        found.append(n % count)
    if len(set(found)) != len(found):
        raise RuntimeError(f"argnums elements must be unique, got {argnums!r}")
    return tuple(found)


def chosen(args: Sequence[Any], argnums: Argnums) -> Any:
    """The arguments to differentiate by: one, or a tuple of them."""
    at = positions(argnums, len(args))
    return args[at[0]] if isinstance(argnums, int) else tuple(args[i] for i in at)


def lent(thing: Any) -> Any:
    """What a function is given that is not differentiated by it.

    A tensor is the same memory under another name: the function may change it in place, and a
    history it writes into it ends with the transform. Structures stay the objects they are, since
    a function may well put something into them.
    """
    return _core._argument(thing) if isinstance(thing, Tensor) else thing


def lent_by_name(kwargs: dict[str, Any]) -> dict[str, Any]:
    """The same for keyword arguments."""
    return {name: lent(x) for name, x in kwargs.items()} if kwargs else kwargs


def replaced(args: Sequence[Any], argnums: Argnums, values: Any) -> tuple[Any, ...]:
    """The arguments with other values in the chosen places; the rest is lent."""
    at = positions(argnums, len(args))
    changed = [x if i in at else lent(x) for i, x in enumerate(args)]
    for i, value in zip(at, (values,) if isinstance(argnums, int) else values, strict=True):
        changed[i] = value
    return tuple(changed)


def tensor_args(
    args: Sequence[Any], argnums: Argnums, name: str, label: str | None = None
) -> TensorLeaves:
    """The tensors of the arguments to differentiate by."""
    if label is not None and isinstance(argnums, int):
        return tensor_inputs(chosen(args, argnums), name, [label], several=False)
    labels = [f"{label or 'args'}[{i}]" for i in positions(argnums, len(args))]
    return tensor_inputs(chosen(args, argnums), name, labels, isinstance(argnums, tuple))


def tensor_primals(primals: tuple[Any, ...], name: str) -> TensorLeaves:
    """The same, where all arguments are differentiated by."""
    return tensor_inputs(
        primals, name, [f"primals[{i}]" for i in range(len(primals))], several=True
    )


class Variables:
    """Fresh aliases of the tensors in a structure; see Note [Variables of a transform]."""

    def __init__(self, selected: TensorLeaves) -> None:
        self.selected = selected
        given: list[Tensor] = selected.tensors
        self.outer = _core.is_grad_enabled()
        self.continued = any(x.requires_grad for x in given)
        with enable_grad():  # a derivative taken after no_grad has ended is recorded as ever
            self.tensors: list[Tensor] = [_core._variable(x, x.requires_grad) for x in given]

    def under_way(self, again: bool = False) -> by_variables:
        """The block in which a function of them runs; maybe differentiated `again`, later."""
        return by_variables(self.tensors, again or (self.outer and self.continued))

    @property
    def tree(self) -> Any:
        """The variables in the structure of the arguments."""
        return self.selected.filled(self.tensors)

    def leads_further(self, outputs: Sequence[Tensor]) -> bool:
        """Whether derivatives of ``outputs`` can be differentiated by anything but these."""
        return self.continued or _core._reaches_others(tuple(outputs), tuple(self.tensors))

    def must_record(self, outputs: Sequence[Tensor]) -> bool:
        """The same, if anything is recorded where the transform was called."""
        return self.outer and self.leads_further(outputs)

    def end(self) -> None:
        """Nothing is differentiated by them from here on, but by what they were made of.

        A graph that still leads to them, because it leads elsewhere too, is not recorded for them.
        """
        _core._end_variables(tuple(self.tensors))

    def gradients(
        self,
        outputs: Sequence[Tensor],
        cotangents: Sequence[Tensor | None] | None,
        retain_graph: bool,
        create_graph: bool,
    ) -> list[Tensor]:
        """One gradient per variable; zeros where the outputs do not depend on it."""
        from adjoint.autograd import grad

        given = cotangents if cotangents is not None else [None] * len(outputs)
        used = [(y, c) for y, c in zip(outputs, given, strict=True) if y.requires_grad]
        if not used:
            return [_core.zeros_like(x) for x in self.tensors]
        ys, cs = zip(*used, strict=True)
        found = grad(
            ys,
            self.tensors,
            cs if cotangents is not None else None,
            retain_graph=retain_graph,
            create_graph=create_graph,
            allow_unused=True,
        )
        return [
            _core.zeros_like(x) if g is None else g
            for x, g in zip(self.tensors, found, strict=True)
        ]


def released(tree: Any, recorded: bool) -> Any:
    """Results without the history of the transform's own variables, unless it leads further."""
    if recorded:
        return tree
    leaves, spec = _tree.flatten(tree)
    return _tree.unflatten(
        spec,
        [_core._released(x) if isinstance(x, Tensor) and x.requires_grad else x for x in leaves],
    )


def split_aux(output: Any, has_aux: bool, name: str) -> tuple[Any, Any]:
    """``(output, aux)``, with None where no aux is expected."""
    if not has_aux:
        return output, None
    if not (isinstance(output, tuple) and len(output) == 2):
        raise RuntimeError(
            f"{name}: output of function f should be a tuple: (output, aux) if has_aux is True"
        )
    return output


def named(wrapper: Callable[..., Any], func: Callable[..., Any]) -> Callable[..., Any]:
    """``wrapper`` with the name and docstring of ``func``, where it has them."""
    for attribute in ("__module__", "__name__", "__qualname__", "__doc__"):
        if hasattr(func, attribute):
            setattr(wrapper, attribute, getattr(func, attribute))
    wrapper.__wrapped__ = func  # type: ignore[attr-defined]
    return wrapper
