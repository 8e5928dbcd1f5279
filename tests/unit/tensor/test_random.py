"""The random streams: the numbers of PyTorch's CPU generator, recorded here and compared live.

The recorded values hold without torch. Sizes below 16 and from 16 on take different paths for
normals.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import adjoint as ad

RECORDED: dict[str, tuple[Callable[[Any], Any], list[float]]] = {
    "rand": (
        lambda m: m.rand(5),
        [0.49625658988952637, 0.7682217955589294, 0.08847743272781372, 0.13203048706054688,
         0.30742281675338745],
    ),
    "rand64": (
        lambda m: m.rand(3, dtype=m.float64),
        [0.9700530018065531, 0.707819864399788, 0.45938294312745087],
    ),
    "randint": (lambda m: m.randint(0, 100, (8,)), [44, 39, 33, 60, 63, 79, 27, 3]),
    "randint_wide": (
        lambda m: m.randint(-(2**40), 2**60, (3,)),
        [900440291289639471, 510765438681074880, 742717097475461883],
    ),
    "randperm": (lambda m: m.randperm(10), [4, 1, 7, 5, 3, 9, 0, 8, 6, 2]),
    "bernoulli": (lambda m: m.bernoulli(m.full((10,), 0.5)), [1, 0, 1, 1, 1, 0, 1, 0, 1, 0]),
    "multinomial": (
        lambda m: m.multinomial(m.tensor([0.1, 0.2, 0.3, 0.4]), 6, replacement=True),
        [3, 3, 2, 3, 3, 3],
    ),
    "poisson": (
        lambda m: m.poisson(m.tensor([0.0, 0.5, 3.0, 9.0, 12.0, 50.0, 1000.0])),
        [0, 2, 4, 9, 14, 43, 954],
    ),
    "binomial": (
        lambda m: m.binomial(
            m.tensor([0.0, 5.0, 10.0, 40.0, 100.0, 100.0, 1000.0]),
            m.tensor([0.5, 0.3, 0.9, 0.5, 0.1, 1.0, 0.7]),
        ),
        [0, 3, 8, 19, 8, 100, 715],
    ),
    "multinomial_once": (lambda m: m.multinomial(m.tensor([0.1, 0.2, 0.3, 0.4]), 3), [2, 1, 3]),
    "uniform_": (
        lambda m: m.empty(3).uniform_(-2, 5),
        [1.4737961292266846, 3.3775525093078613, -1.3806579113006592],
    ),
    "random_": (lambda m: m.empty(4, dtype=m.int64).random_(0, 1000), [44, 239, 933, 760]),
}  # fmt: skip
NORMALS: dict[str, tuple[Callable[[Any], Any], list[float]]] = {
    "randn": (lambda m: m.randn(3), [1.5409960746765137, -0.293428897857666, -2.1787893772125244]),
    "randn_long": (
        lambda m: m.randn(20)[[0, 1, 15, 16, 19]],
        [-1.1258398294448853, -1.152360200881958, -0.843676745891571, 0.9318265914916992,
         0.05373690277338028],
    ),
    "randn64": (
        lambda m: m.randn(3, dtype=m.float64),
        [1.5409961082440433, -0.2934289057609464, -2.1787893820745574],
    ),
    "randn64_long": (
        lambda m: m.randn(17, dtype=m.float64)[[0, 1, 15, 16]],
        [-2.310411800234176, -0.6332746088675096, -0.8910030351707375, 0.6748575435940039],
    ),
    "normal_": (
        lambda m: m.empty(3).normal_(1, 2),
        [4.081992149353027, 0.4131421744823456, -3.357578754425049],
    ),
    "normal": (
        lambda m: m.normal(m.tensor([0.0, 10.0, 20.0]), m.tensor([1.0, 2.0, 3.0])),
        [1.5409960746765137, 9.413142204284668, 13.463631629943848],
    ),
    "gamma": (
        lambda m: m._standard_gamma(m.tensor([0.1, 0.5, 2.0, 30.0])),
        [3.1292356392933324e-16, 0.04415091872215271, 2.243497371673584, 34.46925354003906],
    ),
    "exponential_": (
        lambda m: m.empty(3).exponential_(2.0),
        [1.754163146018982, 0.6151923537254333, 0.3075220584869385],
    ),
}  # fmt: skip


def drawn(library: Any, make: Callable[[Any], Any], seed: int = 0) -> Any:
    library.manual_seed(seed)
    return make(library)


@pytest.mark.parametrize("name", RECORDED)
def test_uniforms_integers_and_permutations_are_the_recorded_ones(name: str) -> None:
    make, want = RECORDED[name]
    assert drawn(ad, make).tolist() == want


def assert_two_ulp(got: Any, want: Any) -> None:
    """Normals go through log, cos and sin, of which ours are not torch's: two ULP, as promised."""
    got, want = got.numpy(), np.asarray(want, got.numpy().dtype)
    assert np.all(np.abs(got - want) <= 2 * np.spacing(np.abs(want))), (got, want)


