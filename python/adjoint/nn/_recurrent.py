"""Recurrent layers as functions: `lstm`, `gru`, `rnn_tanh`, `rnn_relu` and single steps of them.

The product with the input is one `linear` for all steps; one native op runs the steps of a layer
in one direction (src/ops/nn/recurrent.cpp). Sequences of unequal lengths are packed: rows of step
t lie together, `sizes[t]` of them. `modules/rnn.py` holds the modules.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import adjoint as ad
from adjoint import Tensor, _core
from adjoint._autocast import in_lower_precision, is_autocast_enabled
from adjoint._tensor.arguments import require_tensors
from adjoint.nn import functional as F

__all__ = [
    "gru",
    "gru_cell",
    "lstm",
    "lstm_cell",
    "rnn_relu",
    "rnn_relu_cell",
    "rnn_tanh",
    "rnn_tanh_cell",
]

State = tuple[Tensor, ...]  # (h,) or, for an LSTM, (h, c)
Weights = Sequence[Tensor]  # of one layer in one direction: w_ih, w_hh(, b_ih, b_hh)(, w_hr)
Layer = Callable[[Tensor, State, Weights, list[int], bool], tuple[Tensor, State]]


def _biases(weights: Weights) -> tuple[Tensor | None, Tensor | None]:
    return (weights[2], weights[3]) if len(weights) >= 4 else (None, None)


def _summed(weights: Weights) -> Tensor | None:
    b_ih, b_hh = _biases(weights)
    return None if b_ih is None or b_hh is None else b_ih + b_hh


def _last(states: Tensor, sizes: list[int], reverse: bool) -> Tensor:
    """The state after each sequence's last step."""
    if reverse or sizes[0] == sizes[-1]:
        return states[: sizes[0]] if reverse else states[len(states) - sizes[0] :]
    rows, begin = [0] * sizes[0], 0
    for size in sizes:
        rows[:size] = range(begin, begin + size)
        begin += size
    return states[ad.tensor(rows)]


def _as_state(state: Tensor, *tensors: Any) -> tuple[Any, ...]:
    """Under autocast, operands in the dtype of the state, which the steps keep."""
    if not is_autocast_enabled("cpu"):
        return tensors
    return tuple(None if one is None else one.to(state.dtype) for one in tensors)


def _lstm(x: Tensor, state: State, weights: Weights, sizes: list[int], reverse: bool) -> Any:
    sums = F.linear(x, weights[0], _summed(weights))
    if len(weights) in (3, 5):
        return _projected_lstm(sums, state, weights, sizes, reverse)
    h, c = state
    sums, w_hh, h = _as_state(c, sums, weights[1], h)
    h, c, _ = _core._lstm_sequence(sums, w_hh, h, c, sizes, reverse)
    return h, (_last(h, sizes, reverse), _last(c, sizes, reverse))


def _projected_lstm(
    sums: Tensor, state: State, weights: Weights, sizes: list[int], reverse: bool
) -> tuple[Tensor, State]:
    """An LSTM whose hidden state is a product with `w_hr`, step by step."""
    w_hh, w_hr = weights[1], weights[-1]
    h, c = state
    steps = list(sums.split(sizes))
    outputs: list[Tensor] = []
    for step in reversed(steps) if reverse else steps:
        n = len(step)
        gates = step + F.linear(h[:n], w_hh)
        i, f, g, o = gates.chunk(4, 1)
        cell = f.sigmoid() * c[:n] + i.sigmoid() * g.tanh()
        hidden = F.linear(o.sigmoid() * cell.tanh(), w_hr)
        # Sequences that have ended, or not begun, keep their state.
        h = hidden if n == len(h) else ad.cat([hidden, h[n:]])
        c = cell if n == len(c) else ad.cat([cell, c[n:]])
        outputs.append(hidden)
    return ad.cat(outputs[::-1] if reverse else outputs), (h, c)


