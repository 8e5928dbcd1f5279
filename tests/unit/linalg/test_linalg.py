"""Linear algebra: values, derivatives of first and second order, forward mode, batches, errors."""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from tests.ops.samples_linalg import OPS
from tests.unit.linalg.cases import CASES, Case


def arrays(name: str, case: Case, kind: str, batch: tuple[int, ...], n: int) -> list[Any]:
    rng = np.random.default_rng(zlib.crc32(f"{name}{kind}{batch}{n}".encode()))

    def draw(*shape: int) -> Any:
        values = rng.uniform(-1, 1, shape)
        return values + 1j * rng.uniform(-1, 1, shape) if kind == "complex" else values

    return case.inputs(draw, batch, n)


def cases(kinds: list[str]) -> Any:
    rows = [(n, k) for n, c in CASES.items() for k in kinds if not (c.real_only and k == "complex")]
    return pytest.mark.parametrize(("name", "kind"), rows)


@cases(["real", "complex"])
@pytest.mark.parametrize(
    ("batch", "n"), [((), 3), ((), 1), ((2, 3), 4), ((5,), 17), ((0,), 2), ((), 40)]
)
def test_values(name: str, kind: str, batch: tuple[int, ...], n: int) -> None:
    case = CASES[name]
    if n == 40 and case.inputs.__name__ == "distinct":
        n = 20  # further apart than rounding
    given = arrays(name, case, kind, batch, n)
    ours = case.call(ad, *map(ad.from_numpy, given)).numpy()
    wanted = case.reference(*given)
    assert ours.shape == wanted.shape
    size = max(1.0, float(abs(wanted).max(initial=0)))
    np.testing.assert_allclose(ours, wanted, rtol=1e-9, atol=1e-10 * size)


@cases(["real", "complex"])
def test_transposed_and_strided_inputs(name: str, kind: str) -> None:
    case = CASES[name]
    given = arrays(name, case, kind, (2,), 3)
    wanted = case.call(ad, *map(ad.from_numpy, given))
    turned = [ad.from_numpy(a.swapaxes(-1, -2).copy()).mT for a in given]
    spread = [ad.from_numpy(a).repeat_interleave(2, -1)[..., ::2] for a in given]
    for other in (turned, spread):
        assert ad.allclose(case.call(ad, *other), wanted, rtol=1e-12, atol=1e-13)


@cases(["real", "complex"])
def test_derivatives(name: str, kind: str) -> None:
    case = CASES[name]
    given = [ad.from_numpy(a).requires_grad_() for a in arrays(name, case, kind, (), 3)]
    f = lambda *ts: case.call(ad, *ts)  # noqa: E731
    assert ad.autograd.gradcheck(f, given, check_forward_ad=True)
    assert ad.autograd.gradgradcheck(f, given, atol=1e-4)


@cases(["real"])
@pytest.mark.parametrize("n", [2, 18])
def test_derivatives_in_batches(name: str, kind: str, n: int) -> None:
    """Small matrices and large ones, in batches, against a sum over single ones."""
    case = CASES[name]
    if n > 10 and case.inputs.__name__ == "distinct":
        n = 10
    given = arrays(name, case, kind, (3,), n)
    whole = [ad.from_numpy(a).requires_grad_() for a in given]
    case.call(ad, *whole).sin().abs().sum().backward()
    for k in range(3):
        one = [ad.from_numpy(a[k].copy()).requires_grad_() for a in given]
        case.call(ad, *one).sin().abs().sum().backward()
        for a, b in zip(whole, one, strict=True):
            assert a.grad is not None and b.grad is not None
            assert ad.allclose(a.grad[k], b.grad, rtol=1e-8, atol=1e-9)


@cases(["real", "complex"])
def test_vmap_is_a_loop(name: str, kind: str) -> None:
    case = CASES[name]
    given = [ad.from_numpy(a) for a in arrays(name, case, kind, (3,), 2)]
    many = ad.func.vmap(lambda *ts: case.call(ad, *ts))(*given)
    each = ad.stack([case.call(ad, *(t[k] for t in given)) for k in range(3)])
    assert ad.allclose(many, each, rtol=1e-10, atol=1e-12)


@cases(["real"])
def test_float32(name: str, kind: str) -> None:
    case = CASES[name]
    given = arrays(name, case, kind, (4,), 5)
    rough = case.call(ad, *(ad.from_numpy(a).float() for a in given))
    exact = case.call(ad, *map(ad.from_numpy, given))
    assert rough.dtype in (ad.float32, ad.complex64)
    assert ad.allclose(rough.to(exact.dtype), exact, rtol=2e-3, atol=2e-3)


def test_results_do_not_depend_on_threads() -> None:
    a = ad.from_numpy(np.random.default_rng(1).normal(size=(300, 6, 6))) + 3 * ad.eye(6)
    before, found = ad.get_num_threads(), []
    try:
        for threads in (1, 2):
            ad.set_num_threads(threads)
            found.append([ad.linalg.inv(a), ad.linalg.eigvalsh(a), ad.linalg.svdvals(a)])
    finally:
        ad.set_num_threads(before)
    assert all(ad.equal(x, y) for x, y in zip(*found, strict=True))


SINGULAR = ad.zeros(2, 3, 3)
REFUSED = {
    "singular solve": (lambda: ad.linalg.solve(SINGULAR, ad.ones(3)), ad.linalg.LinAlgError),
    "singular inverse": (lambda: ad.linalg.inv(SINGULAR), ad.linalg.LinAlgError),
    "not positive": (lambda: ad.linalg.cholesky(-ad.eye(3)), ad.linalg.LinAlgError),
    "not square": (lambda: ad.linalg.inv(ad.ones(2, 3)), RuntimeError),
    "a vector": (lambda: ad.linalg.det(ad.ones(3)), RuntimeError),
    "integers": (lambda: ad.linalg.eigh(ad.ones(3, 3, dtype=ad.int64)), RuntimeError),
    "not a tensor": (lambda: ad.linalg.svd([[1.0]]), TypeError),
    "sides": (lambda: ad.linalg.solve(ad.eye(3), ad.ones(2)), RuntimeError),
    "too many pivots": (lambda: ad.lu_unpack(ad.eye(2), ad.ones(7, dtype=ad.int32)), RuntimeError),
    "pivots of a batch": (
        lambda: ad.lu_unpack(ad.ones(3, 2, 2), ad.ones(2, 2, dtype=ad.int32)),
        RuntimeError,
    ),
    "a pivot too large": (
        lambda: ad.lu_unpack(ad.eye(2), ad.full((2,), 9, dtype=ad.int32)),
        RuntimeError,
    ),
    "no axis of pivots": (
        lambda: ad.lu_unpack(ad.eye(1), ad.tensor(1, dtype=ad.int32)),
        RuntimeError,
    ),
    "NaN": (lambda: ad.linalg.eigh(ad.full((3, 3), float("nan"))), ad.linalg.LinAlgError),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refusals(name: str) -> None:
    call, error = REFUSED[name]
    with pytest.raises(error):
        call()


def test_every_op_has_a_case() -> None:
    ops = {row["name"] for row in ad._core.op_table() if row["name"].startswith("linalg_")}
    samples = {op.name for op in OPS}  # tests/ops
    assert ops <= samples | set(CASES), sorted(ops - samples - set(CASES))
