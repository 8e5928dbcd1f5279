"""Pooling, unpooling, fold and unfold beside PyTorch: drawn calls, layers, and what is refused.

Each drawn call is compared in value, dtype, indices, gradient, second gradient, forward mode and
batches; what one library refuses the other must refuse with the same class.
"""

from __future__ import annotations

import random
import warnings
from typing import Any

import numpy as np
import pytest

import adjoint as ad

torch: Any = pytest.importorskip("torch")

# torch's forward mode imports what it warns about.
pytestmark = pytest.mark.filterwarnings("ignore:.*torch.jit.script:DeprecationWarning")

Call = tuple[str, tuple[int, ...], tuple[Any, ...], dict[str, Any]]


def sizes(r: random.Random, n: int, low: int, high: int) -> Any:
    """One number for all axes, or one for each."""
    if r.random() < 0.5:
        return r.randint(low, high)
    return tuple(r.randint(low, high) for _ in range(n))


def shape(r: random.Random, n: int) -> tuple[int, ...]:
    lead = [(2, 3), (1, 2), (3,), (0, 2)][min(r.randrange(12), 3) if r.random() < 0.3 else 0]
    return (*lead, *(r.randint(2, (20, 8, 5)[n - 1]) for _ in range(n)))


def sliding(r: random.Random, n: int) -> Call:
    kind = r.choice(["max_pool", "avg_pool", "lp_pool"])
    stride = None if r.random() < 0.3 else sizes(r, n, 1, 3)
    ceil = r.random() < 0.4
    if kind == "max_pool":
        args = (sizes(r, n, 1, 4), stride, sizes(r, n, 0, 1), sizes(r, n, 1, 2), ceil)
        return f"max_pool{n}d", shape(r, n), args, {"return_indices": r.random() < 0.5}
    if kind == "lp_pool":
        kernel = r.randint(1, 3) if n == 1 else sizes(r, n, 1, 3)
        return f"lp_pool{n}d", shape(r, n), (r.choice([1.0, 2.0, 3.0]), kernel, stride, ceil), {}
    args = (sizes(r, n, 1, 4), stride, sizes(r, n, 0, 1), ceil, r.random() < 0.5)
    override = {} if n == 1 or r.random() < 0.7 else {"divisor_override": r.randint(1, 5)}
    return f"avg_pool{n}d", shape(r, n), args, override


def adaptive(r: random.Random, n: int) -> Call:
    out: Any = sizes(r, n, 1, 6)
    if n > 1 and not isinstance(out, int) and r.random() < 0.3:
        out = (None, *out[1:])
    if r.random() < 0.5:
        return f"adaptive_avg_pool{n}d", shape(r, n), (out,), {}
    return f"adaptive_max_pool{n}d", shape(r, n), (out,), {"return_indices": r.random() < 0.5}


def columns(r: random.Random) -> Call:
    kernel, spacing = sizes(r, 2, 1, 3), (sizes(r, 2, 1, 2), sizes(r, 2, 0, 1), sizes(r, 2, 1, 2))
    given = shape(r, 2)
    if r.random() < 0.5:
        return "unfold", given, (kernel, *spacing), {}
    try:
        cols = torch.nn.functional.unfold(torch.zeros(given), kernel, *spacing)
    except (RuntimeError, IndexError):
        return "unfold", given, (kernel, *spacing), {}
    return "fold", tuple(cols.shape), (given[-2:], kernel, *spacing), {}


def drawn(seed: int) -> Call:
    r = random.Random(seed)
    n = r.choice([1, 2, 2, 3])
    kind = r.randrange(3)
    return sliding(r, n) if kind == 0 else adaptive(r, n) if kind == 1 else columns(r)


def values(result: Any) -> list[Any]:
    return list(result) if isinstance(result, tuple | list) else [result]


class Side:
    """The same call in one of the libraries."""

    def __init__(self, library: Any, call: Call, x: Any) -> None:
        self.library, self.call = library, call
        name, _, self.args, self.kwargs = call
        self.function = getattr(library.nn.functional, name)
        self.x = library.from_numpy(x.copy())

    def __call__(self, x: Any) -> Any:
        return self.function(x, *self.args, **self.kwargs)

    def first(self, x: Any) -> Any:
        return values(self(x))[0]

    def direction(self, like: Any) -> Any:
        count = self.library.arange(int(np.prod(like.shape)), dtype=like.dtype)
        return self.library.cos(count * 1.7 + 0.3).reshape(like.shape)

    def gradients(self) -> list[Any]:
        """First and second, of a function that is not linear in the result."""
        x = self.x.clone().requires_grad_()
        y = self.first(x)
        (g,) = self.library.autograd.grad((y.sin() * self.direction(y)).sum(), x, create_graph=True)
        (h,) = self.library.autograd.grad((g * self.direction(g)).sum(), x)
        return [g.detach(), h]

    def forward(self) -> Any:
        return self.library.func.jvp(self.first, (self.x,), (self.direction(self.x),))[1]

    def batches(self) -> Any:
        both = self.library.stack([self.x, -2 * self.x.flip(-1)])
        return self.library.func.vmap(self.first)(both)


