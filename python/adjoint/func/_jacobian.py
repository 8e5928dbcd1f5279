"""Whole Jacobians and Hessians: ``jacrev``, ``jacfwd``, ``hessian``.

A Jacobian is a pass of `_reverse` or `_forward` along each unit vector, all of them as one batch of
`_vmap`. A Hessian is `columns_by` (forward) of `rows_by` (reverse).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from adjoint import _core
from adjoint._core import Tensor

from ._arguments import Argnums, lent_by_name, named, replaced, split_aux, tensor_args
from ._forward import pushed
from ._reverse import pulled_back
from ._tensor_leaves import TensorLeaves, differentiable_outputs, tensor_inputs, tensor_outputs
from ._vmap import check_randomness, mapped, vmap


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


def _check_real(name: str, what: str, selected: TensorLeaves) -> None:
    """Refuse complex tensors: what one number per pair of elements would mean is not settled."""
    for i, x in enumerate(selected.tensors):
        if x.is_complex():
            do = "differentiate by" if what == "input" else "return"
            raise RuntimeError(
                f"{name}: Expected all {what}s to be real but received complex tensor at "
                f"flattened {what} idx: {i} ({selected.paths()[i]}).\n"
                f"  fix: {do} its view_as_real()"
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

    return rows_by(func, argnums, has_aux, chunk_size, "jacrev")


def rows_by(
    func: Callable[..., Any], argnums: Argnums, has_aux: bool, chunk_size: int | None, name: str
) -> Callable[..., Any]:
    """`jacrev`, with ``name`` for what messages call it."""
    by_vjp = f"{name}(f)(*args), by vjp(f, *primals)"

    def wrapper(*args: Any, **kwargs: Any) -> Any:
        inputs = tensor_args(args, argnums, f"{name}(f)(*args)")
        _check_real(name, "input", inputs)

        def of_picked(*tensors: Tensor) -> Any:
            return func(*replaced(args, argnums, inputs.filled(tensors)), **lent_by_name(kwargs))

        result = pulled_back(of_picked, tuple(inputs.tensors), has_aux, by_vjp)
        output, pull = result[0], result[1]
        outputs = differentiable_outputs(output, by_vjp)
        _check_real(name, "output", outputs)
        tensors: list[Tensor] = outputs.tensors

        def rows_of(*cotangents: Tensor) -> tuple[Tensor, ...]:
            rows: tuple[Tensor, ...] = pull(outputs.filled(cotangents))
            return rows

        if chunk_size == 1:  # without vmap, so that what it cannot batch works as well
            each = [rows_of(*row) for row in zip(*_basis(tensors), strict=True)]
            rows = tuple(_core.stack(list(column)) for column in zip(*each, strict=True))
        else:
            rows = vmap(rows_of, chunk_size=chunk_size)(*_basis(tensors))
        pull.end()
        blocks = [_split(r, tensors) for r in rows]  # blocks[i][o]
        tree = outputs.gradient(
            [inputs.gradient([block[o] for block in blocks]) for o in range(len(tensors))]
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
    check_randomness(randomness)
    return columns_by(func, argnums, has_aux, randomness, "jacfwd")


def columns_by(
    func: Callable[..., Any], argnums: Argnums, has_aux: bool, randomness: str, name: str
) -> Callable[..., Any]:
    """`jacfwd`, with ``name`` for what messages call it."""
    by_jvp = f"{name}(f)(*args), by jvp(f, primals, tangents)"

    def wrapper(*args: Any, **kwargs: Any) -> Any:
        inputs = tensor_args(args, argnums, name)
        _check_real(name, "input", inputs)
        at: list[Tensor] = inputs.tensors
        primals = tensor_inputs(tuple(at), name, [""] * len(at), several=True)
        kept: list[TensorLeaves] = []

        def of_picked(*tensors: Tensor) -> Any:
            result = func(*replaced(args, argnums, inputs.filled(tensors)), **lent_by_name(kwargs))
            return split_aux(result, has_aux, f"{name}(f)(*args)")

        def along(*directions: Tensor) -> Any:
            output, moved, aux = pushed(of_picked, primals, list(directions), False, True, by_jvp)
            outputs = tensor_outputs(output, by_jvp)
            _check_real(name, "output", outputs)
            kept[:] = [outputs]
            return tuple(tensor_outputs(moved, by_jvp).tensors), aux

        columns, aux = mapped(along, 0, (-1, None), randomness, None, directions=True)(*_basis(at))
        counts = [x.numel() for x in at]
        blocks = [
            [
                p.reshape((*c.shape[:-1], *x.shape))
                for p, x in zip(c.split(counts, -1), at, strict=True)
            ]
            for c in columns
        ]
        tree = kept[0].filled([inputs.gradient(row) for row in blocks])
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
    inner = rows_by(func, argnums, False, None, "hessian")
    return columns_by(inner, argnums, False, "error", "hessian")
