"""Recurrent layers beside PyTorch's: random options, lengths and states; values and gradients."""

from __future__ import annotations

import random
import warnings
from typing import Any

import numpy as np
import pytest

import adjoint as ad

torch = pytest.importorskip("torch")

KINDS = ["RNN", "LSTM", "GRU"]


def options(kind: str, draw: random.Random) -> dict[str, Any]:
    found: dict[str, Any] = {
        "num_layers": draw.choice([1, 1, 2, 3]),
        "bias": draw.choice([True, True, False]),
        "batch_first": draw.choice([True, False]),
        "bidirectional": draw.choice([True, False]),
    }
    if kind == "RNN":
        found["nonlinearity"] = draw.choice(["tanh", "relu"])
    if kind == "LSTM" and draw.random() < 0.4:
        found["proj_size"] = 2
    return found


def leaves(library: Any, arrays: list[np.ndarray]) -> list[Any]:
    return [library.tensor(a, dtype=library.float64, requires_grad=True) for a in arrays]


def run(library: Any, kind: str, given: dict[str, Any], plan: dict[str, Any]) -> list[np.ndarray]:
    nn = library.nn
    library.manual_seed(plan["seed"])
    layer = getattr(nn, kind)(3, 4, dtype=library.float64, **given)
    (x, *state) = leaves(library, [plan["x"], *plan["state"]])
    hx: Any = None if not state else tuple(state) if kind == "LSTM" else state[0]
    if plan["lengths"]:
        pack = nn.utils.rnn.pack_padded_sequence
        inputs = pack(x, plan["lengths"], batch_first=given["batch_first"], enforce_sorted=False)
    else:
        inputs = x
    output, after = layer(inputs, hx)
    if plan["lengths"]:
        output, lengths = nn.utils.rnn.pad_packed_sequence(output, given["batch_first"], -1.5)
        assert lengths.tolist() == plan["lengths"]
    parts = [output, *(after if kind == "LSTM" else [after])]
    weights = [np.sin(np.arange(p.numel())).reshape(tuple(p.shape)) for p in parts]
    loss = sum((p * library.tensor(w)).sum() for p, w in zip(parts, weights, strict=True))
    loss.backward()
    gradients = [p.grad for p in [x, *state, *layer.parameters()]]
    return [t.detach().numpy() for t in [*parts, *gradients]]


@pytest.mark.parametrize("seed", range(40))
@pytest.mark.parametrize("kind", KINDS)
def test_layers_agree(kind: str, seed: int) -> None:
    draw, rng = random.Random(seed * 7 + len(kind)), np.random.default_rng(seed)
    given = options(kind, draw)
    batch, steps = draw.choice([1, 2, 4]), draw.choice([1, 2, 5])
    shape = (batch, steps, 3) if given["batch_first"] else (steps, batch, 3)
    packed = draw.random() < 0.5
    lengths = [draw.randint(1, steps) for _ in range(batch)] if packed else []
    if lengths:
        lengths[draw.randrange(batch)] = steps
    layers = given["num_layers"] * (2 if given["bidirectional"] else 1)
    hidden = given.get("proj_size", 4)
    state = []
    if draw.random() < 0.6:
        state = [rng.normal(size=(layers, batch, hidden))]
        if kind == "LSTM":
            state.append(rng.normal(size=(layers, batch, 4)))
    plan = {"seed": seed, "x": rng.normal(size=shape), "state": state, "lengths": lengths}
    ours, theirs = run(ad, kind, given, plan), run(torch, kind, given, plan)
    assert len(ours) == len(theirs)
    for a, b in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("kind", ["RNNCell", "LSTMCell", "GRUCell"])
@pytest.mark.parametrize("shape", [(2, 3), (3,)])
def test_cells_agree(kind: str, shape: tuple[int, ...]) -> None:
    def step(library: Any) -> list[np.ndarray]:
        library.manual_seed(3)
        cell = getattr(library.nn, kind)(3, 4)
        x = library.ones(shape, requires_grad=True)
        after = cell(x, cell(x))
        parts = after if kind == "LSTMCell" else (after,)
        sum((p * p).sum() for p in parts).backward()
        return [t.detach().numpy() for t in [*parts, x.grad, *(p.grad for p in cell.parameters())]]

    for a, b in zip(step(ad), step(torch), strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-5, atol=2e-6)


