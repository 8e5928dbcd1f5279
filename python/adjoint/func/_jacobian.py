"""Whole Jacobians and Hessians: ``jacrev``, ``jacfwd``, ``hessian``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from adjoint import _core, _tree
from adjoint._core import Tensor

from ._arguments import Argnums, chosen, named, output_tensors, replaced, split_aux
from ._forward import jvp
from ._reverse import vjp
from ._vmap import mapped, vmap


def _basis(tensors: Sequence[Tensor]) -> list[Tensor]:
    """For each tensor, one direction per element of all of them: [n, *shape], a 1 in each."""
    counts = [t.numel() for t in tensors]
    total = sum(counts)
    rows, start = [], 0
    for t, n in zip(tensors, counts, strict=True):
        chunk = _core.zeros(total, n, dtype=t.dtype)
        chunk.diagonal(-start).fill_(1)
        rows.append(chunk.view((total, *t.shape)))
        start += n
    return rows


def _split(t: Tensor, tensors: Sequence[Tensor]) -> list[Tensor]:
    """The rows of ``t`` that belong to each tensor, in its shape: [*shape, ...]."""
    parts = t.split([x.numel() for x in tensors])
    return [p.reshape((*x.shape, *t.shape[1:])) for p, x in zip(parts, tensors, strict=True)]


def _check_real(name: str, what: str, tensors: Sequence[Any]) -> None:
    """Refuse complex tensors: what one number per pair of elements would mean is not settled."""
    for i, x in enumerate(tensors):
        if isinstance(x, Tensor) and x.is_complex():
            raise RuntimeError(
                f"{name}: Expected all {what}s to be real but received complex tensor at "
                f"flattened {what} idx: {i}"
            )


def jacrev(
    func: Callable[..., Any],
    argnums: Argnums = 0,
    *,
    has_aux: bool = False,
    chunk_size: int | None = None,
    _preallocate_and_copy: bool = False,
) -> Callable[..., Any]:
    """Return a function that computes the Jacobian of ``func`` by reverse mode.

    ``func`` runs once; its gradients by all elements of the output are computed together. Best for
    functions with fewer outputs than inputs.

    Parameters
    ----------
    func
        A function of tensors, or of structures of them.
    argnums
        Which arguments to differentiate by: a position, or a tuple of them.
    has_aux
        Whether ``func`` returns ``(output, aux)``.
    chunk_size
        How many rows to compute at a time; all by default. 1 needs the least memory, and does
        without `vmap`: for functions whose derivatives it cannot batch.

    Returns
    -------
    callable
        Of the same arguments; returns the Jacobian: in the structure of the output, for each
        tensor, the structure of the argument, each of shape ``(*output.shape, *input.shape)``.

    Examples
    --------
    >>> import adjoint as ad
    >>> ad.func.jacrev(lambda x: x**2)(ad.tensor([1.0, 2.0]))
    tensor([[2., 0.],
            [0., 4.]])
    """
    if chunk_size is not None and chunk_size < 1:
        raise ValueError("jacrev: `chunk_size` should be greater than 0.")

    def wrapper(*args: Any, **kwargs: Any) -> Any:
        picked = chosen(args, argnums)
        inputs, in_spec = _tree.flatten(picked)
        _check_real("jacrev", "input", inputs)

        def of_picked(x: Any) -> Any:
            return func(*replaced(args, argnums, x), **kwargs)

        result = vjp(of_picked, picked, has_aux=has_aux)
        output, pull = result[0], result[1]
        outputs, out_spec = output_tensors(output, "jacrev(f, argnums=0)")
        _check_real("jacrev", "output", outputs)

        def rows_of(*cotangents: Tensor) -> tuple[Tensor, ...]:
            (grads,) = pull(_tree.unflatten(out_spec, list(cotangents)))
            return tuple(_tree.flatten(grads)[0])

        if chunk_size == 1:  # without vmap, so that what it cannot batch works as well
            each = [rows_of(*row) for row in zip(*_basis(outputs), strict=True)]
            rows = tuple(_core.stack(list(column)) for column in zip(*each, strict=True))
        else:
            rows = vmap(rows_of, chunk_size=chunk_size)(*_basis(outputs))
        blocks = [_split(r, outputs) for r in rows]  # blocks[i][o]
        tree = _tree.unflatten(
            out_spec,
            [
                _tree.unflatten(in_spec, [blocks[i][o] for i in range(len(inputs))])
                for o in range(len(outputs))
            ],
        )
        return (tree, result[2]) if has_aux else tree

    return named(wrapper, func)


def jacfwd(
    func: Callable[..., Any],
    argnums: Argnums = 0,
    has_aux: bool = False,
    *,
    randomness: str = "error",
) -> Callable[..., Any]:
    """Return a function that computes the Jacobian of ``func`` by forward mode.

    ``func`` runs once, with the directions of all elements of the input together. Best for
    functions with fewer inputs than outputs.

    Parameters
    ----------
    func, argnums, has_aux
        As for `jacrev`.
    randomness
        As for `vmap`.

    Returns
    -------
    callable
        As for `jacrev`.

    Examples
    --------
    >>> import adjoint as ad
    >>> ad.func.jacfwd(ad.sin)(ad.tensor([0.0, 0.0]))
    tensor([[1., 0.],
            [0., 1.]])
    """

    def wrapper(*args: Any, **kwargs: Any) -> Any:
        picked = chosen(args, argnums)
        inputs, in_spec = _tree.flatten(picked)
        for x in inputs:
            if not isinstance(x, Tensor):
                raise RuntimeError(f"jacfwd: expected tensors, but got {type(x).__name__}: {x!r}")
        _check_real("jacfwd", "input", inputs)
        kept: list[Any] = []

        def of_picked(x: Any) -> Any:
            output, aux = split_aux(
                func(*replaced(args, argnums, x), **kwargs), has_aux, "jacfwd(f)(*args)"
            )
            return output, aux

        def along(*directions: Tensor) -> Any:
            tangent = _tree.unflatten(in_spec, list(directions))
            output, moved, aux = jvp(of_picked, (picked,), (tangent,), has_aux=True)
            outputs, out_spec = _tree.flatten(output)
            _check_real("jacfwd", "output", outputs)
            kept[:] = [out_spec]
            return tuple(output_tensors(moved, "jacfwd(f)(*args)")[0]), aux

        columns, aux = mapped(along, 0, (-1, None), randomness, None, directions=True)(
            *_basis(inputs)
        )
        counts = [x.numel() for x in inputs]
        blocks = [
            [
                p.reshape((*c.shape[:-1], *x.shape))
                for p, x in zip(c.split(counts, -1), inputs, strict=True)
            ]
            for c in columns
        ]
        tree = _tree.unflatten(kept[0], [_tree.unflatten(in_spec, row) for row in blocks])
        return (tree, aux) if has_aux else tree

    return named(wrapper, func)


def hessian(
    func: Callable[..., Any],
    argnums: Argnums = 0,
    *,
    sparsity: Any = None,
    chunk_size: int | None = None,
    verify: bool = True,
) -> Callable[..., Any]:
    """Return a function that computes the Hessian of ``func``, forward over reverse.

    Parameters
    ----------
    func, argnums
        As for `jacrev`.
    sparsity
        None for the whole Hessian. A pattern or ``"detect"``, as for `jacobian`, for a sparse one:
        columns are computed together where their entries, or the mirror images of these, can be
        told apart (a star colouring); a tridiagonal Hessian takes three passes.
    chunk_size, verify
        For a sparse Hessian, as for `jacobian`.

    Returns
    -------
    callable
        The Jacobian of the Jacobian: in the structure of the argument twice. With ``sparsity=``, a
        ``scipy.sparse.csr_array``, as for `jacobian`.

    Examples
    --------
    >>> import adjoint as ad
    >>> ad.func.hessian(lambda x: (x**3).sum())(ad.tensor([1.0, 2.0]))
    tensor([[ 6.,  0.],
            [ 0., 12.]])
    >>> chain = ad.func.hessian(lambda x: (x[1:] * x[:-1]).sum(), sparsity="detect")
    >>> chain(ad.ones(100)).nnz, chain.passes
    (198, 3)
    """
    if sparsity is not None:
        from ._sparse import sparse_hessian

        return sparse_hessian(func, argnums, sparsity, chunk_size, verify)
    return jacfwd(jacrev(func, argnums), argnums)
