"""``eigsh``, ``eigs``, ``lobpcg``, ``svds``: a few eigenvalues of large matrices.

SciPy finds them, without history. Then each pair (λ, v) takes steps of Newton's method on its
equations

    A v - λ M v = 0,    c·v = 1    (c is M v as found, a constant)

with the matrix of these equations as it is there: the values do not change, and each step is exact
to one more order of the derivatives by A and M (Note [Frozen steps] in optimize/_large.py). The
matrix is ``A - λ M`` with one row and one column more, which is regular where λ is a simple
eigenvalue. At last v is brought to length one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import adjoint as ad
from adjoint import _core
from adjoint._core import Tensor
from adjoint._samples import batch_of, has_tangent, must_hold
from adjoint._tensor.creation import from_numpy
from adjoint.sparse._factors import singular
from adjoint.sparse._matrix import SparseMatrix, as_sparse_matrix, coo_array, eye_array
from adjoint.sparse._places import Places, fixed

from ._direct import solve
from ._operator import matrix_of
from ._solution import run_on_host

__all__ = ["eigs", "eigsh", "lobpcg", "svds"]

linalg_error: Any = ad.linalg.LinAlgError

_STEPS = 3  # orders of the derivative


def eigsh(
    A: Any,
    k: int = 6,
    M: Any = None,
    sigma: float | None = None,
    which: str = "LM",
    v0: Any = None,
    ncv: int | None = None,
    maxiter: int | None = None,
    tol: float = 0,
    return_eigenvectors: bool = True,
    *,
    mode: str = "normal",
) -> Any:
    """A few eigenvalues of a Hermitian matrix, and eigenvectors: ``A v = λ M v``; differentiable.

    Derivatives by the values of ``A`` and ``M`` are there to the third order. Those of eigenvectors
    exist where the eigenvalue is simple; a repeated one is refused where a derivative is wanted.

    Parameters
    ----------
    A, M
        Sparse matrices of any kind: `adjoint.sparse.SparseMatrix`, sparse or dense tensors,
        SciPy's. ``M`` is positive definite, and the identity if it is not given.
    k
        How many.
    sigma
        Find those next to this number.
    which
        ``"LM"``, ``"SM"``, ``"LA"``, ``"SA"``, ``"BE"``: the largest or smallest by magnitude, or
        algebraically, or from both ends. With ``sigma`` of ``1 / (λ - sigma)``.
    v0, ncv, maxiter, tol, mode
        SciPy's.
    return_eigenvectors
        Whether they are returned too.

    Returns
    -------
    w, v
        Eigenvalues, ascending, and eigenvectors as columns with ``vᴴ M v = 1``.

    Examples
    --------
    >>> import adjoint as ad
    >>> d = ad.tensor([1.0, 2.0, 3.0, 4.0], dtype=ad.float64, requires_grad=True)
    >>> w, v = ad.sparse.linalg.eigsh(ad.sparse.diags_array(d), k=1, which="SA")
    >>> w.sum().backward()
    >>> d.grad.abs().round(decimals=6)
    tensor([1., 0., 0., 0.], dtype=torch.float64)
    """
    options = {"sigma": sigma, "which": which, "ncv": ncv, "maxiter": maxiter, "tol": tol}

    def find(a: Any, m: Any) -> tuple[Any, Any]:
        linalg = _scipy_linalg()
        try:
            w, v = linalg.eigsh(a, k, M=m, mode=mode, v0=_start(v0, a), **options)
        except linalg.ArpackNoConvergence as error:
            raise _lost("eigsh", error, k) from None
        order = np.argsort(w)
        return w[order], v[:, order]

    w, v = _Pairs("eigsh", A, M, k, True).answer(find)
    return (w, v) if return_eigenvectors else w


def eigs(
    A: Any,
    k: int = 6,
    M: Any = None,
    sigma: complex | None = None,
    which: str = "LM",
    v0: Any = None,
    ncv: int | None = None,
    maxiter: int | None = None,
    tol: float = 0,
    return_eigenvectors: bool = True,
) -> Any:
    """A few eigenvalues of any square matrix, complex, and right eigenvectors; see `eigsh`.

    Eigenvectors have length one; their derivative leaves the phase alone. ``which`` may be
    ``"LM"``, ``"SM"``, ``"LR"``, ``"SR"``, ``"LI"``, ``"SI"``.
    """
    options = {"sigma": sigma, "which": which, "ncv": ncv, "maxiter": maxiter, "tol": tol}

    def find(a: Any, m: Any) -> tuple[Any, Any]:
        linalg = _scipy_linalg()
        try:
            w, v = linalg.eigs(a, k, M=m, v0=_start(v0, a), **options)
        except linalg.ArpackNoConvergence as error:
            raise _lost("eigs", error, k) from None
        return w.astype(complex), v.astype(complex)

    w, v = _Pairs("eigs", A, M, k, False).answer(find)
    return (w, v) if return_eigenvectors else w


def lobpcg(
    A: Any,
    X: Any,
    B: Any = None,
    M: Any = None,
    Y: Any = None,
    tol: float | None = None,
    maxiter: int | None = None,
    largest: bool = True,
) -> tuple[Tensor, Tensor]:
    """The largest or smallest eigenvalues of a symmetric matrix, from a guess ``X``; see `eigsh`.

    Parameters
    ----------
    X
        ``(n, k)``: where to begin.
    B
        The matrix of the right side: ``A v = λ B v``.
    M
        A preconditioner of SciPy's kind.
    Y
        Not taken: constraints have no derivative here.
    tol, maxiter, largest
        SciPy's.
    """
    if Y is not None:
        raise NotImplementedError("lobpcg(): constraints Y are not taken; use eigsh(..., sigma=)")
    start = _array(X)
    if start is None or start.ndim != 2:
        raise ValueError("lobpcg(): X must be a matrix with a column for each eigenvector")
    options = {"tol": 1e-11 if tol is None else tol, "maxiter": maxiter or 500}

    def find(a: Any, m: Any) -> tuple[Any, Any]:
        import warnings

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the pairs are checked below
            found = _scipy_linalg().lobpcg(
                a, start.astype(a.dtype), B=m, M=M, largest=largest, **options
            )
        w, v = found[0], found[1]
        order = np.argsort(w)
        return w[order], v[:, order]

    return _Pairs("lobpcg", A, B, start.shape[1], True).answer(find)


def svds(
    A: Any,
    k: int = 6,
    ncv: int | None = None,
    tol: float = 0,
    which: str = "LM",
    v0: Any = None,
    maxiter: int | None = None,
    return_singular_vectors: bool = True,
) -> Any:
    """A few singular values of a sparse matrix of any shape, ascending; differentiable.

    Returns ``u, s, vh`` (or ``s`` alone). They are eigenpairs of ``[[0, A], [Aᴴ, 0]]``; see `eigsh`
    for derivatives.

    Examples
    --------
    >>> import adjoint as ad
    >>> d = ad.tensor([1.0, 2.0, 5.0], dtype=ad.float64, requires_grad=True)
    >>> u, s, vh = ad.sparse.linalg.svds(ad.sparse.diags_array(d), k=1)
    >>> s
    tensor([5.], dtype=torch.float64, grad_fn=<...>)
    """
    matrix = as_sparse_matrix(A, "svds")
    n, m = matrix.shape
    options = {"ncv": ncv, "tol": tol, "which": which, "maxiter": maxiter}
    turned = matrix.H
    rows = np.concatenate([matrix.places.rows_array, turned.places.rows_array + n])
    columns = np.concatenate([matrix.places.columns_array + n, turned.places.columns_array])
    values = _core.cat([matrix.values, turned.values])
    both = coo_array((values, (rows, columns)), (n + m, n + m))

    def find(a: Any, _: Any) -> tuple[Any, Any]:
        linalg, block = _scipy_linalg(), a[:n, n:]
        try:
            u, s, vh = linalg.svds(block, k, v0=_start(v0, block), **options)
        except linalg.ArpackNoConvergence as error:
            raise _lost("svds", error, k) from None
        order = np.argsort(s)
        v = np.concatenate([u, vh.conj().T]) / np.sqrt(2)
        return s[order], v[:, order]

    s, v = _Pairs("svds", both, None, k, True).answer(find)
    if not return_singular_vectors:
        return s
    v = v * 2**0.5
    vh = v[n:].mT
    return v[:n], s, vh.conj_physical() if vh.is_complex() else vh


Find = Callable[[Any, Any], tuple[Any, Any]]


class _Pairs:
    """The eigenpairs of a matrix, or of two."""

    def __init__(self, name: str, A: Any, M: Any, count: int, hermitian: bool) -> None:
        self._name, self._count, self._hermitian = name, count, hermitian
        a = _matrix(A, name)
        n, m = a.shape
        if n != m:
            raise ValueError(f"{name}(): expected a square matrix, got one of shape ({n}, {m})")
        if not 0 < count < n:
            raise ValueError(
                f"{name}(): k={count} of {n} eigenvalues; there must be at least one, and fewer "
                "than the order of the matrix. fix: use linalg.eigh for all of them"
            )
        self._plain = M is None
        b = eye_array(n, dtype=a.dtype) if M is None else _matrix(M, name)
        dtype = _core.promote_types(a.dtype, b.dtype)
        a, b = a.to(dtype), b.to(dtype)
        if b.shape != a.shape:
            raise ValueError(f"{name}(): matrices of shapes {a.shape} and {b.shape}")
        self._a, self._b = a, b

    def answer(self, find: Find) -> tuple[Tensor, Tensor]:
        """Eigenvalues and eigenvectors, with their derivatives."""
        a, b = self._a, self._b
        w, v = self._found(find)
        dual = _core._current_dual_level() >= 0
        moves = dual and has_tangent(a.values, b.values)
        records = _core.is_grad_enabled() and (a.values.requires_grad or b.values.requires_grad)
        if not (moves or records):
            return w, v
        dtype = v.dtype
        a, b = a.to(dtype), b.to(dtype)
        pairs = [self._moved(a, b, w[i].to(dtype), v[:, i]) for i in range(self._count)]
        values = _core.stack([p[0] for p in pairs])
        vectors = _core.stack([p[1] for p in pairs], 1)
        return values.real if self._hermitian and values.is_complex() else values, vectors

    def _found(self, find: Find) -> tuple[Tensor, Tensor]:
        """As SciPy finds them, for every sample of a `vmap`; in programs, as a host call."""
        a, b = self._a, self._b

        def run(given: Sequence[Tensor]) -> list[Tensor]:
            first, second = (t.detach().resolve_conj() for t in given)
            m = None if self._plain else SparseMatrix(b.places, second).to_scipy()
            left = SparseMatrix(a.places, first).to_scipy()
            if not np.isfinite(left.data).all():
                raise ValueError(
                    f"{self._name}(): the matrix has entries that are not finite\n"
                    "  fix: look at what computes its values"
                )
            w, v = find(left, m)
            _check_pairs(self._name, left, m, w, v)
            return [from_numpy(np.ascontiguousarray(t)) for t in (w, v)]

        # From the highest: samples one by one.
        levels = batch_of(a.values, b.values)
        if not levels.levels:
            also = [a.row, a.col, b.row, b.col]
            w, v = run_on_host(run, [a.values.detach(), b.values.detach()], also, ())
            return w, v
        wholes = [levels.whole(t.detach()) for t in (a.values, b.values)]
        flat = [t.reshape(-1, t.shape[-1]) for t in wholes]
        each = [run(pair) for pair in zip(*flat, strict=True)]
        ws, vs = (_core.stack(list(column)) for column in zip(*each, strict=True))
        shape = levels.shape
        return (
            levels.each(ws.reshape(*shape, *ws.shape[1:])),
            levels.each(vs.reshape(*shape, *vs.shape[1:])),
        )

    def _moved(
        self, a: SparseMatrix, b: SparseMatrix, w0: Tensor, v0: Tensor
    ) -> tuple[Tensor, Tensor]:
        """One pair after steps of Newton's method that leave its value."""
        constant = (b.detach() @ v0).detach()
        c = constant.conj_physical() if constant.is_complex() else constant
        length = (c * v0).sum()
        places, values = self._bordered(a.detach(), b.detach(), w0, constant, c)
        self._check_simple(a.detach(), b.detach(), w0, places, values)
        w, v = w0, v0
        for _ in range(_STEPS):
            rest = a @ v - w * (b @ v)
            r = _core.cat([rest, ((c * v).sum() - length).reshape(1)])
            try:
                step = solve(places, values, r.unsqueeze(1)).squeeze(1)
            except linalg_error:
                raise _repeated(self._name, w0) from None
            v, w = v - step[:-1], w - step[-1]
        mass = ((v.conj_physical() if v.is_complex() else v) * (b @ v)).sum()
        if not self._hermitian and v.is_complex():
            mass = (v.abs() ** 2).sum().to(v.dtype)
        return w, v / mass.sqrt()

    def _check_simple(
        self, a: SparseMatrix, b: SparseMatrix, w: Tensor, places: Places, values: Tensor
    ) -> None:
        """Refuse a repeated eigenvalue also where rounding leaves its factors a pivot."""
        n = places.shape[0]
        probe = _core.cos(_core.arange(n, dtype=_core.float64) ** 2).to(values.dtype)
        probe[-1] = 0.0
        with ad.no_grad():
            try:
                there = solve(places, values, probe.unsqueeze(1))[:-1].abs().max()
            except linalg_error:
                raise _repeated(self._name, w) from None
            size = a.values.abs().max() + w.abs() * b.values.abs().max()
            simple = there * size * (n * ad.finfo(values.dtype).eps) <= 1
        must_hold(simple, lambda _: _repeated(self._name, w))

    def _bordered(
        self, a: SparseMatrix, b: SparseMatrix, w: Tensor, column: Tensor, row: Tensor
    ) -> tuple[Places, Tensor]:
        """The derivative of the equations, by v and λ: entries of A - λ M, a column and a row."""
        middle = a + b * (-w)
        places, order = _border_of(middle.places)
        joined = _core.cat([middle.values, -column, row])
        return places, joined.new_zeros(places.count).index_add(0, order, joined[: order.numel()])