@pytest.mark.parametrize("name", NORMALS)
def test_normals_are_the_recorded_ones(name: str) -> None:
    make, want = NORMALS[name]
    assert_two_ulp(drawn(ad, make), want)


EXACT: list[Callable[[Any, int], Any]] = [
    lambda m, n: m.rand(n),
    lambda m, n: m.rand(n, dtype=m.float64),
    lambda m, n: m.rand(n, dtype=m.float16),
    lambda m, n: m.rand(n, dtype=m.bfloat16).float(),
    lambda m, n: m.randint(3, 1000, (n,)),
    lambda m, n: m.randint(0, 2**40, (n,)),
    lambda m, n: m.randint(0, 100, (n,), dtype=m.uint8),
    lambda m, n: m.randperm(n),
    lambda m, n: m.bernoulli(m.linspace(0, 1, n)),
    lambda m, n: m.empty(n).bernoulli_(0.3),
    lambda m, n: m.poisson(m.linspace(0, 40, n)),
    lambda m, n: m.binomial(m.full((n,), 90.0, dtype=m.float64), m.full((n,), 0.4).double()),
    lambda m, n: m.nn.functional.alpha_dropout(m.ones(n), 0.4, True) > 0,
    lambda m, n: m.nn.functional.dropout2d(m.ones(n, 3, 2, 2), 0.4),
    lambda m, n: m.empty(n).uniform_(2, 3),
    lambda m, n: m.empty(n, dtype=m.int32).random_(),
    lambda m, n: m.empty(n, dtype=m.int64).random_(5),
    lambda m, n: m.rand_like(m.empty(n)),
    lambda m, n: m.randint_like(m.empty(n), 10),
]


@pytest.mark.parametrize("which", range(len(EXACT)))
@pytest.mark.parametrize("seed", [0, 1, 2**31, 2**40 + 7, -1])
def test_exact_streams_are_torch_s(which: int, seed: int) -> None:
    torch = pytest.importorskip("torch")
    for n in (0, 1, 5, 15, 16, 17, 33, 625, 20_001):
        got, want = (drawn(m, lambda m, n=n: EXACT[which](m, n), seed) for m in (ad, torch))
        np.testing.assert_array_equal(got.numpy(), want.numpy(), f"n={n}")


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("n", [1, 5, 15, 16, 17, 31, 32, 33, 1000, 20_001])
def test_normal_streams_are_torch_s(dtype: str, n: int) -> None:
    torch = pytest.importorskip("torch")
    got, want = (drawn(m, lambda m: m.randn(n, dtype=getattr(m, dtype)), 7) for m in (ad, torch))
    assert_two_ulp(got, want.numpy())


