"""Custom functions under vmap: by their own rule, or sample by sample."""

from __future__ import annotations

import contextlib
from typing import Any, NamedTuple

from adjoint import _core, _tree
from adjoint._core import Tensor


class VmapInfo(NamedTuple):
    """What ``Function.vmap`` is told: how many samples, and what random numbers are to be."""

    batch_size: int
    randomness: str


def apply_batched(cls: Any, args: tuple[Any, ...]) -> Any:
    """``cls.apply`` on samples; called by ``src/bindings/function/function_apply.cpp``."""
    from adjoint.func._vmap import randomness_of

    from .function import Function

    leaves, spec = _tree.flatten(args)
    level = _core._batch_level(tuple(leaves))
    sizes = [_core._size_at(x, level) if isinstance(x, Tensor) else -1 for x in leaves]
    size = max(sizes)
    for k, leaf in enumerate(leaves):
        if isinstance(leaf, Tensor) and sizes[k] < 0 and _tangent_at(leaf, level):
            # Its tangent is different in each sample, so it has to be taken apart as well.
            leaves[k] = leaf + _core._put_on(_core.zeros(size, dtype=leaf.dtype), level)
            sizes[k] = size
    plain = [
        _core._take_off(x, level, size) if n >= 0 else x for x, n in zip(leaves, sizes, strict=True)
    ]
    own = cls.vmap is not Function.vmap
    generated = getattr(cls, "generate_vmap_rule", False)
    if own and generated:
        raise RuntimeError(
            f"You tried to vmap over {cls.__name__}, but it has both generate_vmap_rule=True and "
            "an overridden vmap staticmethod. Please set generate_vmap_rule=False or delete the "
            "overridden vmap staticmethod to avoid ambiguity."
        )
    if own:
        dims = _tree.unflatten(spec, [0 if n >= 0 else None for n in sizes])
        info = VmapInfo(size, randomness_of(level))
        result = cls.vmap(info, dims, *_tree.unflatten(spec, plain))
        if not (isinstance(result, tuple) and len(result) == 2):
            raise RuntimeError(
                f"Expected the vmap staticmethod of {cls.__name__} to have two returns, an output "
                "and out_dims with a structure that fits the output; got "
                f"{_returns(result)}"
            )
        return _wrapped(*result, level, cls.__name__)
    if generated:
        return _turn_by_turn(cls, plain, [n >= 0 for n in sizes], spec, size, level)
    raise RuntimeError(
        f"You tried to vmap over {cls.__name__}, but it does not have vmap support. Please "
        "override and implement the vmap staticmethod of this autograd.Function or set "
        "generate_vmap_rule=True."
    )


def _tangent_at(tensor: Tensor, level: int) -> bool:
    """Whether some tangent of a tensor is batched at a level of vmap."""
    if not _core._has_tangent(tensor):
        return False
    for place in range(_core._current_dual_level() + 1):
        tangent = None
        with contextlib.suppress(RuntimeError):  # the level at that place is one of vmap
            _, tangent = _core._unpack_dual(tensor, place)
        if tangent is None:
            continue
        if _core._size_at(tangent, level) >= 0 or _tangent_at(tangent, level):
            return True
    return False


def _returns(result: Any) -> str:
    return f"{len(result)} returns" if isinstance(result, tuple) else f"a {type(result).__name__}"


def _wrapped(outputs: Any, out_dims: Any, level: int, name: str) -> Any:
    from adjoint.func._vmap import broadcast_dims

    leaves, spec = _tree.flatten(outputs)
    alike = not isinstance(out_dims, list | tuple) or type(out_dims) is type(outputs)
    dims = broadcast_dims(out_dims, outputs) if alike else None
    if dims is None:
        raise RuntimeError(
            f"The vmap staticmethod of {name} returned an incompatible (output, out_dims) tuple: "
            f"out_dims={out_dims!r} does not fit the structure of the output, {spec}"
        )
    return _tree.unflatten(
        spec,
        [
            x if d is None else _core._put_on(x if d == 0 else x.movedim(d, 0), level)
            for x, d in zip(leaves, dims, strict=True)
        ],
    )


def _turn_by_turn(
    cls: Any, plain: list[Any], mapped: list[bool], spec: _tree.Spec, size: int, level: int
) -> Any:
    """One call per sample: what forward and backward save stays each sample's own."""
    rows = []
    structure = None
    for b in range(size):
        sample = [x[b] if m else x for x, m in zip(plain, mapped, strict=True)]
        leaves, structure = _tree.flatten(cls.apply(*_tree.unflatten(spec, sample)))
        rows.append(leaves)
    if structure is None:
        raise RuntimeError(f"vmap over {cls.__name__}: there are no samples")
    return _tree.unflatten(
        structure,
        [
            _core._put_on(_core.stack(list(column)), level)
            if isinstance(column[0], Tensor)
            else column[0]
            for column in zip(*rows, strict=True)
        ],
    )
