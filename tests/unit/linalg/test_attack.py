"""Every derivative of linear algebra on random matrices, most of them at an edge.

Wide, tall, empty, batched, complex, singular, with equal or almost equal eigenvalues and singular
values, defective, tiny and huge. Forward mode, backward and second derivatives must be those of
differences of the values; where the function has a kink, between its slopes to either side; or they
are refused with a reason. `ADJOINT_ATTACKS=50` takes 50 matrices of each kind instead of one.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import adjoint as ad

Array = np.ndarray[Any, Any]
Draw = Callable[..., Array]
ROUNDS = int(os.environ.get("ADJOINT_ATTACKS", "1"))


# --- matrices -------------------------------------------------------------------------------------


def unitary(draw: Draw, n: int) -> Array:
    return np.asarray(np.linalg.qr(draw(n, n))[0])


def between(draw: Draw, values: list[float], m: int, n: int) -> Array:
    """A matrix with these singular values."""
    u, v = unitary(draw, m), unitary(draw, n)
    k = min(m, n)
    return np.asarray((u[:, :k] * np.array(values[:k])) @ v[:, :k].conj().T)


def around(draw: Draw, values: list[float]) -> Array:
    """A Hermitian matrix with these eigenvalues."""
    q = unitary(draw, len(values))
    return np.asarray((q * np.array(values)) @ q.conj().T)


def jordan(draw: Draw) -> Array:
    """A matrix with too few eigenvectors."""
    p = draw(3, 3) + 3 * np.eye(3)
    return np.asarray(p @ np.array([[2.0, 1, 0], [0, 2, 0], [0, 0, 1]]) @ np.linalg.inv(p))


SQUARE: dict[str, Callable[[Draw], Array]] = {
    "plain": lambda draw: draw(3, 3) + 2 * np.eye(3),
    "single": lambda draw: draw(1, 1) + 2,
    "large": lambda draw: draw(18, 18) / 4 + np.diag(1.0 + np.arange(18)),
    "batch": lambda draw: draw(2, 3, 2, 2) + 2 * np.eye(2),
    "hermitian": lambda draw: around(draw, [3.0, 2.0, -1.0]),
    "identity": lambda draw: 2.0 * np.eye(3),
    "equal eigenvalues": lambda draw: around(draw, [2.0, 2.0, 1.0, 1.0]),
    "near eigenvalues": lambda draw: around(draw, [2.0, 2.0 + 1e-3, 1.0]),
    "nearly equal eigenvalues": lambda draw: around(draw, [2.0, 2.0 + 1e-8, 1.0]),
    "opposite eigenvalues": lambda draw: around(draw, [2.0, -2.0, 1.0]),
    "equal singular values": lambda draw: between(draw, [2.0, 2.0, 1.0], 3, 3),
    "near singular values": lambda draw: between(draw, [2.0, 2.0 - 1e-3, 1.0], 3, 3),
    "nearly equal singular values": lambda draw: between(draw, [2.0, 2.0 - 1e-8, 1.0], 3, 3),
    "singular": lambda draw: between(draw, [3.0, 1.0, 0.0], 3, 3),
    "rank one": lambda draw: between(draw, [2.0, 0.0, 0.0], 3, 3),
    "zero": lambda draw: np.zeros((2, 2)),
    "exactly singular": lambda draw: np.diag([2.0, 1.0, 0.0]),
    "exactly of rank one": lambda draw: np.diag([0.0, 2.0, 0.0]),
    "one of a batch singular": lambda draw: np.stack([
        draw(2, 2) + 2 * np.eye(2), between(draw, [1.0, 0.0], 2, 2)]),
    "defective": jordan,
    "triangular": lambda draw: np.triu(draw(3, 3)) + np.diag([1.0, 2.0, 4.0]),
    "no matrices": lambda draw: np.zeros((0, 3, 3)),
    "no elements": lambda draw: np.zeros((0, 0)),
    "batch of no elements": lambda draw: np.zeros((2, 0, 0)),
    "tiny": lambda draw: 1e-60 * (draw(3, 3) + 2 * np.eye(3)),
    "huge": lambda draw: 1e60 * (draw(3, 3) + 2 * np.eye(3)),
}  # fmt: skip
RECTANGLES: dict[str, Callable[[Draw], Array]] = {
    "tall": lambda draw: draw(4, 2),
    "wide": lambda draw: draw(2, 4),
    "tall batch": lambda draw: draw(2, 3, 2),
    "wide batch": lambda draw: draw(2, 1, 2, 3),
    "column": lambda draw: draw(3, 1),
    "row": lambda draw: draw(1, 3),
    "tall, equal singular values": lambda draw: between(draw, [2.0, 2.0], 4, 2),
    "wide, near singular values": lambda draw: between(draw, [2.0, 2.0 - 1e-3], 2, 4),
    "tall, short of rank": lambda draw: between(draw, [2.0, 0.0], 4, 2),
    "wide, short of rank": lambda draw: between(draw, [2.0, 0.0], 2, 4),
    "tall, tiny": lambda draw: 1e-60 * draw(3, 2),
    "wide, huge": lambda draw: 1e60 * draw(2, 3),
    "tall, exactly short of rank": lambda draw: np.array([[2.0, 0.0], [0.0, 0.0], [0.0, 0.0]]),
    "no rows": lambda draw: np.zeros((0, 3)),
    "no columns": lambda draw: np.zeros((3, 0)),
}
EVERY = SQUARE | RECTANGLES


# --- calls, whose results leave nothing to choose -------------------------------------------------


@dataclass(frozen=True)
class Call:
    of: Callable[[Any, float], Any]
    any_shape: bool = False
    real_only: bool = False
    nan_at: str = ""  # where there is no derivative, as the guide says
    jumps: bool = False  # where the rank changes
    concave: bool = False  # at a kink there are slopes outside those to both sides


def hermitian(a: Any) -> Any:
    return (a + a.mH) / 2


def positive(a: Any, k: float) -> Any:
    return a @ a.mH + k**-2 * ad.eye(a.shape[-2], dtype=a.dtype)


def rebuilt(values: Any, left: Any, right: Any) -> Any:
    return (left * values.to(left.dtype).unsqueeze(-2)) @ right


def of_eigh(a: Any, k: float) -> Any:
    w, v = L.eigh(hermitian(a))
    return rebuilt((k * w).sin(), v, v.mH)


def of_eig(a: Any, k: float) -> Any:
    w, v = L.eig(a)
    return rebuilt((k * w) ** 2, v, L.inv(v))


def of_svd(a: Any, k: float) -> Any:
    u, s, vh = L.svd(a, full_matrices=False)
    return rebuilt((k * s).sin(), u, vh)


def of_qr(a: Any, k: float) -> Any:
    q, r = L.qr(a)
    return k * q @ r + (q @ q.mH) @ (k * a).sin()


def of_lu(parts: Any) -> Any:
    p, low, high = parts
    return p @ low @ high


def of_lstsq(a: Any, k: float) -> Any:
    return L.lstsq(a, (k * a).sin() @ ad.ones(a.shape[-1], 1, dtype=a.dtype)).solution


L = ad.linalg
ANY: dict[str, Any] = {"any_shape": True}
# Of a matrix, and a number that brings its elements to the size of 1.
CALLS: dict[str, Call] = {
    "inv": Call(lambda a, k: L.inv(a)),
    "inv_ex": Call(lambda a, k: L.inv_ex(a, check_errors=True)[0]),
    "inverse": Call(lambda a, k: a.inverse()),
    "solve": Call(lambda a, k: L.solve(a, (k * a).sin())),
    "solve from the right": Call(lambda a, k: L.solve(a, (k * a).cos(), left=False)),
    "solve_ex": Call(lambda a, k: L.solve_ex(a, (k * a)[..., :1].sin(), check_errors=True)[0]),
    "det": Call(lambda a, k: L.det(k * a)),
    "slogdet": Call(lambda a, k: L.slogdet(a)[1], nan_at="singular"),
    "logdet": Call(lambda a, k: ad.logdet(a @ a.mT), real_only=True, nan_at="singular"),
    "lu": Call(lambda a, k: of_lu(L.lu(a)), **ANY, nan_at="singular"),
    "lu_factor": Call(
        lambda a, k: of_lu(ad.lu_unpack(*L.lu_factor(a))), **ANY, nan_at="singular"),
    "lu_solve": Call(lambda a, k: L.lu_solve(*L.lu_factor(a), (k * a).sin()), nan_at="singular"),
    "cholesky": Call(lambda a, k: L.cholesky(positive(a, k)), **ANY),
    "cholesky_ex": Call(lambda a, k: L.cholesky_ex(positive(a, k), upper=True)[0], **ANY),
    "cholesky_solve": Call(
        lambda a, k: ad.cholesky_solve((k * a).sin(), L.cholesky(positive(a, k))), **ANY),
    "cholesky_inverse": Call(lambda a, k: ad.cholesky_inverse(L.cholesky(positive(a, k))), **ANY),
    "qr": Call(of_qr, **ANY, nan_at="singular"),
    "eigh": Call(of_eigh),
    "eigvalsh": Call(lambda a, k: ((k * L.eigvalsh(hermitian(a))) ** 3).sum(-1)),
    "eig": Call(of_eig, nan_at="defective"),
    "eigvals": Call(lambda a, k: ((k * L.eigvals(a)) ** 2).sum(-1), nan_at="defective"),
    "eigvalsh at its minimum": Call(
        lambda a, k: ((k * L.eigvalsh(hermitian(a)) - 1) ** 2).sum(-1)),
    "eigvals at their minimum": Call(lambda a, k: ((k * L.eigvals(a) - 1) ** 2).sum(-1),
                                     nan_at="defective"),
    "svdvals at their minimum": Call(lambda a, k: ((k * L.svdvals(a) - 1) ** 2).sum(-1), **ANY),
    "svd": Call(of_svd, **ANY),
    "svdvals": Call(lambda a, k: ((k * L.svdvals(a)) ** 2).sum(-1), **ANY),
    "pinv": Call(lambda a, k: L.pinv(a), **ANY, jumps=True),
    "pinv hermitian": Call(lambda a, k: L.pinv(hermitian(a), hermitian=True), jumps=True),
    "lstsq": Call(of_lstsq, **ANY, jumps=True),
    "matrix_exp": Call(lambda a, k: L.matrix_exp(k * a)),
    "matrix_power": Call(lambda a, k: L.matrix_power(k * a, 3)),
    "matrix_power -2": Call(lambda a, k: L.matrix_power(k * a, -2)),
    "norm fro": Call(lambda a, k: L.matrix_norm(a), **ANY),
    "norm nuc": Call(lambda a, k: L.matrix_norm(a, "nuc"), **ANY),
    "norm 2": Call(lambda a, k: L.matrix_norm(a, 2), **ANY),
    "norm -2": Call(lambda a, k: L.matrix_norm(a, -2), **ANY, concave=True),
    "norm 1": Call(lambda a, k: L.matrix_norm(a, 1), **ANY),
    "cond": Call(lambda a, k: L.cond(a), **ANY, nan_at="singular"),
    "cond 1": Call(lambda a, k: L.cond(a, 1), nan_at="singular"),
    "multi_dot": Call(lambda a, k: L.multi_dot([k * a, a.mH, k * a]) if a.ndim == 2 else a, **ANY),
    "solve_triangular": Call(
        lambda a, k: L.solve_triangular(a.triu(), (k * a).sin(), upper=True), nan_at="singular"),
    "triangular_solve": Call(
        lambda a, k: ad.triangular_solve((k * a).sin(), k * a, upper=False, unitriangular=True)[0]),
    "tensorinv": Call(lambda a, k: L.tensorinv(a, ind=1) if a.ndim == 2 else a),
    "tensorsolve": Call(
        lambda a, k: L.tensorsolve(a, (k * a)[0].sin()) if a.ndim == 2 and len(a) else a),
    "vecdot": Call(lambda a, k: L.vecdot(k * a, (k * a).sin()), **ANY),
    "vander": Call(lambda a, k: L.vander(k * a, N=3), **ANY),
    "vector_norm": Call(lambda a, k: L.vector_norm(a, 4, dim=-1), **ANY),
    "householder_product": Call(
        lambda a, k: L.householder_product(k * a, (k * a)[..., 0, :].sin()) if a.numel() else a),
}  # fmt: skip


# --- what the derivatives must be -----------------------------------------------------------------


def rank(a: Array) -> int:
    """The least rank of the matrices."""
    return int(np.linalg.matrix_rank(a).min()) if a.size else 0


def is_short(a: Array) -> bool:
    return a.size > 0 and rank(a) < min(a.shape[-2:])


def gap(values: Array, size: float) -> float:
    """The smallest distance between values, and of one from zero, in parts of the largest."""
    apart = abs(values[..., :, None] - values[..., None, :]) + size * np.eye(values.shape[-1])
    return float(apart.min(initial=size)) / size


def has_choice(a: Array, near: float = 1e-10) -> bool:
    """Whether eigenvectors or singular vectors are a choice: of a, or of its Hermitian part."""
    if a.size == 0:
        return False
    size = float(abs(a).max()) or 1.0
    s = np.linalg.svd(a, compute_uv=False)
    spectra = [s]
    if a.shape[-1] == a.shape[-2]:
        spectra += [np.linalg.eigvals(a), np.linalg.eigvalsh((a + a.swapaxes(-1, -2).conj()) / 2)]
    return any(gap(w, size) < near for w in spectra) or float(s.min()) < 1e-10 * size


@dataclass
class Slopes:
    """Of the sum of a function along a direction: to the left, to the right, and what is exact."""

    left: float
    right: float
    unit: float

    @property
    def smooth(self) -> bool:
        return abs(self.left - self.right) <= 1e-4 * self.unit

    def allow(self, slope: float) -> bool:
        low, high = sorted((self.left, self.right))
        return low - 1e-5 * self.unit <= slope <= high + 1e-5 * self.unit


def slopes(phi: Callable[[float], float], step: float, floor: float) -> Slopes:
    """By differences to one side, of the fourth order."""

    def one(h: float) -> float:
        weights = (-25 / 12, 4.0, -3.0, 4 / 3, -1 / 4)
        return sum(w * phi(k * h) for k, w in enumerate(weights)) / h

    found = one(-step), one(step)
    unit = max(abs(found[0]), abs(found[1]), abs(phi(0.0)), floor)
    return Slopes(*found, unit)


def real_sum(weights: Any, t: Any) -> Any:
    product = t * weights.conj()
    return (product.real if product.is_complex() else product).sum()


def attack(call: Call, a: Array, draw: Draw) -> None:
    """Compare all derivatives along one direction, by random weights of the result."""
    x, v = ad.from_numpy(a), ad.from_numpy(np.asarray(draw(*a.shape)))
    size = float(abs(a).max(initial=0)) or 1.0
    v, floor = v * size, 1e-6 if 1e-3 < size < 1e3 else 1e-300

    def f(t: Any) -> Any:
        return call.of(t, 1 / size)

    # Too few eigenvectors: the values come out apart by the root of a rounding.
    edge = is_short(a) or has_choice(a, 1e-6 if call.nan_at == "defective" else 1e-10)
    try:
        value = f(x)
    except RuntimeError as error:
        assert edge or "empty" in str(error) or "non-zero size" in str(error), error
        return
    except IndexError:
        assert a.size == 0
        return
    if edge and (call.nan_at or float(value.detach().abs().nan_to_num(np.inf).max()) > 1e9 * size):
        return  # singular, but for rounding
    drawn = np.asarray(draw(*value.shape))
    w = ad.from_numpy(drawn if value.is_complex() else drawn.real.copy())

    def phi(t: float) -> float:
        return float(real_sum(w, f(x + t * v)))

    def gradient(t: float, create_graph: bool = False) -> Any:
        y = (x + t * v).requires_grad_()
        total = real_sum(w, f(y))
        if not total.requires_grad:  # a number for matrices without elements
            return y, total.detach() * 0
        (g,) = ad.autograd.grad(total, y, create_graph=create_graph)
        return y, real_sum(v, g)

    try:
        tangent = float(real_sum(w, ad.func.jvp(f, (x,), (v,))[1]))
        slope = float(gradient(0.0)[1])
    except (ad.linalg.LinAlgError, NotImplementedError):
        assert edge, "refused, though nothing is a choice"
        return
    assert np.isfinite(tangent) and np.isfinite(slope), f"{tangent} forward, {slope} backward"
    if call.jumps and is_short(a):
        assert abs(tangent - slope) <= 1e-6 * max(1.0, abs(slope)), f"{tangent}, {slope}"
        return
    try:
        want = slopes(phi, 1e-6, floor)
    except RuntimeError:  # the inverse of a matrix that is singular to one side
        return
    if call.concave and not want.smooth:
        return
    assert want.allow(tangent), f"forward {tangent}, differences {want}"
    assert want.allow(slope), f"backward {slope}, differences {want}"
    if not want.smooth:
        return
    try:
        y, first = gradient(0.0, create_graph=True)
        if not first.requires_grad:
            return
        (g,) = ad.autograd.grad(first, y, allow_unused=True)
        second = float(real_sum(v, g)) if g is not None else 0.0
    except ad.linalg.LinAlgError:
        assert edge, "refused, though nothing is a choice"
        return
    if has_choice(a, 1e-5) and not edge:  # differences turn the vectors too far
        return
    h = 1e-5
    parts = [float(gradient(t)[1]) for t in (-2 * h, -h, h, 2 * h)]
    curve = (parts[0] - 8 * parts[1] + 8 * parts[2] - parts[3]) / (12 * h)
    unit = max(abs(curve), want.unit)
    assert abs(second - curve) <= 1e-4 * unit, f"second {second}, differences {curve}"


def draws(text: str, complex_: bool) -> Draw:
    rng = np.random.default_rng(zlib.crc32(f"{text} {complex_}".encode()))

    def draw(*shape: int) -> Array:
        real = np.asarray(rng.uniform(-1, 1, shape))
        return real + 1j * rng.uniform(-1, 1, shape) if complex_ else real

    return draw


@pytest.mark.parametrize("name", CALLS)
def test_derivatives_on_all_kinds_of_matrices(name: str) -> None:
    call, wrong = CALLS[name], []
    for i, kind in enumerate(EVERY if call.any_shape else SQUARE):
        for number in range(ROUNDS):
            complex_ = (i + number + len(name)) % 2 == 1 and not call.real_only
            draw = draws(f"{name} {kind} {number}", complex_)
            a = EVERY[kind](draw)
            try:
                attack(call, a.astype(np.complex128) if complex_ else a, draw)
            except (AssertionError, RuntimeError) as error:
                wrong.append(f"{kind}, number {number}: {error}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("name", CALLS)
def test_check_finds_the_derivatives_right(name: str) -> None:
    call = CALLS[name]
    kind = ("tall", "wide")[len(name) % 2] if call.any_shape else "plain"

    def f(a: Any) -> Any:
        value = call.of(a, 1.0)
        return (value.real if value.is_complex() else value).sin()  # not linear

    report = ad.check(f, ad.from_numpy(EVERY[kind](draws(f"{name} {kind}", False))), name=name)
    assert report.ok, report
