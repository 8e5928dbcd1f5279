"""The loops of `cg`, `bicgstab`, `minres` and `gmres`, for several right sides at once.

Right sides are columns; every column has its own scalars, and one that is solved stands still while
others go on. Samples of a `vmap` are more of the same. Nothing is recorded: see _iterative.py for
derivatives. Residuals are those of the recurrences until they are small, then they are computed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import adjoint as ad
from adjoint._core import Tensor
from adjoint._progress import CallsBar
from adjoint._samples import everywhere, largest_value, somewhere

__all__ = ["LOOPS", "Broken", "Limits", "solved"]

Map = Callable[[Tensor], Tensor]


class Broken(Exception):
    """A loop that cannot go on, and why."""


class Limits(NamedTuple):
    """When a loop ends: where the residual is ``rtol ‖b‖`` or ``atol``, or after ``most`` steps."""

    rtol: float
    atol: float
    most: int
    restart: int
    callback: Callable[[Tensor], Any] | None


def dot(a: Tensor, b: Tensor) -> Tensor:
    """The inner products of columns."""
    return ((a.conj_physical() if a.is_complex() else a) * b).sum(0)


def size(a: Tensor) -> Tensor:
    """The lengths of columns."""
    return ad.linalg.vector_norm(a, dim=0)


def over(a: Tensor, b: Tensor) -> Tensor:
    """``a / b``, and 0 where b is 0: of columns that are solved."""
    return ad.where(b == 0, 0.0, a / ad.where(b == 0, 1.0, b))


class Run:
    """One call of a loop: its steps, and which columns are solved."""

    def __init__(self, A: Map, M: Map | None, b: Tensor, limits: Limits) -> None:
        self.A, self.b, self.limits = A, b, limits
        self.M: Map = M or (lambda v: v)
        self.steps = 0
        self.goal = (limits.rtol * size(b)).clamp(min=limits.atol)

    def goes_on(self, x: Tensor, small: Tensor) -> bool:
        """Whether a next step is wanted, of columns whose residual is not yet small."""
        if everywhere(small):
            return False
        if self.steps >= self.limits.most:
            return False
        self.steps += 1
        if self.limits.callback is not None and self.steps > 1:
            self.limits.callback(x.squeeze(-1))
        return True


def cg(run: Run, x: Tensor) -> Tensor:
    """Conjugate gradients, for Hermitian matrices that are positive definite."""
    r = run.b - run.A(x)
    z = run.M(r)
    p, rz = z, dot(r, z)
    while run.goes_on(x, done := size(r) <= run.goal):
        q = run.A(p)
        curve = dot(p, q).real if q.is_complex() else dot(p, q)
        if somewhere((curve <= 0) & ~done):
            raise Broken("the matrix (or the preconditioner) is not positive definite")
        step = ad.where(done, 0.0, over(rz, curve))
        x, r = x + step * p, r - step * q
        z = run.M(r)
        rz, before = dot(r, z), rz
        p = z + over(rz, before) * p
    return x


def bicgstab(run: Run, x: Tensor) -> Tensor:
    """Van der Vorst's method, for any matrix."""
    r = run.b - run.A(x)
    first, p = r, r
    rho = dot(first, r)
    while run.goes_on(x, done := size(r) <= run.goal):
        by_p = run.M(p)
        v = run.A(by_p)
        along = dot(first, v)
        if somewhere(((along == 0) | (rho == 0)) & ~done):
            return x  # it has lost its way: begin again from here
        alpha = ad.where(done, 0.0, over(rho, along))
        s = r - alpha * v
        by_s = run.M(s)
        t = run.A(by_s)
        omega = ad.where(done, 0.0, over(dot(t, s), dot(t, t)))
        x, r = x + alpha * by_p + omega * by_s, s - omega * t
        rho, before = dot(first, r), rho
        p = r + over(rho * alpha, before * omega) * (p - omega * v)
    return x