def _gru(x: Tensor, state: State, weights: Weights, sizes: list[int], reverse: bool) -> Any:
    b_ih, b_hh = _biases(weights)
    sums = F.linear(x, weights[0], b_ih)
    sums, w_hh, b_hh = _as_state(state[0], sums, weights[1], b_hh)
    h, _ = _core._gru_sequence(sums, w_hh, b_hh, state[0], sizes, reverse)
    return h, (_last(h, sizes, reverse),)


def _rnn(relu: bool) -> Layer:
    def layer(x: Tensor, state: State, weights: Weights, sizes: list[int], reverse: bool) -> Any:
        sums = F.linear(x, weights[0], _summed(weights))
        h = _core._rnn_sequence(sums, weights[1], state[0], relu, sizes, reverse)
        return h, (_last(h, sizes, reverse),)

    return layer


_LAYERS: dict[str, Layer] = {
    "LSTM": _lstm,
    "GRU": _gru,
    "RNN_TANH": _rnn(relu=False),
    "RNN_RELU": _rnn(relu=True),
}


def run_layers(
    mode: str,
    data: Tensor,
    sizes: list[int],
    state: State,
    weights: Sequence[Weights],
    dropout: float,
    train: bool,
    bidirectional: bool,
) -> tuple[Tensor, State]:
    """All layers over rows `data`; the states are (layers * directions, batch, hidden)."""
    layer, directions = _LAYERS[mode], 2 if bidirectional else 1
    after: list[State] = []
    for first in range(0, len(weights), directions):
        outputs = []
        for k in range(first, first + directions):
            before = tuple(part[k] for part in state)
            output, last = layer(data, before, weights[k], sizes, k > first)
            outputs.append(output)
            after.append(last)
        data = outputs[0] if directions == 1 else ad.cat(outputs, 1)
        if dropout and first + directions < len(weights):
            data = F.dropout(data, dropout, train)
    return data, tuple(ad.stack(list(parts)) for parts in zip(*after, strict=True))


def _by_layer(params: Sequence[Tensor], has_biases: bool, layers: int) -> list[Weights]:
    each = len(params) // max(layers, 1)
    plain = 4 if has_biases else 2
    if layers < 1 or each * layers != len(params) or each not in (plain, plain + 1):
        raise RuntimeError(
            f"{len(params)} parameters do not make {layers} layers "
            f"{'with' if has_biases else 'without'} biases"
        )
    return [params[k * each : (k + 1) * each] for k in range(layers)]


def _function(mode: str, name: str) -> Callable[..., Any]:
    def run(input: Tensor, second: Any, third: Any, *rest: Any, **named: Any) -> Any:
        arguments: dict[str, Any]
        packed = isinstance(third, Tensor) or (mode == "LSTM" and isinstance(second, Tensor))
        names = ["has_biases", "num_layers", "dropout", "train", "bidirectional", "batch_first"]
        if packed:
            hx, params, rest = third, *rest[:1], rest[1:]
        else:
            hx, params = second, third
        arguments = dict(zip(names, rest, strict=False)) | named
        directions = 2 if arguments["bidirectional"] else 1
        weights = _by_layer(params, arguments["has_biases"], arguments["num_layers"] * directions)
        state = (hx,) if isinstance(hx, Tensor) else tuple(hx)
        options = arguments["dropout"], arguments["train"], arguments["bidirectional"]
        if packed:
            sizes = second.tolist()
            data, after = run_layers(mode, input, sizes, state, weights, *options)
        else:
            data, after = run_padded(
                mode, input, state, weights, *options, arguments.get("batch_first", False)
            )
        return (data, *after)

    run.__name__ = run.__qualname__ = name
    run.__doc__ = (
        f"``{name}(input, hx, params, has_biases, num_layers, dropout, train, bidirectional, "
        "batch_first)``, or ``(data, batch_sizes, hx, params, has_biases, num_layers, dropout, "
        "train, bidirectional)`` for a packed sequence: what `nn` 's module of that kind computes."
    )
    return run