def _border_of(inner: Places) -> tuple[Places, Tensor]:
    n = inner.shape[0]
    ends, all_of = np.full(n, n), np.arange(n)
    rows = np.concatenate([inner.rows_array, all_of, ends])
    columns = np.concatenate([inner.columns_array, ends, all_of])
    places, order = Places.of(rows, columns, (n + 1, n + 1))
    return places, fixed(np.arange(rows.size) if order is None else order)


def _matrix(A: Any, name: str) -> SparseMatrix:
    found = matrix_of(A)
    if found is None and isinstance(A, Tensor):
        found = as_sparse_matrix(A, name)
    if found is None:
        raise TypeError(
            f"{name}(): expected a sparse matrix, a tensor or one of SciPy's, got "
            f"{type(A).__name__}; eigenvectors of operators have no derivative here"
        )
    if not (found.values.is_floating_point() or found.values.is_complex()):
        found = found.to(_core.float64)
    return found


def _array(v: Any) -> Any:
    return v.detach().numpy() if isinstance(v, Tensor) else None if v is None else np.asarray(v)


def _start(v0: Any, a: Any) -> Any:
    """Where a search begins: the same in every call, where SciPy would draw numbers."""
    if v0 is not None:
        return _array(v0)
    return np.random.default_rng(0).standard_normal(min(a.shape)).astype(a.dtype)


