"""``vmap``: a function of one sample, called on a batch of them at once.

Inside, tensors stand for one sample each; every operation runs once on the whole batch
(``src/transforms/batched.h``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from adjoint import _core, _tree
from adjoint._core import Tensor
from adjoint._transforming import mapping
from adjoint.composite._structure import same

from ._arguments import named

Dims = Any  # an int, None, or a structure of them


# The randomness of the levels that are open, by level; those of them that batch tangents only.
_randomness: dict[int, str] = {}
_tangents_only: set[int] = set()


def randomness_of(level: int) -> str:
    """What random operations do at a level of vmap."""
    return _randomness.get(level, "error")


def depth_of(level: int) -> int:
    """The place of a level among those that are open, from 1; -1 for one that is closed."""
    return sorted(_randomness).index(level) + 1 if level in _randomness else -1


@contextmanager
def _level(size: int, randomness: str, directions: bool) -> Iterator[int]:
    place = _core._enter_vmap(size, randomness, directions)
    try:
        with mapping():
            yield place
    finally:
        _core._exit_vmap(place)


def _name(func: Callable[..., Any]) -> str:
    return getattr(func, "__name__", repr(func))


class Spread:
    """A dim that was given for a whole structure; what is not a tensor in it has none."""

    __slots__ = ("dim",)

    def __init__(self, dim: Any) -> None:
        self.dim = dim


def broadcast_dims(dims: Dims, tree: Any) -> list[Any] | None:
    """One dim per leaf of ``tree``, which need not be an int yet; None if the structures differ."""
    found = spread_dims(dims, tree)
    return None if found is None else [d.dim if isinstance(d, Spread) else d for d in found]


def spread_dims(dims: Dims, tree: Any) -> list[Any] | None:
    """The same, with `Spread` for dims that were given for a structure."""
    parts = _one_level(dims)
    children = _one_level(tree)
    if parts is None:
        return [dims] if children is None else [Spread(dims)] * len(_tree.flatten(tree)[0])
    if children is None or parts[0] != children[0] or parts[1].keys() != children[1].keys():
        return None
    found: list[Any] = []
    for entry, child in children[1].items():
        below = spread_dims(parts[1][entry], child)
        if below is None:
            return None
        found += below
    return found


def _one_level(tree: Any) -> tuple[str, dict[Any, Any]] | None:
    """What kind of structure it is, and its children by what they are called there."""
    if not _tree.is_structure(tree):
        return None
    parts, entries = _tree.children(tree)
    kinds = ((dict, "dict"), (list, "list"), (tuple, "tuple"))
    kind = next((name for cls, name in kinds if isinstance(tree, cls)), "object")
    return kind, dict(zip(entries, parts, strict=True))


def _by_part(dims: Dims, tree: Any) -> Dims:
    """``dims`` with one entry for each part of ``tree``: arguments are not a structure together."""
    return dims if _tree.is_structure(dims) else type(tree)([dims] * len(tree))


def _dim_of(dim: Any, x: Any) -> Any:
    """The dim of a leaf; None for what is not a tensor in a structure that is mapped over."""
    if isinstance(dim, Spread):
        return dim.dim if isinstance(x, Tensor) else None
    return dim


def _in_dims(func: Callable[..., Any], in_dims: Dims, args: tuple[Any, ...]) -> list[Any]:
    call = f"vmap({_name(func)}, in_dims={in_dims}, ...)(<inputs>)"
    if not isinstance(in_dims, int | tuple):
        raise ValueError(
            f"{call}: expected `in_dims` to be int or a (potentially nested) tuple matching the "
            f"structure of inputs, got: {type(in_dims)}."
        )
    if not args:
        raise ValueError(
            f"{call}: got no inputs. Maybe you forgot to add inputs, or you are trying to vmap "
            "over a function with no inputs. The latter is unsupported."
        )
    found = spread_dims(_by_part(in_dims, args), args)
    if found is None:
        raise ValueError(
            f"{call}: in_dims is not compatible with the structure of `inputs`. in_dims has "
            f"structure {_tree.flatten(in_dims)[1]} but inputs has structure "
            f"{_tree.flatten(args)[1]}."
        )
    checked: list[int | None] = []
    for x, given in zip(_tree.flatten(args)[0], found, strict=True):
        d = _dim_of(given, x)
        if d is None:
            checked.append(None)
            continue
        if not isinstance(d, int):
            raise ValueError(
                f"{call}: Got in_dim={d} for an input but in_dim must be either an integer "
                "dimension or None."
            )
        if not isinstance(x, Tensor):
            raise ValueError(
                f"{call}: Got in_dim={d} for an input but the input is of type {type(x)}. We "
                "cannot vmap over non-Tensor arguments, please use None as the respective in_dim"
            )
        if not -x.ndim <= d < x.ndim:
            raise ValueError(
                f"{call}: Got in_dim={d} for some input, but that input is a Tensor of "
                f"dimensionality {x.ndim} so expected in_dim to satisfy "
                f"-{x.ndim} <= in_dim < {x.ndim}."
            )
        checked.append(d % x.ndim)
    return checked


def _batch_size(func: Callable[..., Any], leaves: list[Any], dims: list[Any], in_dims: Dims) -> int:
    sizes = [x.shape[d] for x, d in zip(leaves, dims, strict=True) if d is not None]
    if not sizes:
        raise ValueError(
            f"vmap({_name(func)}, in_dims={in_dims}, ...)(<inputs>): at least one Tensor must be "
            "mapped over, but every in_dim is None"
        )
    if any(s != sizes[0] for s in sizes):
        raise ValueError(
            "vmap: Expected all tensors to have the same size in the mapped dimension, got sizes "
            f"{sizes} for the mapped dimension"
        )
    return int(sizes[0])


def _unwrapped(
    func: Callable[..., Any], out_dims: Dims, output: Any, place: int, level: int
) -> Any:
    leaves, spec = _tree.flatten(output)
    if isinstance(output, Tensor) and isinstance(out_dims, tuple) and len(out_dims) == 1:
        out_dims = out_dims[0]
    several = type(output) in (tuple, list)  # results, each of which must be mapped over
    dims = spread_dims(_by_part(out_dims, output) if several else out_dims, output)
    if dims is None:
        raise ValueError(
            f"vmap({_name(func)}, ..., out_dims={out_dims}): out_dims is not compatible with the "
            f"structure of `outputs`. out_dims has structure {_tree.flatten(out_dims)[1]} but "
            f"outputs has structure {spec}."
        )
    return _tree.unflatten(
        spec,
        [_removed(func, x, _dim_of(d, x), place, level) for x, d in zip(leaves, dims, strict=True)],
    )


def _removed(func: Callable[..., Any], x: Any, dim: Any, place: int, level: int) -> Any:
    if not isinstance(x, Tensor) and dim is None:
        return x
    if not isinstance(x, Tensor):
        raise ValueError(
            f"vmap({_name(func)}, ...): `{_name(func)}` must only return Tensors, got type "
            f"{type(x)}. Did you mean to set out_dims= to None for output?"
        )
    if dim is None:
        if _core._size_at(x, level) >= 0:
            raise ValueError(
                f"vmap({_name(func)}, ...): `{_name(func)}` can not return a BatchedTensor when "
                "out_dim is None"
            )
        return x
    n = x.ndim + 1
    if not -n <= dim < n:
        raise IndexError(
            f"Dimension out of range (expected to be in range of [{-n}, {n - 1}], but got {dim})"
        )
    return _core._remove_batch(x, dim % n, place)


def _check_out_dims(func: Callable[..., Any], out_dims: Dims) -> None:
    for d in _tree.flatten(out_dims)[0]:
        if d is not None and (not isinstance(d, int) or isinstance(d, bool)):
            raise ValueError(
                f"vmap({_name(func)}, ..., out_dims={out_dims}): `out_dims` must be an int, None "
                f"or a python collection of ints, got {d!r}"
            )


def _check_chunk_size(chunk_size: int | None) -> None:
    if chunk_size is not None and chunk_size < 1:
        raise ValueError(f"vmap: chunk_size should be None or greater than 0. (got {chunk_size})")


def check_randomness(randomness: str) -> None:
    """Refuse what no random operation could follow."""
    if randomness not in ("error", "different", "same"):
        raise RuntimeError(
            "Only allowed values for randomness are 'error', 'different', or 'same'. Got "
            f"{randomness}"
        )


def vmap(
    func: Callable[..., Any],
    in_dims: Dims = 0,
    out_dims: Dims = 0,
    randomness: str = "error",
    *,
    chunk_size: int | None = None,
) -> Callable[..., Any]:
    """Return a function that maps ``func`` over an axis of its arguments, all samples at once.

    Parameters
    ----------
    func
        A function of one sample: of tensors, or of structures of them, that returns tensors.
    in_dims
        Which axis of each argument counts the samples; None for an argument that all samples
        share. One for all, or a structure like that of the arguments.
    out_dims
        Where that axis goes in the results.
    randomness
        What random operations inside do: ``"error"``, ``"different"`` numbers for each sample, or
        the ``"same"``.
    chunk_size
        Work on at most so many samples at a time.

    Returns
    -------
    callable
        Of batches; keyword arguments are handed on as they are, to all samples.

    Examples
    --------
    >>> import adjoint as ad
    >>> ad.func.vmap(ad.dot)(ad.ones(3, 2), ad.ones(3, 2))
    tensor([2., 2., 2.])
    >>> ad.func.vmap(ad.func.grad(lambda x: (x**2).sum()))(ad.tensor([[1.0, 2.0], [3.0, 4.0]]))
    tensor([[2., 4.],
            [6., 8.]])
    """
    check_randomness(randomness)
    _check_chunk_size(chunk_size)
    return mapped(func, in_dims, out_dims, randomness, chunk_size)


def mapped(
    func: Callable[..., Any],
    in_dims: Dims,
    out_dims: Dims,
    randomness: str,
    chunk_size: int | None,
    directions: bool = False,
) -> Callable[..., Any]:
    """`vmap` itself; ``directions`` says that only tangents will be batched."""

    def wrapper(*args: Any, **kwargs: Any) -> Any:
        _check_out_dims(func, out_dims)
        dims = _in_dims(func, in_dims, args)
        leaves, spec = _tree.flatten(args)
        size = _batch_size(func, leaves, dims, in_dims)

        def run(part: list[Any], count: int) -> Any:
            # Inside another vmap, values are batched anyway: a gradient would have to take turns.
            alone = directions and _randomness.keys() <= _tangents_only
            with _level(count, randomness, alone) as place:
                samples = [
                    x if d is None else _core._add_batch(x, d, place)
                    for x, d in zip(part, dims, strict=True)
                ]
                level = _core._batch_level(tuple(samples))
                _randomness[level] = randomness
                if alone:
                    _tangents_only.add(level)
                try:
                    output = func(*_tree.unflatten(spec, samples), **kwargs)
                finally:
                    del _randomness[level]
                    _tangents_only.discard(level)
                return _unwrapped(func, out_dims, output, place, level)

        if chunk_size is None or chunk_size >= size:
            return run(leaves, size)
        return _in_chunks(run, leaves, dims, size, chunk_size, out_dims, randomness == "same")

    return named(wrapper, func)


def _in_chunks(
    run: Callable[..., Any],
    leaves: list[Any],
    dims: list[Any],
    size: int,
    chunk_size: int,
    out_dims: Dims,
    same: bool,
) -> Any:
    from adjoint.random import get_rng_state, set_rng_state

    results = []
    state = get_rng_state() if same else None
    for start in range(0, size, chunk_size):
        if state is not None:  # every chunk draws the same numbers
            set_rng_state(state)
        count = min(chunk_size, size - start)
        part = [
            x if d is None else x.narrow(d, start, count) for x, d in zip(leaves, dims, strict=True)
        ]
        results.append(run(part, count))
    columns, specs = zip(*(_tree.flatten(r) for r in results), strict=True)
    single = isinstance(results[0], Tensor) and isinstance(out_dims, tuple)
    at = broadcast_dims(out_dims[0] if single else out_dims, results[0])
    assert at is not None  # checked by the first chunk
    joined = [
        _core.cat(list(parts), d)
        if d is not None and isinstance(parts[0], Tensor)
        else _in_common(parts, i, specs[0])
        for i, (parts, d) in enumerate(zip(zip(*columns, strict=True), at, strict=True))
    ]
    return _tree.unflatten(specs[0], joined)


def _in_common(parts: tuple[Any, ...], i: int, spec: _tree.Spec) -> Any:
    """What is not a tensor in the results of all chunks, which has to be the same."""
    for part in parts[1:]:
        if not isinstance(part, Tensor) and not same(parts[0], part):
            raise ValueError(
                f"vmap(..., chunk_size=...): {_tree.paths(spec, 'output')[i]} is not a tensor and "
                f"differs between chunks: {_tree.kind_of(parts[0])} and {_tree.kind_of(part)}.\n"
                "  fix: return a tensor there"
            )
    return parts[0]


def old_vmap(
    func: Callable[..., Any],
    in_dims: Dims = 0,
    out_dims: Dims = 0,
    allow_none_pass_through: bool = False,
) -> Callable[..., Any]:
    """`vmap` with the arguments of ``torch._vmap_internals._vmap``: None may be among results."""

    def passed(output: Any) -> Any:
        if not allow_none_pass_through or not isinstance(output, tuple | list):
            return output
        present[:] = [x is not None for x in output]
        return tuple(x for x in output if x is not None)

    present: list[bool] = []
    inner = vmap(lambda *args: passed(func(*args)), in_dims, out_dims)

    def wrapper(*args: Any) -> Any:
        result = inner(*args)
        if all(present):
            return result
        values = iter(result)
        return tuple(next(values) if there else None for there in present)

    return wrapper
