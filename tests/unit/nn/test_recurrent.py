"""Recurrent layers: second derivatives, forward mode, vmap, packed sequences and their inverses."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import pytest

import adjoint as ad
from adjoint.nn.utils import rnn

MODES = ["RNN_TANH", "RNN_RELU", "LSTM", "GRU"]


def net(mode: str, **options: object) -> Callable[..., ad.Tensor]:
    """The outputs and last states of a small layer as one vector."""
    ad.manual_seed(1)
    layer = ad.nn.RNNBase(mode, 2, 3, dtype=ad.float64, **options)  # type: ignore[arg-type]
    if mode == "LSTM":
        layer = ad.nn.LSTM(2, 3, dtype=ad.float64, **options)
    names = [name for name, _ in layer.named_parameters()]

    def run(x: ad.Tensor, *weights: ad.Tensor) -> ad.Tensor:
        output, after = ad.func.functional_call(layer, dict(zip(names, weights, strict=True)), (x,))
        parts = after if isinstance(after, tuple) else (after,)
        return ad.cat([output.flatten(), *(p.flatten() for p in parts)])

    run.weights = [p.detach().clone().requires_grad_() for p in layer.parameters()]  # type: ignore[attr-defined]
    return run


def sample(*shape: int) -> ad.Tensor:
    ad.manual_seed(2)
    return ad.randn(*shape, dtype=ad.float64, requires_grad=True)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("bidirectional", [False, True])
def test_first_and_second_derivatives(mode: str, bidirectional: bool) -> None:
    f = net(mode, bidirectional=bidirectional)
    inputs = (sample(2, 2, 2), *f.weights)  # type: ignore[attr-defined]
    assert ad.autograd.gradcheck(f, inputs, check_forward_ad=True)
    assert ad.autograd.gradgradcheck(f, inputs)


@pytest.mark.parametrize("mode", MODES)
def test_packed_derivatives(mode: str) -> None:
    def f(x: ad.Tensor, *weights: ad.Tensor) -> ad.Tensor:
        packed = rnn.pack_padded_sequence(x, [1, 3, 2], enforce_sorted=False)
        return g(packed.data, packed.batch_sizes.tolist(), *weights)

    layer = ad.nn.LSTM(2, 3, bidirectional=True, dtype=ad.float64)
    if mode != "LSTM":
        layer = ad.nn.RNNBase(mode, 2, 3, bidirectional=True, dtype=ad.float64)  # type: ignore[assignment]
    parts = 2 if mode == "LSTM" else 1

    def g(data: ad.Tensor, sizes: list[int], *weights: ad.Tensor) -> ad.Tensor:
        from adjoint.nn import _recurrent

        state = (ad.ones(2, 3, 3, dtype=ad.float64),) * parts
        output, after = _recurrent.run_layers(
            mode, data, sizes, state, [weights[:4], weights[4:]], 0.0, True, True
        )
        return ad.cat([output.flatten(), *(p.flatten() for p in after)])

    inputs = (sample(3, 3, 2), *layer.parameters())
    assert ad.autograd.gradcheck(f, inputs, check_forward_ad=True)
    assert ad.autograd.gradgradcheck(f, inputs)


@pytest.mark.parametrize("mode", MODES)
def test_vmap_is_a_loop(mode: str) -> None:
    f = net(mode)
    weights = [w.detach() for w in f.weights]  # type: ignore[attr-defined]
    x = sample(4, 3, 2, 2).detach()
    many = ad.func.vmap(lambda one: f(one, *weights))(x)
    assert ad.allclose(many, ad.stack([f(one, *weights) for one in x]))
    gradient = ad.func.grad(lambda one: f(one, *weights).sin().sum())
    assert ad.allclose(ad.func.vmap(gradient)(x), ad.stack([gradient(one) for one in x]))
    heads = ad.stack([weights[1], 2 * weights[1]])
    with warnings.catch_warnings():  # said once: weights of their own make a loop
        warnings.simplefilter("ignore")
        each = ad.func.vmap(lambda w: f(x[0], weights[0], w, *weights[2:]))(heads)
    assert ad.allclose(each[1], f(x[0], weights[0], heads[1], *weights[2:]))


@pytest.mark.parametrize("mode", MODES)
def test_forward_over_reverse(mode: str) -> None:
    f = net(mode)
    weights = [w.detach() for w in f.weights]  # type: ignore[attr-defined]

    def loss(x: ad.Tensor) -> ad.Tensor:
        return f(x, *weights).sin().sum()

    x, v = sample(3, 2, 2).detach(), ad.ones(3, 2, 2, dtype=ad.float64)
    _, along = ad.func.jvp(ad.func.grad(loss), (x,), (v,))
    _, back = ad.autograd.functional.hvp(loss, x, v)
    assert ad.allclose(along, back)


def test_packing_is_undone() -> None:
    sequences = [ad.arange(n * 2.0).reshape(n, 2) for n in (2, 4, 1)]
    packed = rnn.pack_sequence(sequences, enforce_sorted=False)
    assert packed.batch_sizes.tolist() == [3, 2, 1, 1]
    for before, after in zip(sequences, rnn.unpack_sequence(packed), strict=True):
        assert ad.equal(before, after)
    padded = rnn.pad_sequence(sequences, batch_first=True, padding_side="left")
    assert padded.shape == (3, 4, 2) and ad.equal(padded[2, 3], sequences[2][0])
    assert packed.double().data.dtype == ad.float64 and packed.float() is packed


def test_half_precision_is_close_to_float32() -> None:
    ad.manual_seed(0)
    layer = ad.nn.LSTM(4, 8)
    x = ad.randn(5, 2, 4)
    exact = layer(x)[0]
    rough = layer.bfloat16()(x.bfloat16())[0]
    assert rough.dtype == ad.bfloat16
    assert float((rough.float() - exact).abs().max()) < 0.02


def test_results_do_not_depend_on_threads() -> None:
    ad.manual_seed(0)
    layer, x = ad.nn.GRU(32, 64), ad.randn(6, 40, 32)
    before, found = ad.get_num_threads(), []
    try:
        for threads in (1, 2):
            ad.set_num_threads(threads)
            layer.zero_grad()
            output, _ = layer(x)
            output.square().sum().backward()
            found.append([output.detach(), *(p.grad.clone() for p in layer.parameters())])
    finally:
        ad.set_num_threads(before)
    assert all(ad.equal(a, b) for a, b in zip(*found, strict=True))


@pytest.mark.parametrize("mode", ["RNN", "LSTM", "GRU"])
@pytest.mark.parametrize(("batch", "hidden"), [(8, 5), (9, 48), (33, 65), (16, 130)])
def test_a_packed_weight_gives_what_float64_gives(mode: str, batch: int, hidden: int) -> None:
    # From eight rows on the weight is packed once: panels that are whole, and such that hang over.
    ad.manual_seed(0)
    layer = getattr(ad.nn, mode)(3, hidden)
    exact = getattr(ad.nn, mode)(3, hidden).double()
    exact.load_state_dict({name: t.double() for name, t in layer.state_dict().items()})
    x = ad.randn(4, batch, 3)
    y, z = layer(x)[0], exact(x.double())[0]
    assert ad.allclose(y.double(), z, atol=1e-5)
    y.square().sum().backward()
    z.square().sum().backward()
    for p, q in zip(layer.parameters(), exact.parameters(), strict=True):
        assert ad.allclose(p.grad.double(), q.grad, rtol=1e-4, atol=1e-4)
