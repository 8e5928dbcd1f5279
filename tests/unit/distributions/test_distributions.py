"""Distributions by themselves: against SciPy, integrals and differences; checks and their messages.

tests/conformance/test_distributions.py compares every class with PyTorch's.
"""

from __future__ import annotations

import copy
import math
import pickle
from typing import Any

import numpy as np
import pytest
from scipy import integrate, special, stats

import adjoint as ad
from adjoint import distributions as D
from adjoint.distributions import constraints

F64 = ad.float64


def t(*values: Any) -> ad.Tensor:
    return ad.tensor(values if len(values) > 1 else values[0], dtype=F64)


# -- values ----------------------------------------------------------------------------------------


def test_von_mises_is_scipys() -> None:
    x = np.linspace(-3, 3, 13)
    for kappa in (0.01, 1.0, 3.7, 40.0, 700.0):
        got = D.VonMises(t(0.3), t(kappa)).log_prob(t(x.tolist())).numpy()
        np.testing.assert_allclose(got, stats.vonmises.logpdf(x, kappa, 0.3), rtol=1e-9, atol=1e-9)
    circular = 1 - special.ive(1, 2.0) / special.ive(0, 2.0)
    assert float(D.VonMises(t(0.0), t(2.0)).variance) == pytest.approx(circular)


@pytest.mark.parametrize(
    ("p", "q", "low", "high"),
    [
        (D.ContinuousBernoulli(t(0.3)), D.Uniform(t(-0.5), t(2.0)), 0, 1),
        (D.ContinuousBernoulli(t(0.3)), D.Uniform(t(0.0), t(1.0)), 0, 1),
        (D.Uniform(t(0.0), t(1.0)), D.ContinuousBernoulli(t(0.3)), 0, 1),
        (D.Uniform(t(0.2), t(0.9)), D.ContinuousBernoulli(t(0.7)), 0.2, 0.9),
        (D.Normal(t(0.3), t(0.8)), D.Laplace(t(-0.2), t(1.5)), -9, 9),
        (D.Gamma(t(2.5), t(1.5)), D.Gumbel(t(0.4), t(2.0)), 1e-9, 40),
    ],
)
def test_divergences_are_integrals(p: Any, q: Any, low: float, high: float) -> None:
    def integrand(x: float) -> float:
        at = t(x)
        return float(p.log_prob(at).exp() * (p.log_prob(at) - q.log_prob(at)))

    want = integrate.quad(integrand, low, high, epsabs=1e-7)[0]
    assert float(D.kl_divergence(p, q)) == pytest.approx(want, abs=1e-6)


def test_a_divergence_is_infinite_where_the_support_is_left() -> None:
    cb = D.ContinuousBernoulli(t(0.3))
    assert D.kl_divergence(cb, D.Uniform(t(0.1), t(2.0))) == math.inf
    assert D.kl_divergence(D.Uniform(t(-0.1), t(0.5)), cb) == math.inf
    assert D.kl_divergence(D.Uniform(t(-1.0), t(0.5)), D.Exponential(t(1.0))) == math.inf


@pytest.mark.parametrize("concentration", [0.05, 0.6, 1.0, 4.0, 60.0])
def test_implicit_gradients_are_those_of_the_inverse_distribution_function(
    concentration: float,
) -> None:
    """A sample is the quantile of a fixed probability, which moves with the parameter."""
    a = t(concentration).requires_grad_()
    ad.manual_seed(3)
    x = D.Gamma(a, t(1.0)).rsample((5,))
    for value in x:
        (got,) = ad.autograd.grad(value, a, retain_graph=True)
        u = stats.gamma.cdf(float(value), concentration)
        if not 1e-6 < u < 1 - 1e-6:
            continue
        h = 1e-4 * concentration
        want = (stats.gamma.ppf(u, concentration + h) - stats.gamma.ppf(u, concentration - h)) / (
            2 * h
        )
        np.testing.assert_allclose(float(got), want, rtol=2e-4)


def test_entropies_of_families_follow_from_their_normalisers() -> None:
    for d in (
        D.Normal(t(0.3), t(2.0)),
        D.Gamma(t(2.0), t(3.0)),
        D.Exponential(t(2.0)),
        D.Beta(t(2.0), t(0.7)),
        D.Dirichlet(t([1.0, 2.0, 0.5])),
    ):
        if hasattr(type(d), "_mean_carrier_measure") and "entropy" in type(d).__dict__:
            try:
                general = D.ExponentialFamily.entropy(d)
            except NotImplementedError:
                continue
            np.testing.assert_allclose(float(general), float(d.entropy()), rtol=1e-9)
    with pytest.raises(NotImplementedError):
        D.Poisson(t(3.0)).entropy()