def run_padded(
    mode: str,
    input: Tensor,
    state: State,
    weights: Sequence[Weights],
    dropout: float,
    train: bool,
    bidirectional: bool,
    batch_first: bool,
) -> tuple[Tensor, State]:
    """The same over (steps, batch, features), or (batch, steps, features)."""
    if batch_first:
        input = input.transpose(0, 1)
    steps, batch = input.shape[:2]
    if steps == 0:
        raise RuntimeError("Expected sequence length to be larger than 0 in RNN")
    if mode == "LSTM" and len(weights[0]) not in (3, 5):  # autocast has one op for it
        state = in_lower_precision(*state)
    data, after = run_layers(
        mode, input.flatten(0, 1), [batch] * steps, state, weights, dropout, train, bidirectional
    )
    output = data.view(steps, batch, data.shape[1])
    return output.transpose(0, 1) if batch_first else output, after


lstm = _function("LSTM", "lstm")
gru = _function("GRU", "gru")
rnn_tanh = _function("RNN_TANH", "rnn_tanh")
rnn_relu = _function("RNN_RELU", "rnn_relu")


def _step(mode: str, input: Tensor, state: State, weights: Sequence[Tensor | None]) -> State:
    w_ih, w_hh = weights[0], weights[1]
    require_tensors(f"{mode.lower()}_cell", [input, *state, w_ih, w_hh])
    assert w_ih is not None and w_hh is not None
    for k, part in enumerate(state):
        _check_step(input, part, w_ih, w_hh, k)
    given = [w for w in weights if w is not None]
    _, after = _LAYERS[mode](input, state, given, [len(input)], False)
    return after


def _check_step(input: Tensor, hx: Tensor, w_ih: Tensor, w_hh: Tensor, which: int) -> None:
    if input.size(1) != w_ih.size(1):
        raise RuntimeError(
            f"input has inconsistent input_size: got {input.size(1)} expected {w_ih.size(1)}"
        )
    if input.size(0) != hx.size(0):
        raise RuntimeError(
            f"Input batch size {input.size(0)} doesn't match hidden{which} batch size {hx.size(0)}"
        )
    if hx.size(1) != w_hh.size(1):
        raise RuntimeError(
            f"hidden{which} has inconsistent hidden_size: got {hx.size(1)}, expected {w_hh.size(1)}"
        )


def lstm_cell(
    input: Tensor,
    hx: Sequence[Tensor],
    w_ih: Tensor,
    w_hh: Tensor,
    b_ih: Tensor | None = None,
    b_hh: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """One step of an LSTM: the hidden and the cell state after it."""
    h, c = _step("LSTM", input, tuple(hx), [w_ih, w_hh, b_ih, b_hh])
    return h, c


def gru_cell(
    input: Tensor,
    hx: Tensor,
    w_ih: Tensor,
    w_hh: Tensor,
    b_ih: Tensor | None = None,
    b_hh: Tensor | None = None,
) -> Tensor:
    """One step of a GRU: the hidden state after it."""
    return _step("GRU", input, (hx,), [w_ih, w_hh, b_ih, b_hh])[0]


def rnn_tanh_cell(
    input: Tensor,
    hx: Tensor,
    w_ih: Tensor,
    w_hh: Tensor,
    b_ih: Tensor | None = None,
    b_hh: Tensor | None = None,
) -> Tensor:
    """``tanh(w_ih @ input + b_ih + w_hh @ hx + b_hh)``."""
    return _step("RNN_TANH", input, (hx,), [w_ih, w_hh, b_ih, b_hh])[0]


def rnn_relu_cell(
    input: Tensor,
    hx: Tensor,
    w_ih: Tensor,
    w_hh: Tensor,
    b_ih: Tensor | None = None,
    b_hh: Tensor | None = None,
) -> Tensor:
    """``relu(w_ih @ input + b_ih + w_hh @ hx + b_hh)``."""
    return _step("RNN_RELU", input, (hx,), [w_ih, w_hh, b_ih, b_hh])[0]