def _scipy_linalg() -> Any:
    from adjoint.sparse._factors import scipy_sparse

    scipy_sparse()
    from scipy.sparse import linalg

    return linalg


def _lost(name: str, error: Any, k: int) -> Exception:
    from adjoint.optimize._result import ConvergenceError, OptimizeResult

    found = len(error.eigenvalues)
    return ConvergenceError(
        f"{name}() found {found} of {k} eigenvalues: {error}\n"
        "  fix: allow more steps (maxiter=...) or vectors (ncv=...), or name a number that they "
        "are near to (sigma=...)",
        OptimizeResult(x=error.eigenvalues, success=False, message=str(error)),
    )


def _check_pairs(name: str, a: Any, m: Any, w: Any, v: Any) -> None:
    """Refuse what is not an eigenpair: its derivative would be that of something else."""
    moved, mass = a @ v, v if m is None else m @ v
    off = np.linalg.norm(moved - mass * w, axis=0)
    size = np.linalg.norm(moved, axis=0) + abs(w) * np.linalg.norm(mass, axis=0)
    size = size + abs(a.data).max(initial=0.0) * np.linalg.norm(v, axis=0)
    loose = np.finfo(v.dtype).eps ** 0.3
    if not (off <= loose * size).all():
        from adjoint.optimize._result import ConvergenceError, OptimizeResult

        raise ConvergenceError(
            f"{name}() found no eigenvectors: A v - w M v is up to {(off / size).max():.3g} of "
            "A v.\n  fix: allow more steps (maxiter=...), begin nearer (X or v0), or use eigsh "
            "with sigma=",
            OptimizeResult(x=w, success=False, message="residuals are not small"),
        )


def _repeated(name: str, w: Tensor) -> Exception:
    made = singular(1)
    made.args = (
        f"{name}(): an eigenvalue is repeated, or nearly: its eigenvector can be turned in a "
        "plane, and has no derivative.\n"
        "  fix: break the symmetry that makes it so; or take the values by .detach() if no "
        "derivative is wanted",
    )
    return made