def test_mixtures_and_straight_through_samples() -> None:
    d = D.OneHotCategoricalStraightThrough(logits=ad.zeros(3, requires_grad=True))
    x = d.rsample((4,))
    np.testing.assert_allclose(x.detach().sum(-1).numpy(), 1.0, rtol=1e-6)
    assert x.requires_grad
    mixture = D.MixtureSameFamily(
        D.Categorical(t([0.3, 0.7])), D.Normal(t([0.0, 2.0]), t([1.0, 0.5]))
    )
    want = 0.3 * stats.norm.pdf(1.0) + 0.7 * stats.norm.pdf(1.0, 2.0, 0.5)
    assert float(mixture.log_prob(t(1.0)).exp()) == pytest.approx(want)


def test_lkj_samples_are_factors_of_correlations() -> None:
    ad.manual_seed(0)
    d = D.LKJCholesky(4, 0.5)
    factors = d.sample((20,))
    assert constraints.corr_cholesky.check(factors).all()
    assert d.log_prob(factors).shape == (20,)


# -- shapes, copies --------------------------------------------------------------------------------


def test_gradients_reach_parameters_through_expanded_batches() -> None:
    loc = ad.zeros(3, requires_grad=True)
    d = D.Independent(D.Normal(loc, 1.0), 1).expand((4,))
    d.log_prob(ad.ones(4, 3)).sum().backward()
    np.testing.assert_array_equal(loc.grad.numpy(), [4.0, 4.0, 4.0])


# Pickle looks for the module of a dtype among all that are loaded, old ones of NumPy's too.
@pytest.mark.filterwarnings("ignore:numpy.core is deprecated:DeprecationWarning")
def test_copies_and_pickles() -> None:
    for d in (
        D.Normal(ad.zeros(2), 1.0),
        D.Gumbel(ad.zeros(2), 1.0),
        D.MultivariateNormal(ad.zeros(2), ad.eye(2)),
        D.TransformedDistribution(D.Normal(0.0, 1.0), [D.ExpTransform(), D.SigmoidTransform().inv]),
    ):
        for other in (copy.deepcopy(d), pickle.loads(pickle.dumps(d))):
            assert other.batch_shape == d.batch_shape
            x = d.sample()
            np.testing.assert_array_equal(other.log_prob(x).numpy(), d.log_prob(x).numpy())


def test_a_value_computed_at_first_use_is_kept_with_its_history() -> None:
    probs = ad.tensor([0.3], requires_grad=True)
    d = D.Bernoulli(probs=probs)
    with ad.no_grad():
        logits = d.logits
    assert logits is d.logits and logits.requires_grad


def test_a_lazy_property_of_ones_own_is_computed_once() -> None:
    class Mine:
        calls = 0

        @D.utils.lazy_property
        def value(self) -> int:
            """What is asked."""
            self.calls += 1
            return self.calls

    mine = Mine()
    assert mine.value == mine.value == 1
    assert isinstance(Mine.value, property)


# -- transforms ------------------------------------------------------------------------------------

TRANSFORMS = [
    D.ExpTransform(),
    D.SigmoidTransform(),
    D.SoftplusTransform(),
    D.TanhTransform(),
    D.AffineTransform(t(1.0), t(-2.0)),
    D.AffineTransform(1.0, 3.0, event_dim=1),
    D.AffineTransform(t(0.0), t(2.0), event_dim=1),
    D.StickBreakingTransform(),
    D.CorrCholeskyTransform(),
    D.ComposeTransform([D.TanhTransform(), D.AffineTransform(0.0, 2.0)]),
    D.IndependentTransform(D.ExpTransform(), 1),
    D.ReshapeTransform((3,), (3, 1)),
    D.CatTransform([D.ExpTransform(), D.SigmoidTransform()], dim=0, lengths=[1, 2]),
    D.StackTransform([D.ExpTransform(), D.SigmoidTransform(), D.TanhTransform()], dim=0),
    D.CumulativeDistributionTransform(D.Normal(t(0.0), t(1.0))),
    D.ComposeTransform([D.ExpTransform(), D.PowerTransform(t(1.7))]),
]


