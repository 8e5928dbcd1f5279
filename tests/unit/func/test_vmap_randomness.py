"""vmap: random numbers that differ for each sample, are the same for all, or are refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import adjoint as ad
from adjoint.func import jacfwd, vmap

F = ad.nn.functional


# What is drawn for samples is what the batch would draw at once: (of a sample, of the batch).
DRAWN: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    "rand": (lambda x: ad.rand(7), lambda x: ad.rand(4, 7)),
    "randn": (lambda x: ad.randn(9), lambda x: ad.randn(4, 9)),
    "randint": (lambda x: ad.randint(50, (8,)), lambda x: ad.randint(50, (4, 8))),
    "randint_low": (lambda x: ad.randint(3, 50, (8,)), lambda x: ad.randint(3, 50, (4, 8))),
    "normal_size": (
        lambda x: ad.normal(2.0, 3.0, (7,)),
        lambda x: ad.normal(2.0, 3.0, (4, 7)),
    ),
    "randperm": (
        lambda x: ad.randperm(20),
        lambda x: ad.stack([ad.randperm(20) for _ in range(4)]),
    ),
    "multinomial": (lambda x: ad.multinomial(x, 2), lambda x: ad.multinomial(x, 2)),
    "multinomial_shared": (
        lambda x: ad.multinomial(ad.ones(2, 9), 3),
        lambda x: ad.multinomial(ad.ones(8, 9), 3).view(4, 2, 3),
    ),
    **{
        name: (f, f)
        for name, f in {
            "rand_like": ad.rand_like,
            "randn_like": ad.randn_like,
            "randint_like": lambda x: ad.randint_like(x, 40),
            "bernoulli": lambda x: ad.bernoulli(x / 3),
            "bernoulli_p": lambda x: ad.bernoulli(x, 0.5),
            "normal_mean": lambda x: ad.normal(x, 2.0),
            "normal_std": lambda x: ad.normal(1.0, x),
            "normal": lambda x: ad.normal(x, x),
            "poisson": lambda x: ad.poisson(x * 10),
            "binomial": lambda x: ad.binomial(x * 20, x / 3),
            "gamma": ad._standard_gamma,
            "dirichlet": ad._sample_dirichlet,
            "dropout": lambda x: F.dropout(x),
            "uniform_": lambda x: ad.zeros_like(x).uniform_(2, 3),
            "normal_": lambda x: x.clone().normal_(),
            "bernoulli_": lambda x: ad.zeros_like(x).bernoulli_(x / 3),
            "random_": lambda x: ad.zeros_like(x).random_(100),
            "exponential_": lambda x: ad.zeros_like(x).exponential_(),
        }.items()
    },
}


@pytest.mark.parametrize("name", DRAWN)
def test_different_numbers_are_those_of_the_batch(name: str) -> None:
    of_sample, of_batch = DRAWN[name]
    x = ad.linspace(0.5, 2.5, 48).view(4, 12)
    ad.manual_seed(5)
    got = vmap(of_sample, randomness="different")(x)
    ad.manual_seed(5)
    assert ad.equal(got, of_batch(x))
    assert not ad.equal(got[0], got[1])


def test_a_shared_tensor_still_gives_different_numbers() -> None:
    shared, x = ad.full((6,), 0.5), ad.ones(4)
    for f in (ad.bernoulli, ad.rand_like, F.dropout, lambda t: ad.normal(t, 1.0)):
        got = vmap(lambda r, f=f: f(shared.repeat(8)) + r, randomness="different")(x)
        assert not ad.equal(got[0], got[1])
    with pytest.raises(RuntimeError, match="different inplace randomness on an unbatched tensor"):
        vmap(lambda r: shared.uniform_() + r, randomness="different")(x)
    with pytest.raises(RuntimeError, match="`other` in extra_args that has more elements"):
        vmap(lambda r: shared.bernoulli_(r), randomness="different")(x)


def test_the_same_numbers_are_those_of_one_sample() -> None:
    x = ad.linspace(0.5, 2.5, 48).view(4, 12)
    for f in (
        lambda r: ad.randn(9),
        lambda r: ad.randperm(9),
        ad.rand_like,
        lambda r: ad.zeros_like(r).normal_(),
        lambda r: F.dropout(ad.ones_like(r)),
        lambda r: ad.bernoulli(ad.full((5,), 0.5)),
    ):
        ad.manual_seed(5)
        got = vmap(f, randomness="same")(x)
        ad.manual_seed(5)
        assert ad.equal(got, f(x[0]).expand_as(got))
    for f in (ad.bernoulli, ad.poisson, lambda r: ad.zeros(12).bernoulli_(r)):
        with pytest.raises(RuntimeError, match="same randomness with a batched tensor input"):
            vmap(f, randomness="same")(x / 3)


def test_maps_inside_maps_draw_for_each_sample_of_each() -> None:
    x = ad.ones(2, 3)
    f = lambda r: r + ad.randn(())  # noqa: E731
    ad.manual_seed(0)
    got = vmap(vmap(f, randomness="different"), randomness="different")(x)
    ad.manual_seed(0)
    assert ad.equal(got, x + ad.randn(2, 3))
    ad.manual_seed(0)
    got = vmap(vmap(f, randomness="same"), randomness="different")(x)
    ad.manual_seed(0)
    assert ad.equal(got, x + ad.randn(2, 1))


def test_refusals_name_the_op_and_the_fix() -> None:
    x = ad.ones(3, 2)
    for f in (ad.rand_like, ad.poisson, F.dropout, lambda r: r.clone().uniform_()):
        with pytest.raises(RuntimeError, match="random operation while in randomness error mode"):
            vmap(f)(x)
    assert ad.equal(vmap(lambda r: F.dropout(r, training=False))(x), x)
    assert ad.equal(vmap(lambda r: ad.dropout(r, 0.0, True))(x), x)
    with pytest.raises(RuntimeError, match="calling out variants of random operations"):
        vmap(lambda r: ad.randn(3, out=ad.ones(3)) + r, randomness="same")(ad.ones(4))


def test_directions_of_jacfwd_draw_once_unless_told_otherwise() -> None:
    p = ad.full((3, 4), 0.5)
    for randomness in ("same", "different"):
        assert ad.equal(jacfwd(ad.bernoulli, randomness=randomness)(p), ad.zeros(3, 4, 3, 4))
    with pytest.raises(RuntimeError, match="randomness error mode"):
        jacfwd(ad.bernoulli)(p)


@pytest.mark.parametrize("randomness", ["same", "different"])
@pytest.mark.parametrize(
    ("function", "shape"),
    [
        (F.dropout1d, (5, 6, 2)),
        (F.dropout2d, (5, 6, 2, 2)),
        (F.dropout3d, (5, 6, 2, 1, 2)),
        (F.feature_alpha_dropout, (5, 6, 2, 2)),
    ],
)
def test_channels_are_dropped_as_one(
    function: Callable[..., Any], shape: tuple[int, ...], randomness: str
) -> None:
    for given, dims in ((ad.ones(3, *shape), 0), (ad.ones(shape), None)):
        f = lambda r, i: function(r, training=True) + 0 * i  # noqa: E731
        got = vmap(f, in_dims=(dims, 0), randomness=randomness)(given, ad.ones(3))
        channels = got.flatten(3)
        assert ad.equal(channels, channels[..., :1].expand_as(channels))
        assert len(got.unique()) == 2
        assert ad.equal(got[0], got[1]) is (randomness == "same")