def test_dropout_between_layers_draws_the_same() -> None:
    def output(library: Any) -> np.ndarray:
        library.manual_seed(5)
        layer = library.nn.LSTM(3, 8, 2, dropout=0.5)
        return np.asarray(layer(library.ones(4, 2, 3))[0].detach().numpy())

    np.testing.assert_allclose(output(ad), output(torch), rtol=1e-5, atol=1e-6)


WRONG = {
    "features": lambda L: L.nn.LSTM(3, 4)(L.zeros(2, 3, 4)),
    "axes": lambda L: L.nn.LSTM(3, 4)(L.zeros(3)),
    "no steps": lambda L: L.nn.LSTM(3, 4)(L.zeros(0, 2, 3)),
    "state": lambda L: L.nn.LSTM(3, 4)(L.zeros(2, 2, 3), (L.zeros(2, 2, 3), L.zeros(1, 2, 4))),
    "state axes": lambda L: L.nn.LSTM(3, 4)(L.zeros(2, 2, 3), (L.zeros(2, 3), L.zeros(1, 2, 4))),
    "gru state": lambda L: L.nn.GRU(3, 4)(L.zeros(2, 2, 3), L.zeros(2, 4)),
    "gru batch": lambda L: L.nn.GRU(3, 4)(L.zeros(2, 2, 3), L.zeros(1, 3, 4)),
    "dtype": lambda L: L.nn.GRU(3, 4)(L.zeros(2, 2, 3).double()),
    "projection": lambda L: L.nn.GRU(3, 4, proj_size=3),
    "large projection": lambda L: L.nn.LSTM(3, 4, proj_size=4),
    "nonlinearity": lambda L: L.nn.RNN(3, 4, nonlinearity="x"),
    "dropout": lambda L: L.nn.LSTM(3, 4, dropout=2),
    "hidden": lambda L: L.nn.LSTM(3, 0),
    "hidden type": lambda L: L.nn.LSTM(3, "4"),
    "layers": lambda L: L.nn.LSTM(3, 4, 0),
    "cell axes": lambda L: L.nn.LSTMCell(3, 4)(L.zeros(2, 2, 3)),
    "cell features": lambda L: L.nn.LSTMCell(3, 4)(L.zeros(2, 4)),
    "cell batch": lambda L: L.nn.LSTMCell(3, 4)(L.zeros(2, 3), (L.zeros(3, 4), L.zeros(3, 4))),
    "cell state": lambda L: L.nn.LSTMCell(3, 4)(L.zeros(2, 3), (L.zeros(2, 3), L.zeros(2, 4))),
    "gru cell": lambda L: L.nn.GRUCell(3, 4)(L.zeros(2, 3), L.zeros(1, 2, 4)),
    "cell kind": lambda L: L.nn.RNNCell(3, 4, nonlinearity="x")(L.zeros(2, 3)),
    "unsorted": lambda L: L.nn.utils.rnn.pack_padded_sequence(L.zeros(3, 2, 1), [2, 3]),
    "no length": lambda L: L.nn.utils.rnn.pack_padded_sequence(L.zeros(3, 2, 1), [2, 0]),
    "lengths": lambda L: L.nn.utils.rnn.pack_padded_sequence(L.zeros(3, 2, 1), [2, 1, 1]),
    "side": lambda L: L.nn.utils.rnn.pad_sequence(L.zeros(2, 2), padding_side="up"),
    "no list": lambda L: L.nn.utils.rnn.pad_sequence(3),
}


@pytest.mark.parametrize("name", WRONG)
def test_refusals_are_pytorchs(name: str) -> None:
    with pytest.raises(Exception) as theirs:
        WRONG[name](torch)
    with pytest.raises(type(theirs.value)) as ours:
        WRONG[name](ad)
    assert str(ours.value).split("\n")[0] == str(theirs.value).split("\n")[0]


def test_warns_of_dropout_on_one_layer() -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        torch.nn.LSTM(3, 4, dropout=0.5)
    with pytest.warns(UserWarning) as ours:
        ad.nn.LSTM(3, 4, dropout=0.5)
    assert str(ours[0].message) == str(caught[0].message)
    assert ours[0].filename == __file__


def test_prints_as_pytorch() -> None:
    for make in (
        lambda L: L.nn.LSTM(3, 4, 2, bidirectional=True, proj_size=2),
        lambda L: L.nn.GRU(3, 4, batch_first=True, bias=False),
        lambda L: L.nn.RNNCell(3, 4, nonlinearity="relu"),
    ):
        assert repr(make(ad)) == repr(make(torch))
        names = [list(dict(make(L).state_dict())) for L in (ad, torch)]
        assert names[0] == names[1]
