"""A few of the largest or smallest eigenvalues of symmetric matrices: `lobpcg`.

Knyazev, Toward the optimal preconditioned eigensolver, SIAM J. Sci. Comput. 23 (2001). Each step
looks for the best vectors in the span of the present ones, their (preconditioned) residuals and the
last step.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from adjoint import _core
from adjoint._core import Tensor
from adjoint._tensor.arguments import require_tensor
from adjoint._tensor.typeinfo import finfo

__all__ = ["lobpcg"]


def _orthonormal(s: Tensor, b: Tensor | None) -> Tensor:
    """A basis of the columns of ``s``, orthonormal by ``b``; dependent columns are dropped."""
    s = s / _core.linalg_vector_norm(s, dim=-2, keepdim=True).clamp_min(1e-300)
    gram = s.mT @ (s if b is None else b @ s)
    values, vectors = _core.linalg_eigh(gram)
    kept = values > values[-1] * finfo(s.dtype).eps * s.shape[-1]
    return s @ (vectors[:, kept] / values[kept].sqrt())


def _search(
    a: Tensor, b: Tensor | None, x: Tensor, k: int, largest: bool, precondition: Tensor | None
) -> tuple[Callable[[], None], dict[str, Any]]:
    """A step of the search, and its state: E, X, and the relative residuals."""
    state: dict[str, Any] = {"X": x, "P": None, "E": None, "rerr": None}

    def step() -> None:
        basis = [state["X"]]
        if state["E"] is not None:
            residual = state["AX"] - state["BX"] * state["E"]
            basis.append(residual if precondition is None else precondition @ residual)
            if state["P"] is not None:
                basis.append(state["P"])
        q = _orthonormal(_core.cat(basis, -1), b)
        values, vectors = _core.linalg_eigh(q.mT @ (a @ q))
        order = slice(-k, None) if largest else slice(0, k)
        values, vectors = values[order], vectors[:, order]
        if largest:
            values, vectors = values.flip(-1), vectors.flip(-1)
        old, new = state["X"], q @ vectors
        inside = new - old @ (old.mT @ (new if b is None else b @ new))
        state.update(X=new, E=values, P=inside if state["E"] is not None else None)
        state["AX"], state["BX"] = a @ new, new if b is None else b @ new
        norm = _core.linalg_vector_norm
        lengths = norm(new, dim=-2) * (norm(a) + values.abs() * (1 if b is None else norm(b)))
        state["rerr"] = norm(state["AX"] - state["BX"] * values, dim=-2) / lengths

    return step, state


def _dense(a: Tensor, b: Tensor | None, k: int, largest: bool) -> tuple[Tensor, Tensor]:
    """The same eigenpairs from all of them, with derivatives."""
    a = (a + a.mT) / 2
    if b is None:
        values, vectors = _core.linalg_eigh(a)
    else:
        factor = _core.linalg_cholesky(b)
        half = _core.linalg_solve_triangular(factor, a, upper=False)
        inner = _core.linalg_solve_triangular(factor, half.mT, upper=False)
        values, vectors = _core.linalg_eigh(inner)
        vectors = _core.linalg_solve_triangular(factor.mT, vectors, upper=True)
    if largest:
        return values[..., -k:].flip(-1), vectors[..., -k:].flip(-1)
    return values[..., :k], vectors[..., :k]


def lobpcg(
    A: Tensor,
    k: int | None = None,
    B: Tensor | None = None,
    X: Tensor | None = None,
    n: int | None = None,
    iK: Tensor | None = None,
    niter: int | None = None,
    tol: float | None = None,
    largest: bool | None = None,
    method: str | None = None,
    tracker: Callable[[Any], None] | None = None,
    ortho_iparams: dict[str, int] | None = None,
    ortho_fparams: dict[str, float] | None = None,
    ortho_bparams: dict[str, bool] | None = None,
) -> tuple[Tensor, Tensor]:
    """Return the k largest (or smallest) eigenvalues of symmetric matrices, and their vectors.

    They solve ``A @ X = B @ X @ diag(E)``. Where a gradient is wanted they are taken from
    `linalg.eigh`, which has derivatives of every order; otherwise by LOBPCG.

    Parameters
    ----------
    A : Tensor
        Symmetric matrices of shape [..., m, m].
    k : int, optional
        How many eigenpairs: 1 by default, or the columns of ``X``. m must be at least 3 k.
    B : Tensor, optional
        Symmetric positive-definite matrices; the identity by default.
    X : Tensor, optional
        Vectors to start from, [..., m, n].
    n : int, optional
        How many vectors the search starts from if ``X`` is not given.
    iK : Tensor, optional
        An approximation of the inverse of ``A``, which speeds up the search.
    niter : int, optional
        The most steps: 1000 by default, or no limit if negative.
    tol : float, optional
        When to stop: relative residuals below it. The root of the dtype's epsilon by default.
    largest : bool, optional
        The largest eigenvalues (default), or the smallest.
    method, tracker, ortho_iparams, ortho_fparams, ortho_bparams
        ``tracker`` is called with the state after each step; the others are accepted and do
        nothing.

    Returns
    -------
    tuple of Tensor
        E [..., k], X [..., m, k].
    """
    require_tensor("lobpcg", "A", 1, A)
    m = A.shape[-1]
    if A.ndim < 2 or A.shape[-2] != m:
        raise ValueError(f"expected square matrices, got shape {tuple(A.shape)}")
    k = (1 if X is None else X.shape[-1]) if k is None else k
    n = (k if n is None else n) if X is None else X.shape[-1]
    if m < 3 * n:
        raise ValueError(
            f"LOBPCG algorithm is not applicable when the number of A rows (={m})"
            f" is smaller than 3 x the number of requested eigenpairs (={n})"
        )
    if method not in (None, "basic", "ortho"):
        raise ValueError(f"unknown method {method!r}; it may be 'basic' or 'ortho'")
    largest = True if largest is None else largest
    if any(t is not None and t.requires_grad for t in (A, B, X)) and _core.is_grad_enabled():
        return _dense(A, B, k, largest)
    if A.ndim > 2:
        flat = A.reshape(-1, m, m)
        found = [
            lobpcg(
                flat[i],
                k,
                None if B is None else B.expand(A.shape).reshape(-1, m, m)[i],
                None if X is None else X.reshape(-1, m, X.shape[-1])[i],
                n,
                iK,
                niter,
                tol,
                largest,
                method,
                tracker,
            )
            for i in range(flat.shape[0])
        ]
        e, x = (_core.stack(parts) for parts in zip(*found, strict=True))
        return e.reshape(*A.shape[:-2], k), x.reshape(*A.shape[:-2], m, k)
    start = _core.randn(m, n, dtype=A.dtype) if X is None else X
    limit = 1000 if niter is None else niter
    enough = finfo(A.dtype).eps ** 0.5 if tol is None else tol
    step, state = _search(A, B, start, n, largest, iK)
    steps = 0
    while True:
        step()
        steps += 1
        if tracker is not None:
            tracker(state)
        if bool((state["rerr"][:k] < enough).all()) or 0 <= limit <= steps:
            return state["E"][:k], state["X"][:, :k]