@pytest.mark.parametrize("transform", TRANSFORMS, ids=lambda one: type(one).__name__)
def test_transforms_invert_and_know_their_determinant(transform: Any) -> None:
    x = t([0.3, -0.4, 0.8])
    y = transform(x)
    assert transform.codomain.check(y).all()
    assert tuple(transform.forward_shape(x.shape)) == tuple(y.shape)
    assert tuple(transform.inverse_shape(y.shape)) == tuple(x.shape)
    np.testing.assert_allclose(transform.inv(y).numpy(), x.numpy(), rtol=1e-6, atol=1e-8)
    assert transform.inv.inv is transform
    jacobian = ad.func.jacrev(transform)(x)
    if isinstance(transform, D.StickBreakingTransform):
        jacobian = jacobian[:-1]
    if isinstance(transform, D.CorrCholeskyTransform):
        rows, columns = ad.tril_indices(3, 3, -1)
        jacobian = jacobian[rows, columns]
    log_det = np.linalg.slogdet(jacobian.reshape(3, 3).numpy())[1]
    got = transform.log_abs_det_jacobian(x, y)
    np.testing.assert_allclose(float(got.sum()), log_det, rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(
        transform.inv.log_abs_det_jacobian(y, x).numpy(), -got.numpy(), rtol=1e-6, atol=1e-8
    )


def test_caches_return_the_same_object() -> None:
    transform = D.TanhTransform(cache_size=1)
    x = t([20.0, 30.0])
    assert transform.inv(transform(x)) is x
    chain = D.ComposeTransform([D.TanhTransform(), D.AffineTransform(0.0, 2.0)]).with_cache()
    np.testing.assert_array_equal(chain.inv(chain(x)).numpy(), x.numpy())
    with pytest.raises(ValueError, match="cache_size must be 0 or 1"):
        D.ExpTransform(cache_size=2)


@pytest.mark.parametrize("registry", [D.transform_to, D.biject_to])
def test_every_constraint_can_be_reached(registry: Any) -> None:
    matrices = [] if registry is D.biject_to else [
        constraints.lower_cholesky, constraints.positive_definite, constraints.positive_semidefinite
    ]  # fmt: skip
    for constraint in [
        constraints.real,
        constraints.positive,
        constraints.nonnegative,
        constraints.greater_than(t(2.0)),
        constraints.less_than(-1.0),
        constraints.interval(t(-2.0), 3.0),
        constraints.half_open_interval(0.0, 1.0),
        constraints.unit_interval,
        constraints.simplex,
        constraints.real_vector,
        constraints.corr_cholesky,
        constraints.cat([constraints.positive, constraints.real], lengths=[1, 2]),
        constraints.stack([constraints.positive, constraints.real, constraints.unit_interval]),
        *matrices,
    ]:
        transform = registry(constraint)
        x = t([0.5, -1.0, 0.2])
        if constraint in matrices:
            x = ad.linspace(-1, 1, 9, dtype=F64).reshape(3, 3)
        assert constraint.check(transform(x)).all(), constraint
    with pytest.raises(NotImplementedError, match="Cannot transform _Boolean constraints"):
        registry(constraints.boolean)


# -- what is refused -------------------------------------------------------------------------------


def test_parameters_and_values_are_checked() -> None:
    with pytest.raises(ValueError, match=r"Expected parameter scale \(Tensor of shape \(1,\)\)"):
        D.Normal(ad.zeros(1), -ad.ones(1))
    D.Normal(ad.zeros(1), -ad.ones(1), validate_args=False)
    normal = D.Normal(ad.zeros(3), 1.0)
    with pytest.raises(ValueError, match="must be a Tensor"):
        normal.log_prob(0.0)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="not broadcastable with batch_shape"):
        normal.log_prob(ad.zeros(2))
    with pytest.raises(ValueError, match="within the support"):
        normal.log_prob(ad.full((3,), math.nan))
    with pytest.raises(ValueError, match="right-most size of value must match event_shape"):
        D.Dirichlet(ad.ones(3)).log_prob(ad.ones(2) / 2)
    with pytest.raises(ValueError, match="not both"):
        D.Bernoulli(probs=0.5, logits=0.0)
    with pytest.raises(ValueError, match="at least one-dimensional"):
        D.Categorical(probs=ad.tensor(0.5))
    with pytest.raises(ValueError, match="at least one-dimensional"):
        D.Dirichlet(ad.tensor(1.0))
    with pytest.raises(ValueError, match="to be positive but found"):
        D.Geometric(probs=ad.zeros(1))
    with pytest.raises(ValueError, match="parameter probs has invalid values"):
        D.ContinuousBernoulli(probs=ad.full((1,), 2.0), validate_args=True)
    with pytest.raises(ValueError, match="Input arguments must all be instances of Number"):
        D.Normal("zero", 1.0)
    with pytest.raises(ValueError):
        D.Distribution.set_default_validate_args("yes")  # type: ignore[arg-type]