def refused(side: Side) -> type[Exception] | None:
    try:
        side(side.x)
    except Exception as e:
        return type(e)
    return None


def close(mine: Any, theirs: Any, what: str) -> None:
    assert str(mine.dtype).split(".")[-1] == str(theirs.dtype).split(".")[-1], what
    assert tuple(mine.shape) == tuple(theirs.shape), what
    exact = not theirs.dtype.is_floating_point
    ours, expected = mine.detach().double().numpy(), theirs.detach().double().numpy()
    tolerance = {"rtol": 0, "atol": 0} if exact else {"rtol": 1e-10, "atol": 1e-10}
    np.testing.assert_allclose(ours, expected, err_msg=what, **tolerance)


@pytest.mark.parametrize("block", range(8))
def test_drawn_calls_agree(block: int) -> None:
    for seed in range(block * 16, block * 16 + 16):
        call = drawn(seed)
        x = np.random.default_rng(seed).normal(size=call[1])
        if call[0].startswith("lp_pool"):
            x = np.abs(x) + 0.1  # roots of sums near zero are ill-conditioned
        mine, theirs = Side(ad, call, x), Side(torch, call, x)
        expected = refused(theirs)
        assert refused(mine) == expected, call
        if expected is not None:
            continue
        for a, b in zip(values(mine(mine.x)), values(theirs(theirs.x)), strict=True):
            close(a, b, f"value of {call}")
        for a, b in zip(mine.gradients(), theirs.gradients(), strict=True):
            close(a, b, f"gradient of {call}")
        close(mine.forward(), theirs.forward(), f"forward mode of {call}")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch warns where it loops
            close(mine.batches(), theirs.batches(), f"batches of {call}")


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "int64", "uint8", "bool"])
def test_dtypes_agree(dtype: str) -> None:
    for seed in range(1000, 1040):
        name, shape, args, kwargs = call = drawn(seed)
        if 0 in shape:  # torch looks at the dtype of what it computes only
            continue
        x = torch.randn(shape, generator=torch.Generator().manual_seed(seed)) * 3
        x = (
            x.abs().to(getattr(torch, dtype))
            if name.startswith("lp_")
            else x.to(getattr(torch, dtype))
        )
        y = ad.from_numpy(x.double().numpy()).to(getattr(ad, dtype))
        try:
            expected = values(getattr(torch.nn.functional, name)(x, *args, **kwargs))
        except Exception as e:
            if not x.is_floating_point():  # torch has no avg_pool3d of 16-bit floats
                with pytest.raises(type(e)):
                    getattr(ad.nn.functional, name)(y, *args, **kwargs)
            continue
        result = values(getattr(ad.nn.functional, name)(y, *args, **kwargs))
        steps = {"float16": 2e-3, "bfloat16": 1.6e-2}.get(dtype, 1e-5)
        for a, b in zip(result, expected, strict=True):
            assert str(a.dtype).split(".")[-1] == str(b.dtype).split(".")[-1], call
            np.testing.assert_allclose(
                a.double().numpy(), b.double().numpy(), rtol=steps, atol=steps, err_msg=str(call)
            )


@pytest.mark.parametrize("n", [2, 3])
def test_fractional_windows_are_those_of_torch(n: int) -> None:
    name = f"fractional_max_pool{n}d"
    for seed in range(20):
        r = random.Random(seed)
        kernel, out = sizes(r, n, 1, 3), sizes(r, n, 1, 3)
        x = np.random.default_rng(seed).normal(size=(2, 3, *(r.randint(6, 9) for _ in range(n))))
        samples = np.random.default_rng(seed + 1).uniform(size=(2, 3, n))
        results = []
        for library in (ad, torch):
            a = library.from_numpy(x.copy()).requires_grad_()
            given = {"output_size": out} if seed % 2 else {"output_ratio": (0.5,) * n}
            y, i = getattr(library.nn.functional, name)(
                a,
                kernel,
                **given,
                return_indices=True,
                _random_samples=library.from_numpy(samples.copy()),
            )
            results.append([y, i, library.autograd.grad((y**2).sum(), a)[0]])
        for mine, theirs in zip(*results, strict=True):
            close(mine, theirs, f"{name} {seed}")


