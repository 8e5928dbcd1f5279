"""Every op and sample as a recorded program: run on other values, it gives what eager gives.

What an op's forward leaves for backward, or what a derivative looks at, must not be a number that
depends on values: a program would keep that of its recording, silently.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint import _core
from tests.ops.samples import OPS
from tests.ops.spec import Op, Sample, outputs, strided, to_library
from tests.unit.compiler.programs import check, same_bits

# Shapes or errors that depend on values; what is refused, and nothing else, with these words.
REFUSED = {
    "allclose": "depends on data",
    "argwhere": "depends on data",
    "as_strided": "storage_offset",
    "bincount": "depends on data",
    "bincount_weighted": "depends on data",
    "cov": "weights",
    "cov_weighted": "weights",
    "equal": "depends on data",
    "gaussian_nll_loss": "the value of a tensor decides",  # is a variance negative?
    "index_fill": "which indices differ",  # the gradient of a value that is a tensor
    "index_put": "depends on data",  # the gradient of values behind a mask
    "index_put_added": "depends on data",
    "istft": "windows cover",
    "linalg_lstsq_gelsd": "depends on data",  # its rank
    "istft_complex": "windows cover",
    "masked_fill": "depends on data",  # the gradient of a value that is a tensor
    "masked_scatter": "depends on data",
    "masked_select": "depends on data",
    "nanquantile": "values of q",
    "nonzero": "depends on data",
    "nonzero_as_tuple": "depends on data",
    "quantile": "values of q",
    "repeat_interleave_each": "depends on data",
    "unique": "depends on data",
    "unique_consecutive": "depends on data",
    "unique_rows": "depends on data",
}
# Of these, every sample.
NEVER = {n for n in REFUSED if n not in ("as_strided", "cov", "masked_fill", "masked_scatter")} - {
    "gaussian_nll_loss",
    "index_fill",
    "index_put",
    "index_put_added",
    "quantile",
    "nanquantile",
}


class Case:
    """A sample as a function of its tensors, with several drawings of them."""

    def __init__(self, op: Op, sample: Sample, dtype: str, change: Callable[[Any], Any]) -> None:
        self.op, self.dtype = op, dtype
        first = sample.draw(dtype, op.name)
        self.drawings = [first.map(change)]
        for k in range(2 if dtype == "float32" else 1):
            rng = np.random.default_rng(k)
            drawn = sample.draw(dtype, f"{op.name}{k}")
            self.drawings.append(drawn.map(lambda a, rng=rng: shuffled(a, rng)).map(change))

    def tensors(self, k: int) -> list[ad.Tensor]:
        found: list[ad.Tensor] = []
        constants = [v for n, v in self.drawings[k].kwargs.items() if n in self.op.constants]

        def take(leaf: Any) -> Any:
            if isinstance(leaf, np.ndarray):
                t = to_library(leaf, ad, self.dtype)
                varies = self.op.diff and not any(leaf is c for c in constants)
                if varies and (t.is_floating_point() or t.is_complex()):
                    t.requires_grad_()
                found.append(t)
            return leaf

        self.drawings[k].map(take)
        return found

    def __call__(self, *tensors: ad.Tensor) -> Sequence[Any]:
        rest = iter(tensors)
        call = self.drawings[0].map(
            lambda a: next(rest) if isinstance(a, np.ndarray) else to_library(a, ad)
        )
        return outputs(self.op.function(ad)(*call.args, **call.kwargs))


def shuffled(leaf: Any, rng: np.random.Generator) -> Any:
    """Other indices and flags from among those of the sample, which fit."""
    if isinstance(leaf, np.ndarray) and leaf.dtype.kind in "iub" and leaf.size:
        return rng.choice(leaf.reshape(-1), leaf.shape)
    return leaf


def same(leaf: Any) -> Any:
    return leaf


def check_case(name: str, label: str, case: Case, f: Callable[..., Any]) -> None:
    others = [case.tensors(k) for k in range(1, len(case.drawings))]
    refused = check(f, case.tensors(0), others, label)
    assert refused is None or REFUSED.get(name, "\0") in refused, (label, refused)
    assert refused is not None or name not in NEVER, label


@pytest.mark.parametrize("name", [n for n, op in OPS.items() if "f" in op.dtypes])
def test_a_program_gives_the_bits_of_eager_execution(name: str) -> None:
    op = OPS[name]
    for sample in op.samples:
        for change in (same, strided) if op.restride else (same,):
            case = Case(op, sample, "float32", change)
            check_case(name, f"{name}({sample}), {change.__name__}", case, case)


@pytest.mark.parametrize("name", [n for n, op in OPS.items() if set("bihc") & set(op.dtypes)])
def test_so_it_does_for_other_dtypes(name: str) -> None:
    op = OPS[name]
    for letter, dtype in {"b": "bool", "i": "int32", "h": "bfloat16", "c": "complex64"}.items():
        for sample in op.samples if letter in op.dtypes else []:
            case = Case(op, sample, dtype, same)
            check_case(name, f"{name}({sample}) in {dtype}", case, case)


@pytest.mark.parametrize("name", [n for n, op in OPS.items() if op.inplace and "f" in op.dtypes])
def test_so_do_changes_in_place(name: str) -> None:
    op = OPS[name]
    for sample in op.samples:
        case = Case(op, sample, "float32", same)
        if not isinstance(case.drawings[0].args[0], np.ndarray):
            continue
        first, *rest = case.tensors(0)
        (result,) = case(first, *rest)
        if result.shape != first.shape or result.dtype != first.dtype:
            continue

        def edited(x: Any, *rest: Any, case: Case = case) -> Any:
            target = x * 1  # whose history is that of a result
            part = target.view(target.shape)
            given = iter((part, *rest))
            call = case.drawings[0].map(
                lambda a: next(given) if isinstance(a, np.ndarray) else to_library(a, ad)
            )
            getattr(call.args[0], op.name + "_")(*call.args[1:], **call.kwargs)
            return [target, target + 1]

        check_case(name, f"{name}_({sample})", case, edited)


# --- inside transforms
# -------------------------------------------------------------------------------------------------
# Their second derivatives, or their tangents, look at values.
LOOKING = dict.fromkeys(("prod", "cumprod", "vander", "scatter_reduce", "index_reduce"), "zeros")
LOOKING |= {"linalg_vander": "zeros", "linalg_det": "look at values", "det": "look at values"}
TRANSFORMED = [n for n, op in OPS.items() if op.diff and "f" in op.dtypes and n not in REFUSED]


def weighed(outs: Sequence[Any]) -> Any:
    """One number of all results."""
    total = ad.zeros(())
    for y in outs:
        if y.is_complex():
            y = ad.view_as_real(y.resolve_conj())
        if y.is_floating_point():
            total = total + (y * ad.arange(1.0, y.numel() + 1).view(y.shape)).sum()
    return total


def transformed(name: str) -> list[tuple[str, Case, list[int]]]:
    """A sample of the op, and which of its tensors are differentiated."""
    found = []
    for sample in OPS[name].samples:
        case = Case(OPS[name], sample, "float32", same)
        tensors = case.tensors(0)
        varied = [k for k, t in enumerate(tensors) if t.requires_grad]
        answers = not any(y.is_floating_point() or y.is_complex() for y in case(*tensors))
        if varied and not answers and 0 < sum(t.numel() for t in tensors) < 60 and not found:
            found.append((f"{name}({sample})", case, varied))
    return found


class Inside:
    """A sample called by transforms, as a function of its tensors."""

    def __init__(self, case: Case, varied: list[int]) -> None:
        self.case, self.varied = case, varied

    def _of(self, xs: Sequence[Any], others: Sequence[Any]) -> list[Any]:
        given = iter(xs)
        every = [next(given) if k in self.varied else t for k, t in enumerate(others)]
        return [y for y in self.case(*every) if y.is_floating_point() or y.is_complex()]

    def gradients(self, *ts: Any) -> Any:
        xs = [ts[k].detach() for k in self.varied]
        every = tuple(range(len(xs)))
        return ad.func.grad(lambda *xs: weighed(self._of(xs, ts)), every)(*xs)

    def tangents(self, *ts: Any) -> Any:
        xs = tuple(ts[k] for k in self.varied)
        return ad.func.jvp(lambda *xs: tuple(self._of(xs, ts)), xs, xs)[1]

    def batches(self, *ts: Any) -> Any:
        xs = [ad.stack([ts[k], ts[k].flip(0) if ts[k].ndim else ts[k]]) for k in self.varied]
        return ad.func.vmap(lambda *xs: tuple(self._of(xs, ts)))(*xs)


@pytest.mark.parametrize("name", TRANSFORMED)
def test_so_they_do_inside_of_transforms(name: str) -> None:
    for label, case, varied in transformed(name):
        inside = Inside(case, varied)
        for f in (inside.gradients, inside.tangents, inside.batches):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # some ops are looped over, and say so
                label = f"{f.__name__} of {label}"
                refused = check(f, case.tensors(0), [case.tensors(1)], label)
            assert refused is None or LOOKING.get(name, "\0") in refused, (label, f, refused)


# --- random numbers
# -------------------------------------------------------------------------------------------------
DRAWS: dict[str, Callable[[Any], Any]] = {
    "rand": lambda x: ad.rand(3) + x,
    "randn": lambda x: ad.randn(3) + x,
    "rand_like": lambda x: ad.rand_like(x) + ad.randn_like(x),
    "randint": lambda x: ad.randint(9, (3,)) + ad.randint(2, 5, (3,)),
    "randint_like": lambda x: ad.randint_like(x, 9) + x,
    "randperm": lambda x: ad.randperm(7),
    "normal": lambda x: ad.normal(x, x.abs() + 1) + ad.normal(0.0, 2.0, (3,)),
    "bernoulli": lambda x: ad.bernoulli(x.sigmoid()),
    "multinomial": lambda x: ad.multinomial(x.softmax(0), 2),
    "poisson": lambda x: ad.poisson(x.abs() * 5),
    "binomial": lambda x: ad.binomial(ad.full((3,), 9.0), x.sigmoid()),
    "gamma": lambda x: ad._standard_gamma(x.abs() + 1),
    "uniform_": lambda x: ad.empty(3).uniform_(-1, 1) * x,
    "normal_": lambda x: ad.empty(3).normal_() * x,
    "exponential_": lambda x: ad.empty(3).exponential_() * x,
    "geometric_": lambda x: ad.empty(3).geometric_(0.3) * x,
    "cauchy_": lambda x: ad.empty(3).cauchy_() * x,
    "log_normal_": lambda x: ad.empty(3).log_normal_() * x,
    "random_": lambda x: ad.empty(3).random_(5) * x,
    "bernoulli_": lambda x: ad.empty(3).bernoulli_(0.4) * x,
    "dropout": lambda x: ad.nn.functional.dropout(x, 0.5) * x,
    "alpha_dropout": lambda x: ad.nn.functional.alpha_dropout(x, 0.5, True) * x,
}


@pytest.mark.parametrize("name", DRAWS)
def test_random_numbers_are_those_of_eager_execution(name: str) -> None:
    f = DRAWS[name]
    x = ad.tensor([0.5, -1.0, 2.0])
    recording = _core._Recording([x])
    recording.start()
    y = f(x)
    recording.stop()
    assert recording.refused() is None
    program = recording.program(0, recording.size(), [x], [y])
    x = ad.tensor([1.5, 0.25, -1.0])
    for seed in (1, 2):
        ad.manual_seed(seed)
        want = [f(x), ad.randn(2)]
        ad.manual_seed(seed)
        got = [*program.run([x]), ad.randn(2)]
        assert all(map(same_bits, got, want)), (got, want)