def test_shapes_that_do_not_fit_are_refused() -> None:
    eye = ad.eye(2)
    for call, error, message in [
        (lambda: D.MultivariateNormal(ad.tensor(0.0), eye), ValueError, "loc must be at least"),
        (lambda: D.MultivariateNormal(ad.zeros(2)), ValueError, "Exactly one of"),
        (lambda: D.MultivariateNormal(ad.zeros(2), ad.ones(2)), ValueError, "two-dimensional"),
        (lambda: D.Wishart(5.0), AssertionError, "Exactly one of"),
        (lambda: D.Wishart(5.0, ad.ones(2)), ValueError, "two-dimensional"),
        (lambda: D.Wishart(0.5, eye), ValueError, "greater than ndim - 1"),
        (lambda: D.LKJCholesky(1), ValueError, "greater than or equal to 2"),
        (lambda: D.LowRankMultivariateNormal(ad.tensor(0.0), eye, ad.ones(2)), ValueError, "loc"),
        (lambda: D.LowRankMultivariateNormal(ad.zeros(2), ad.ones(2), ad.ones(2)), ValueError,
         "cov_factor must be at least"),
        (lambda: D.LowRankMultivariateNormal(ad.zeros(3), eye, ad.ones(3)), ValueError, "3 x m"),
        (lambda: D.LowRankMultivariateNormal(ad.zeros(2), eye, ad.ones(3)), ValueError, "cov_diag"),
        (lambda: D.LowRankMultivariateNormal(ad.zeros(3, 2), ad.ones(2, 2, 2), ad.ones(2)),
         ValueError, "Incompatible batch shapes"),
        (lambda: D.Independent(D.Normal(0.0, 1.0), 1), ValueError, "reinterpreted_batch_ndims"),
        (lambda: D.Independent(D.Bernoulli(ad.ones(2) / 2), 1).enumerate_support(),
         NotImplementedError, "cartesian product"),
        (lambda: D.Multinomial(2.5, ad.ones(2)), NotImplementedError, "inhomogeneous"),
        (lambda: D.Binomial(ad.tensor([1.0, 2.0]), ad.ones(2) / 2).entropy(), NotImplementedError,
         "by `entropy`"),
        (lambda: D.MixtureSameFamily(D.Normal(0.0, 1.0), D.Normal(0.0, 1.0)), ValueError,
         "Categorical"),
        (lambda: D.MixtureSameFamily(D.Categorical(ad.ones(2)), 3), ValueError, "Component"),
        (lambda: D.MixtureSameFamily(D.Categorical(ad.ones(2)), D.Normal(ad.zeros(3), 1.0)),
         ValueError, "does not equal"),
        (lambda: D.MixtureSameFamily(D.Categorical(ad.ones(3, 2)), D.Normal(ad.zeros(2, 2), 1.0)),
         ValueError, "not compatible"),
        (lambda: D.TransformedDistribution(D.Normal(0.0, 1.0), [3]), ValueError, "list of Trans"),
        (lambda: D.TransformedDistribution(D.Normal(0.0, 1.0), 3), ValueError, "but was 3"),
        (lambda: D.TransformedDistribution(D.Normal(0.0, 1.0), D.SoftmaxTransform()), ValueError,
         "at least 1"),
        (lambda: D.ReshapeTransform((2,), (3,)), ValueError, "different numbers"),
        (lambda: D.ReshapeTransform((2,), (2, 1)).forward_shape((3,)), ValueError, "mismatch"),
        (lambda: D.StickBreakingTransform().forward_shape(()), ValueError, "Too few dimensions"),
        (lambda: D.CorrCholeskyTransform().forward_shape((2,)), ValueError, "lower-diagonal"),
        (lambda: D.CorrCholeskyTransform().inverse_shape((2, 3)), ValueError, "not square"),
        (lambda: D.IndependentTransform(D.ExpTransform(), 1)(ad.tensor(1.0)), ValueError,
         "Too few"),
        (lambda: D.IndependentTransform(D.ExpTransform(), 1).inv(ad.tensor(1.0)), ValueError,
         "Too few"),
        (lambda: D.ReshapeTransform((2,), (2, 1)).event_dim, ValueError, "either .domain.event"),
        (lambda: D.register_kl(int, D.Normal), TypeError, "type_p to be a Distribution"),
        (lambda: D.kl_divergence(D.Normal(0.0, 1.0), D.Poisson(1.0)), NotImplementedError,
         "different exponential families"),
        (lambda: D.kl_divergence(D.VonMises(0.0, 1.0), D.Normal(0.0, 1.0)), NotImplementedError,
         "No KL"),
        (lambda: D.kl_divergence(D.Binomial(2, 0.5), D.Binomial(3, 0.5)), NotImplementedError,
         "q.total_count"),
        (lambda: D.kl_divergence(D.MultivariateNormal(ad.zeros(2), eye),
                                 D.MultivariateNormal(ad.zeros(3), ad.eye(3))), ValueError,
         "different event shapes"),
        (lambda: D.biject_to.register(int, lambda c: c), TypeError, "Constraint subclass"),
        (lambda: constraints.dependent.check(ad.ones(1)), ValueError, "Cannot determine"),
        (lambda: constraints.dependent.is_discrete, NotImplementedError, "is_discrete"),
        (lambda: constraints.dependent.event_dim, NotImplementedError, "event_dim"),
        (lambda: constraints.real_vector.check(ad.tensor(1.0)), ValueError, "Expected value.dim"),
        (lambda: D.utils.tril_matrix_to_vec(eye, 5), ValueError, "outside"),
        (lambda: D.utils.vec_to_tril_matrix(ad.ones(4)), RuntimeError, "lower triangle"),
    ]:  # fmt: skip
        with pytest.raises(error, match=message):
            call()