def test_streams_stay_together_over_mixed_calls() -> None:
    """A normal keeps its unused half for the next call; every call leaves the same state behind."""
    torch = pytest.importorskip("torch")
    calls: list[Callable[[Any], Any]] = [
        lambda m: m.randn(3), lambda m: m.rand(2), lambda m: m.randn(1), lambda m: m.randn(40),
        lambda m: m.randint(0, 9, (3,)), lambda m: m.randn((), dtype=m.float64),
        lambda m: m.randperm(5), lambda m: m.rand(700), lambda m: m.randn(2, 2),
    ]  # fmt: skip
    ad.manual_seed(3)
    torch.manual_seed(3)
    for call in calls:
        got, want = call(ad), call(torch)
        np.testing.assert_allclose(got.numpy(), want.numpy(), rtol=1e-6)
        np.testing.assert_array_equal(ad.get_rng_state().numpy(), torch.get_rng_state().numpy())


def test_the_state_can_be_kept_and_restored() -> None:
    ad.manual_seed(5)
    ad.randn(3)
    state = ad.get_rng_state()
    first = ad.randn(5).tolist() + ad.rand(3).tolist()
    ad.set_rng_state(state)
    assert ad.randn(5).tolist() + ad.rand(3).tolist() == first
    with pytest.raises((RuntimeError, TypeError)):
        ad.set_rng_state(ad.zeros(3))


def test_generators_are_independent() -> None:
    g = ad.Generator().manual_seed(42)
    ad.manual_seed(0)
    got = ad.rand(2, generator=g).tolist()
    assert got == [0.8822692632675171, 0.9150039553642273]
    assert ad.rand(1).tolist() == [0.49625658988952637]
    assert g.initial_seed() == 42
    h = ad.Generator()
    h.set_state(g.get_state())
    assert ad.rand(3, generator=h).tolist() == ad.rand(3, generator=g).tolist()


def test_seeds() -> None:
    assert ad.manual_seed(7) is ad.default_generator
    assert ad.initial_seed() == 7
    assert ad.seed() == ad.initial_seed() != 7
    with pytest.raises((RuntimeError, ValueError, OverflowError, TypeError)):
        ad.manual_seed("seven")


@pytest.mark.parametrize(
    "call",
    [
        lambda: ad.randint(5, 5, (2,)),
        lambda: ad.randperm(-1),
        lambda: ad.bernoulli(ad.tensor([1.5])),
        lambda: ad.poisson(ad.tensor([-1.0])),
        lambda: ad.binomial(ad.tensor([1]), ad.tensor([0.5])),
        lambda: ad.empty(2).uniform_(3, 2),
        lambda: ad.empty(2).normal_(0, -1),
        lambda: ad.multinomial(ad.tensor([0.5, -0.5]), 1),
        lambda: ad.multinomial(ad.tensor([0.5, 0.5]), 3),
        lambda: ad.multinomial(ad.tensor([0.0, 0.0]), 1),
        lambda: ad.empty(2).exponential_(-1.0),
        lambda: ad.rand(-1),
    ],
)
def test_bad_parameters_are_refused(call: Callable[[], Any]) -> None:
    with pytest.raises(RuntimeError):
        call()


def test_moments_of_the_distributions() -> None:
    """Independent of any recorded stream: a mean of 200,000 is within five standard errors."""
    ad.manual_seed(1)
    n = 200_000
    for sample, mean, deviation in (
        (ad.rand(n, dtype=ad.float64), 0.5, 12**-0.5),
        (ad.randn(n, dtype=ad.float64), 0.0, 1.0),
        (ad.empty(n, dtype=ad.float64).exponential_(2.0), 0.5, 0.5),
        (ad.bernoulli(ad.full((n,), 0.3, dtype=ad.float64)), 0.3, 0.21**0.5),
        (ad.poisson(ad.full((n,), 4.0)).double() / 2, 2.0, 1.0),
        (ad.poisson(ad.full((n,), 25.0)).double() / 5, 5.0, 1.0),
        (ad.binomial(ad.full((n,), 8.0), ad.full((n,), 0.5)).double() / 2, 2.0, 0.5**0.5),
        (ad.binomial(ad.full((n,), 100.0), ad.full((n,), 0.8)).double() / 4, 20.0, 1.0),
        (ad._standard_gamma(ad.full((n,), 0.25)).double(), 0.25, 0.5),
        (ad._standard_gamma(ad.full((n,), 4.0)).double() / 2, 2.0, 1.0),
    ):
        assert abs(sample.mean().item() - mean) < 5 * deviation / n**0.5
        assert abs(sample.std().item() - deviation) < 0.01