@pytest.mark.parametrize("n", [1, 2, 3])
def test_unpooling_undoes_pooling_as_torch_does(n: int) -> None:
    for stride, padding, ceil in [(None, 0, False), (2, 1, False), (3, 0, True)]:
        x = np.random.default_rng(n).normal(size=(2, 3, *(9, 8, 7)[:n]))
        results = []
        for library in (ad, torch):
            F = library.nn.functional
            a = library.from_numpy(x.copy()).requires_grad_()
            y, i = getattr(F, f"max_pool{n}d")(
                a, 3, stride, padding, ceil_mode=ceil, return_indices=True
            )
            unpool = getattr(F, f"max_unpool{n}d")
            z = unpool(y, i, 3, stride, padding, output_size=a.shape)
            (g,) = library.autograd.grad((z**3).sum(), a, create_graph=True)
            results.append([z, g, library.autograd.grad(g.sum(), a)[0]])
        for mine, theirs in zip(*results, strict=True):
            close(mine, theirs, f"{n} {stride} {padding}")


def test_channels_last_goes_through() -> None:
    for name, args in {
        "max_pool2d": (2,), "avg_pool2d": (2,), "adaptive_avg_pool2d": (3,),
    }.items():  # fmt: skip
        results = []
        for library in (ad, torch):
            x = library.ones(2, 3, 8, 8).to(memory_format=library.channels_last)
            results.append(getattr(library.nn.functional, name)(x, *args).stride())
        assert results[0] == results[1], name


LAYERS: dict[str, tuple[Any, ...]] = {
    "MaxPool1d": (3, 2, 1), "MaxPool2d": ((3, 2), 2), "MaxPool3d": (2,),
    "AvgPool1d": (3, 2, 1), "AvgPool2d": ((3, 2), 2, 1, True, False, 5), "AvgPool3d": (2,),
    "LPPool1d": (2, 3), "LPPool2d": (2.0, (3, 2), 2), "LPPool3d": (3, 2, None, True),
    "AdaptiveAvgPool1d": (2,), "AdaptiveAvgPool2d": ((None, 2),), "AdaptiveAvgPool3d": (2,),
    "AdaptiveMaxPool1d": (2,), "AdaptiveMaxPool2d": ((3, None),), "AdaptiveMaxPool3d": (2,),
}  # fmt: skip


@pytest.mark.parametrize("name", LAYERS)
def test_layers_show_and_return_the_same(name: str) -> None:
    n = int(name[-2])
    x = np.abs(np.random.default_rng(0).normal(size=(2, 3, *(7, 6, 5)[:n])))
    mine, theirs = (getattr(t.nn, name)(*LAYERS[name]) for t in (ad, torch))
    assert repr(mine) == repr(theirs)
    close(mine(ad.from_numpy(x)), theirs(torch.from_numpy(x)), name)


def test_layers_that_take_more_than_one_argument() -> None:
    x = np.random.default_rng(0).normal(size=(2, 3, 6, 6))
    results = []
    for t in (ad, torch):
        a = t.from_numpy(x)
        pool, unpool = t.nn.MaxPool2d(2, return_indices=True), t.nn.MaxUnpool2d(2)
        unfold = t.nn.Unfold((2, 3), padding=1, stride=2)
        fold = t.nn.Fold(6, (2, 3), padding=1, stride=2)
        drawn_samples = t.from_numpy(np.full((2, 3, 2), 0.4))
        drawn_windows = t.nn.FractionalMaxPool2d(2, output_ratio=0.5, _random_samples=drawn_samples)
        results.append(
            (
                [repr(m) for m in (pool, unpool, unfold, fold, drawn_windows)],
                [unpool(*pool(a)), unfold(a), fold(unfold(a)), drawn_windows(a)],
            )
        )
    (shown, mine), (expected, theirs) = results
    assert shown == expected
    for a, b in zip(mine, theirs, strict=True):
        close(a, b, "layers")


def test_lazy_layers_draw_what_torch_draws() -> None:
    for name, more in {
        "LazyConv1d": {},
        "LazyConv2d": {"groups": 2},
        "LazyConvTranspose3d": {},
    }.items():
        n = int(name[-2])
        made = []
        for t in (ad, torch):
            t.manual_seed(3)
            layer = getattr(t.nn, name)(4, 2, **more)
            before = repr(layer)
            state = list(layer.state_dict())
            with t.no_grad():
                y = layer(t.ones(1, 2, *(5, 4, 3)[:n]))
            made.append((before, state, repr(layer), type(layer.weight).__name__, y))
        assert made[0][:4] == made[1][:4]
        np.testing.assert_allclose(made[0][4].numpy(), made[1][4].numpy(), rtol=1e-5, atol=1e-6)