class Bare(D.Distribution):
    pass


def test_a_class_of_ones_own() -> None:
    with pytest.warns(UserWarning, match="does not define `arg_constraints`"):
        bare = Bare()
    for name in ("mean", "mode", "variance", "support"):
        with pytest.raises(NotImplementedError):
            getattr(bare, name)
    for call in (bare.rsample, bare.entropy, bare.enumerate_support):
        with pytest.raises(NotImplementedError):
            call()
    for method in (bare.log_prob, bare.cdf, bare.icdf):
        with pytest.raises(NotImplementedError):
            method(ad.ones(1))
    with pytest.raises(NotImplementedError):
        bare.expand((2,))
    with pytest.warns(UserWarning, match="does not define `support`"):
        bare._validate_sample(ad.tensor(1.0))

    class Mine(D.Normal):
        def __init__(self) -> None:
            super().__init__(0.0, 1.0)

    with pytest.raises(NotImplementedError, match="custom __init__ method must also define"):
        Mine().expand((2,))
    with pytest.warns(FutureWarning, match="will be deprecated"):
        assert Mine().sample_n(3).shape == (3,)


def test_an_ambiguous_divergence_is_warned_about() -> None:
    class A(D.Normal):
        pass

    class B(A):
        pass

    D.register_kl(A, B)(lambda p, q: ad.zeros(()))
    D.register_kl(B, A)(lambda p, q: ad.ones(()))
    with pytest.warns(RuntimeWarning, match="Ambiguous kl_divergence"):
        D.kl_divergence(B(0.0, 1.0), B(0.0, 1.0))


def test_distributions_are_recorded_without_their_checks() -> None:
    @ad.compile
    def loss(loc: ad.Tensor, log_scale: ad.Tensor, x: ad.Tensor) -> ad.Tensor:
        q = D.Normal(loc, log_scale.exp())
        return D.kl_divergence(q, D.Normal(0.0, 1.0)).sum() - q.log_prob(x).sum()

    args = (t([0.5, -1.0]), t([0.1, 0.2]), t([0.0, 2.0]))
    for _ in range(2):
        got = loss(*args)
    np.testing.assert_allclose(float(got), float(loss.function(*args)), rtol=1e-12)
    assert math.isnan(float(D.Normal(t(0.0), t(1.0), validate_args=False).log_prob(t(math.nan))))


def test_pairs_of_one_class_have_gradients_by_both() -> None:
    a, b = (t(value).requires_grad_() for value in (5.0, 6.0))
    matrix = ad.eye(2, dtype=F64)
    value = D.kl_divergence(D.Wishart(a, matrix), D.Wishart(b, matrix))
    for parameter in ad.autograd.grad(value, [a, b]):
        assert parameter.isfinite() and parameter != 0