STRIDED: list[Callable[[Any], Any]] = [
    lambda m: m.empty(4, 5).t().uniform_(),
    lambda m: m.empty(4, 5, 6).permute(1, 2, 0).uniform_(),
    lambda m: m.empty(4, 10)[:, ::2].random_(0, 9),
    lambda m: m.zeros(5, 4).t().bernoulli_(m.linspace(0, 1, 5)),
    lambda m: m.bernoulli(m.linspace(0, 1, 12).reshape(3, 4).t()),
    lambda m: m.rand_like(m.zeros(3, 4).t()),
    lambda m: m.multinomial(m.rand(4, 3).t(), 2),
    lambda m: m.dropout(m.ones(4, 5).t(), 0.3, True),
    lambda m: m.nn.functional.dropout(m.ones(40), 0.3),
]


@pytest.mark.parametrize("which", range(len(STRIDED)))
def test_memory_is_filled_in_torch_s_order(which: int) -> None:
    torch = pytest.importorskip("torch")
    got, want = (drawn(m, STRIDED[which]) for m in (ad, torch))
    np.testing.assert_array_equal(got.numpy(), want.numpy())


def test_states_are_exchanged_with_torch() -> None:
    torch = pytest.importorskip("torch")
    torch.manual_seed(9)
    torch.randn(5)
    ad.set_rng_state(ad.from_numpy(torch.get_rng_state().numpy()))
    assert ad.rand(3).tolist() == torch.rand(3).tolist()


def test_a_fill_cuts_history_and_refuses_leaves() -> None:
    x = ad.ones(3, requires_grad=True)
    with pytest.raises(RuntimeError, match="leaf"):
        x.uniform_()
    assert x.tolist() == [1.0, 1.0, 1.0]
    y = x * 2
    y.normal_()
    y.sum().backward()
    assert x.grad.tolist() == [0.0, 0.0, 0.0] and y._version == 1
    with ad.no_grad():
        x.uniform_()
    assert x.is_leaf and x.requires_grad


def test_dropout_passes_the_gradient_of_what_it_kept() -> None:
    x = ad.ones(100, dtype=ad.float64, requires_grad=True)
    y = ad.dropout(x, 0.25, True)
    y.sum().backward()
    assert x.grad.tolist() == y.tolist() and set(y.tolist()) == {0.0, 1 / 0.75}
    assert ad.dropout(x, 0.25, False) is x


def test_a_fork_leaves_the_stream_where_it_was() -> None:
    ad.manual_seed(2)
    with ad.random.fork_rng():
        ad.rand(10)
    first = ad.rand(2).tolist()
    ad.manual_seed(2)
    assert ad.rand(2).tolist() == first


LAYOUTS: dict[str, Callable[[Any, int], Any]] = {
    "transposed": lambda m, n: m.zeros(n, 3).t(),
    "in a wider matrix": lambda m, n: m.zeros(n, 5)[:, 1:4].t(),
    "every other": lambda m, n: m.zeros(2 * n)[::2],
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("n", [3, 6, 17])
def test_out_is_filled_in_the_order_of_its_memory(layout: str, n: int) -> None:
    torch = pytest.importorskip("torch")

    def drawn_into(m: Any) -> list[Any]:
        m.manual_seed(4)
        first, second, third = (LAYOUTS[layout](m, n) for _ in range(3))
        m.rand(first.shape, out=first)
        m.randn(second.shape, out=second)
        m.randint(0, 9, third.shape, out=third)
        return [first, second, third, m.rand(2)]

    for got, want in zip(drawn_into(ad), drawn_into(torch), strict=True):
        assert_two_ulp(got, want.numpy())