def minres(run: Run, x: Tensor) -> Tensor:
    """Paige and Saunders, for Hermitian matrices, definite or not: Lanczos and rotations."""
    r = run.b - run.A(x)
    y = run.M(r)
    beta = dot(r, y).real.clamp(min=0).sqrt() if r.is_complex() else dot(r, y).clamp(min=0).sqrt()
    older, old, w, w_old = ad.zeros_like(r), r, ad.zeros_like(r), ad.zeros_like(r)
    beta_old = ad.ones_like(beta)
    cosine, sine, below, carried = -ad.ones_like(beta), 0 * beta, 0 * beta, 0 * beta
    left = size(r)  # of the residual, in the norm of the vectors
    scale = over(left, beta)
    rest = beta
    while run.goes_on(x, done := rest * scale <= run.goal):
        v = over(y, beta.expand_as(y))
        y = run.A(v) - over(beta, beta_old) * older
        alpha = dot(v, y).real if y.is_complex() else dot(v, y)
        y = y - over(alpha, beta) * old
        older, old = old, y
        y = run.M(old)
        beta_old = beta
        inner = dot(old, y).real if y.is_complex() else dot(old, y)
        if somewhere((inner < 0) & ~done):
            raise Broken("the preconditioner is not positive definite")
        beta = inner.clamp(min=0).sqrt()
        # The rotation of the last step on the new column, then the one that removes what is below.
        above, diagonal = cosine * carried + sine * alpha, sine * carried - cosine * alpha
        below_old, below, carried = below, sine * beta, -cosine * beta
        length = ad.hypot(diagonal, beta)
        if somewhere((length == 0) & ~done):
            raise Broken("the matrix is singular")
        cosine, sine = over(diagonal, length), over(beta, length)
        w, w_old = over(v - below_old * w_old - above * w, length.expand_as(v)), w
        x = x + ad.where(done, 0.0, cosine * rest) * w
        rest = ad.where(done, rest, sine * rest)
    return x


def gmres(run: Run, x: Tensor) -> Tensor:
    """Saad and Schultz with restarts, for any matrix; the preconditioner stands to the right."""
    r = run.b - run.A(x)
    beta = size(r)
    basis = [over(r, beta.expand_as(r))]
    rotations: list[tuple[Tensor, Tensor]] = []
    columns: list[list[Tensor]] = []
    rest = [beta.to(r.dtype)]
    for _ in range(run.limits.restart):
        if not run.goes_on(x, rest[-1].abs() <= run.goal):
            break
        w = run.A(run.M(basis[-1]))
        column = [ad.zeros_like(rest[0]) for _ in basis]
        for _ in range(2):  # once more, for what rounding left
            for k, v in enumerate(basis):
                h = dot(v, w)
                column[k] = column[k] + h
                w = w - h * v
        new = size(w)
        basis.append(over(w, new.expand_as(w)))
        for k, (c, s) in enumerate(rotations):
            low = c * column[k + 1] - s.conj() * column[k]
            column[k] = c * column[k] + s * column[k + 1]
            column[k + 1] = low
        top = column[-1]
        length = ad.hypot(top.abs(), new)
        c = ad.where(top == 0, 0.0, over(top.abs(), length))
        phase = ad.where(top == 0, 1.0, over(top, top.abs().to(top.dtype)))
        s = phase * over(new, length)
        rotations.append((c, s))
        column[-1] = phase * length
        columns.append(column)
        rest.append(-s.conj() * rest[-1])
        rest[-2] = c * rest[-2]
    y: list[Tensor] = []
    for i in reversed(range(len(columns))):
        value = rest[i]
        for j, later in zip(range(i + 1, len(columns)), reversed(y), strict=True):
            value = value - columns[j][i] * later
        y.append(over(value, columns[i][i]))
    if not y:
        return x
    moved = sum((v * c for v, c in zip(basis, reversed(y), strict=False)), ad.zeros_like(x))
    return x + run.M(moved)


LOOPS: dict[str, Callable[[Run, Tensor], Tensor]] = {
    "cg": cg,
    "bicgstab": bicgstab,
    "minres": minres,
    "gmres": gmres,
}


def solved(
    method: str, A: Map, M: Map | None, b: Tensor, x: Tensor | None, limits: Limits
) -> tuple[Tensor, int, Tensor]:
    """The solution for columns of ``b``, the steps taken, and the residuals' lengths.

    A loop begins again from where it stopped, until the residual that is computed is small too.
    Raises `Broken`, also where no more progress is made.
    """
    with ad.no_grad(), CallsBar(method) as bar:
        A = bar.counting(A)
        run = Run(A, M, b, limits)
        x = ad.zeros_like(b) if x is None else x
        before = None
        while True:
            r = b - A(x)
            left = size(r)
            if everywhere(left <= run.goal):
                return x, run.steps, left
            if not everywhere(ad.isfinite(left)):
                raise Broken("the residual is not finite")
            if run.steps >= limits.most:
                raise Broken(
                    f"{limits.most} steps were not enough, the residual is {_rel(left, b)}"
                )
            if before is not None and everywhere((left > 0.995 * before) | (left <= run.goal)):
                # Rounding alone may leave this much.
                if everywhere(left <= 1e3 * run.goal):
                    return x, run.steps, left
                raise Broken(f"it makes no more progress, the residual is {_rel(left, b)}")
            before = left
            x = LOOPS[method](run, x)


def _rel(left: Tensor, b: Tensor) -> str:
    ratio = over(left, size(b))
    return f"{largest_value(ratio):.3g} of the right side"
