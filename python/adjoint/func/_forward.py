"""Forward-mode transforms: ``jvp``, ``linearize``. Products with Hessians: _hessian_products.py."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from adjoint import _core, _tree
from adjoint._core import Tensor
from adjoint._transforming import differentiating
from adjoint.autograd import forward_ad
from adjoint.autograd.grad_mode import enable_grad
from adjoint.composite._functions import can_have_gradient

from ._arguments import Variables, released, split_aux, tensor_primals
from ._tensor_leaves import TensorLeaves, tensor_outputs

_JVP = "jvp(f, primals, tangents)"


def primal_tensors(primals: Any, name: str) -> TensorLeaves:
    """The tensors of the primals."""
    if not isinstance(primals, tuple):
        raise RuntimeError(
            f"{name}: Expected primals to be a tuple. E.g. it should be valid to call f(*primals)."
        )
    for i, x in enumerate(primals):
        if not isinstance(x, Tensor) and not _tree.is_structure(x):
            raise RuntimeError(
                f"{name}: Expected primals to only contain Tensors, got {type(x).__name__}: {x!r} "
                f"for primals[{i}].\n  fix: pass a tensor, or a lambda that holds this argument"
            )
    selected = tensor_primals(primals, name)
    if not selected.tensors:
        raise RuntimeError(f"{name}: Expected primals to hold at least one Tensor, got {primals}")
    return selected


def directions_like(selected: TensorLeaves, tangents: Any, name: str) -> list[Tensor]:
    """The tangents of the tensors, which must be built as the primals are."""
    directions, other = _tree.flatten(tangents)
    if selected.spec != other:
        raise RuntimeError(
            f"{name}: Expected primals and tangents to have the same python structure. For "
            "example, if primals is a tuple of 3 tensors, tangents also must be. Got primals "
            f"with structure {selected.spec} and tangents with structure {other}"
        )
    found = selected.like(directions, f"{name}: tangents")
    for i, x in enumerate(found):
        if not isinstance(x, Tensor):
            raise RuntimeError(
                f"{name}: Expected tangents to only contain Tensors, got {type(x).__name__}: {x!r} "
                f"for {selected.paths()[i]}.\n  fix: use zeros for what does not move"
            )
    return found


def jvp(
    func: Callable[..., Any],
    primals: tuple[Any, ...],
    tangents: tuple[Any, ...],
    *,
    strict: bool = False,
    has_aux: bool = False,
) -> tuple[Any, ...]:
    """Return the value of ``func`` and its derivative in the direction ``tangents``.

    Parameters
    ----------
    func
        A function of tensors, or of structures of them.
    primals, tangents
        Its arguments and the directions they move in: tuples of the same structure.
    strict
        Raise if an output does not depend on the primals, instead of returning zeros.
    has_aux
        Whether ``func`` returns ``(output, aux)``.

    Returns
    -------
    tuple
        ``(output, jvp_out)`` or ``(output, jvp_out, aux)``.

    Examples
    --------
    >>> import adjoint as ad
    >>> x = ad.tensor([1.0, 2.0])
    >>> ad.func.jvp(lambda x: x * x, (x,), (ad.tensor([1.0, 0.0]),))
    (tensor([1., 4.]), tensor([2., 0.]))
    """
    selected = primal_tensors(primals, _JVP)
    return pushed(func, selected, directions_like(selected, tangents, _JVP), strict, has_aux, _JVP)


def pushed(
    func: Callable[..., Any],
    selected: TensorLeaves,
    directions: list[Tensor],
    strict: bool,
    has_aux: bool,
    name: str,
) -> tuple[Any, ...]:
    """`jvp` at the tensors of a tuple of arguments, with ``name`` for what messages call it."""
    # Also where forward mode is off: inside the forward of a custom function, for example.
    with forward_ad.set_fwd_grad_enabled(True), forward_ad.dual_level(nested=True) as level:

        def unpacked(x: Any) -> forward_ad.UnpackedDualTensor:
            return forward_ad.unpack_dual(x, level=level)

        duals = [
            forward_ad.make_dual(x, t, level=level)
            for x, t in zip(selected.tensors, directions, strict=True)
        ]
        with differentiating():
            output, aux = split_aux(func(*selected.filled(duals)), has_aux, name)
        results = tensor_outputs(output, name)
        pairs = [unpacked(y) for y in results.tensors]
        if strict and any(t is None for _, t in pairs):
            raise RuntimeError(
                f"{name}: The output of f is independent of the inputs. This is not allowed with "
                "strict=True."
            )
        leaves, aux_spec = _tree.flatten(aux)
        kept = [unpacked(x).primal if isinstance(x, Tensor) else x for x in leaves]
    value = results.filled([p for p, _ in pairs])
    moved = [_core.zeros_like(p) if t is None else t for p, t in pairs]
    result = (value, results.filled(moved))
    return (*result, _tree.unflatten(aux_spec, kept)) if has_aux else result


def linearize(func: Callable[..., Any], *primals: Any) -> tuple[Any, Callable[..., Any]]:
    """Return the value of ``func`` and its derivative as a linear function.

    ``func`` runs once: the linear function is made of the recorded graph (the derivative of the
    gradient by its cotangents), so many directions cost less than as many calls of `jvp`.

    Parameters
    ----------
    func
        A function of tensors, or of structures of them.
    primals
        The point.

    Returns
    -------
    tuple
        ``(output, jvp_fn)``; ``jvp_fn(*tangents)`` takes the structure of the primals.

    Examples
    --------
    >>> import adjoint as ad
    >>> y, push = ad.func.linearize(ad.sin, ad.tensor([0.0, 0.0]))
    >>> push(ad.tensor([1.0, 2.0]))
    tensor([1., 2.])
    """
    name = "linearize(f, *primals)"
    selected = tensor_primals(tuple(primals), name)
    variables = Variables(selected)
    with enable_grad():
        with differentiating():
            output = func(*variables.tree)
        results = tensor_outputs(output, name)
        outputs: list[Tensor] = results.tensors
        record = variables.must_record(outputs)
        # Integers do not move: their place is never reached, and zeros stand there.
        cotangents = [
            _core._variable(zeros if can_have_gradient(y) else zeros.to(_core.float64), False)
            for y, zeros in ((y, _core.zeros_like(y)) for y in outputs)
        ]
        pulled = variables.gradients(outputs, cotangents, True, True)

    def jvp_fn(*tangents: Any) -> Any:
        from adjoint.autograd import grad

        directions = directions_like(selected, tangents, name)
        used = [(g, t) for g, t in zip(pulled, directions, strict=True) if g.requires_grad]
        moved: Any = (None,) * len(outputs)
        if used:
            gs, ts = zip(*used, strict=True)
            keep = _core.is_grad_enabled() and (record or any(t.requires_grad for t in ts))
            moved = grad(
                gs, cotangents, ts, retain_graph=True, create_graph=keep, allow_unused=True
            )
        zeros = [
            _core.zeros_like(y) if t is None else t for y, t in zip(outputs, moved, strict=True)
        ]
        return results.filled(zeros)

    return released(results.filled(outputs), record), jvp_fn
