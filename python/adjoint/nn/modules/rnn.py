"""Recurrent layers: RNN, LSTM, GRU and single steps of them (`RNNCell` ...).

What they compute is in `nn/_recurrent.py`; packed sequences are in `nn/utils/rnn.py`.
"""

from __future__ import annotations

import math
import warnings
from typing import Any

import adjoint as ad
from adjoint import Tensor
from adjoint._autocast import is_autocast_enabled
from adjoint.nn import _recurrent as recurrent
from adjoint.nn import init
from adjoint.nn.modules.module import Module
from adjoint.nn.parameter import Parameter
from adjoint.nn.utils.rnn import PackedSequence

__all__ = ["GRU", "LSTM", "RNN", "GRUCell", "LSTMCell", "RNNBase", "RNNCell", "RNNCellBase"]

_GATES = {"LSTM": 4, "GRU": 3, "RNN_TANH": 1, "RNN_RELU": 1}
State = tuple[Tensor, ...]


class RNNBase(Module):
    """What RNN, LSTM and GRU share: parameters, checks and the run over layers.

    Parameters
    ----------
    mode : str
        "LSTM", "GRU", "RNN_TANH" or "RNN_RELU".
    input_size, hidden_size : int
        Features of the input and of the hidden state.
    num_layers : int, default 1
        Layers; each takes the outputs of the one before it.
    bias : bool, default True
        Whether sums have biases.
    batch_first : bool, default False
        Inputs are (batch, steps, features) rather than (steps, batch, features).
    dropout : float, default 0
        Probability of dropping an output of any layer but the last.
    bidirectional : bool, default False
        A second set of layers runs from the end; outputs stand side by side.
    proj_size : int, default 0
        For an LSTM: the hidden state is a product of this size.
    """

    __constants__ = [  # noqa: RUF012
        "mode", "input_size", "hidden_size", "num_layers", "bias", "batch_first", "dropout",
        "bidirectional", "proj_size",
    ]  # fmt: skip

    def __init__(
        self,
        mode: str,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        proj_size: int = 0,
        device: Any = None,
        dtype: ad.dtype | None = None,
    ) -> None:
        super().__init__()
        _check_options(mode, input_size, hidden_size, num_layers, bias, dropout, proj_size)
        self.mode = mode
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.num_layers = num_layers
        self.bias = bias
        self.batch_first = batch_first
        self.dropout = float(dropout)
        self.bidirectional = bidirectional
        self.proj_size = proj_size
        self._all_weights: list[list[str]] = []
        gates, directions = _GATES[mode] * hidden_size, 2 if bidirectional else 1
        state_size = proj_size or hidden_size
        for layer in range(num_layers):
            for direction in range(directions):
                below = input_size if layer == 0 else state_size * directions
                shapes = {"weight_ih": (gates, below), "weight_hh": (gates, state_size)}
                if bias:
                    shapes |= {"bias_ih": (gates,), "bias_hh": (gates,)}  # type: ignore[dict-item]
                if proj_size:
                    shapes["weight_hr"] = (proj_size, hidden_size)
                end = f"_l{layer}" + ("_reverse" if direction else "")
                for name, shape in shapes.items():
                    values = ad.empty(shape, device=device, dtype=dtype)
                    setattr(self, name + end, Parameter(values))
                self._all_weights.append([name + end for name in shapes])
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Uniform numbers up to 1/sqrt(hidden_size)."""
        bound = 1.0 / math.sqrt(self.hidden_size) if self.hidden_size > 0 else 0
        for weight in self.parameters():
            init.uniform_(weight, -bound, bound)

    def flatten_parameters(self) -> None:
        """Nothing: parameters need not lie together here."""

    @property
    def all_weights(self) -> list[list[Parameter]]:
        """The parameters, a list per layer and direction."""
        return [[getattr(self, name) for name in names] for names in self._all_weights]

    @property
    def _flat_weights(self) -> list[Parameter]:
        return [weight for weights in self.all_weights for weight in weights]

    @property
    def _flat_weights_names(self) -> list[str]:
        return [name for names in self._all_weights for name in names]

    # PyTorch's files have the weights once more, in a row, and the names as a list.
    def __getstate__(self) -> dict[str, Any]:
        lists = {
            "_flat_weights": self._flat_weights,
            "_flat_weights_names": self._flat_weights_names,
        }
        return {**self.__dict__, **lists}

    def __setstate__(self, state: dict[str, Any]) -> None:
        lists = ("_flat_weights", "_flat_weights_names", "_all_names")
        super().__setstate__({key: value for key, value in state.items() if key not in lists})
        self.__dict__.setdefault("proj_size", 0)
        if "_all_names" in state:  # of earlier versions of adjoint
            self._all_weights = state["_all_names"]

    # --- checks
    def check_input(self, input: Tensor, batch_sizes: Tensor | None) -> None:
        """Refuse inputs of a wrong dtype, number of axes or number of features."""
        weight = getattr(self, self._all_weights[0][0])
        if input.dtype != weight.dtype and not is_autocast_enabled("cpu"):
            raise ValueError(
                f"RNN input dtype ({input.dtype}) does not match weight dtype ({weight.dtype}). "
                f"Convert input: input.to({weight.dtype}), "
                f"or convert model: model.to({input.dtype})"
            )
        wanted = 2 if batch_sizes is not None else 3
        if input.dim() != wanted:
            raise RuntimeError(f"input must have {wanted} dimensions, got {input.dim()}")
        if self.input_size != input.size(-1):
            raise RuntimeError(
                "input.size(-1) must be equal to input_size. "
                f"Expected {self.input_size}, got {input.size(-1)}"
            )

    def get_expected_hidden_size(
        self, input: Tensor, batch_sizes: Tensor | None
    ) -> tuple[int, int, int]:
        """(layers * directions, batch, features) of the hidden state."""
        if batch_sizes is not None:
            batch = int(batch_sizes[0])
        else:
            batch = input.size(0 if self.batch_first else 1)
        layers = self.num_layers * (2 if self.bidirectional else 1)
        return layers, batch, self.proj_size or self.hidden_size

    def check_hidden_size(
        self,
        hx: Tensor,
        expected_hidden_size: tuple[int, int, int],
        msg: str = "Expected hidden size {}, got {}",
    ) -> None:
        """Refuse a state of another shape."""
        if tuple(hx.shape) != expected_hidden_size:
            raise RuntimeError(msg.format(expected_hidden_size, list(hx.shape)))

    def check_forward_args(self, input: Tensor, hidden: Any, batch_sizes: Tensor | None) -> None:
        """Refuse inputs and states that do not belong together."""
        self.check_input(input, batch_sizes)
        self.check_hidden_size(hidden, self.get_expected_hidden_size(input, batch_sizes))

    def permute_hidden(self, hx: Any, permutation: Tensor | None) -> Any:
        """States in the order of packed sequences, and back."""
        return hx if permutation is None else hx.index_select(1, permutation)

    # --- the run
    def _zeros(self, input: Tensor, batch_sizes: Tensor | None) -> Any:
        return input.new_zeros(self.get_expected_hidden_size(input, batch_sizes))

    def _state_axes(self, hx: Any, batched: bool) -> None:
        if hx.dim() != (3 if batched else 2):
            kind, axes = ("batched 3-D", 3) if batched else ("unbatched 2-D", 2)
            raise RuntimeError(
                f"For {kind} input, hx should also be {axes}-D but got {hx.dim()}-D tensor"
            )

    def _as_tuple(self, hx: Any) -> State:
        return (hx,)

    def _as_given(self, state: State) -> Any:
        return state[0]

    def _unbatched(self, hx: Any) -> Any:
        return hx.unsqueeze(1)

    def forward(self, input: Any, hx: Any = None) -> Any:
        if isinstance(input, PackedSequence):
            return self._run_packed(input, hx)
        if input.dim() not in (2, 3):
            raise ValueError(
                f"{type(self).__name__}: Expected input to be 2D or 3D, got {input.dim()}D instead"
            )
        batched = input.dim() == 3
        axis = 0 if self.batch_first else 1
        if hx is not None:
            self._state_axes(hx, batched)
        if not batched:
            input = input.unsqueeze(axis)
            hx = None if hx is None else self._unbatched(hx)
        if hx is None:
            hx = self._zeros(input, None)
        self.check_forward_args(input, hx, None)
        output, after = recurrent.run_padded(
            self.mode, input, self._as_tuple(hx), self.all_weights, self.dropout, self.training,
            self.bidirectional, self.batch_first,
        )  # fmt: skip
        if not batched:
            return output.squeeze(axis), self._as_given(tuple(part.squeeze(1) for part in after))
        return output, self._as_given(after)

    def _run_packed(self, packed: PackedSequence, hx: Any) -> Any:
        data, batch_sizes, order, inverse = packed
        hx = self._zeros(data, batch_sizes) if hx is None else self.permute_hidden(hx, order)
        self.check_forward_args(data, hx, batch_sizes)
        output, after = recurrent.run_layers(
            self.mode, data, batch_sizes.tolist(), self._as_tuple(hx), self.all_weights,
            self.dropout, self.training, self.bidirectional,
        )  # fmt: skip
        result = PackedSequence(output, batch_sizes, order, inverse)
        return result, self.permute_hidden(self._as_given(after), inverse)

    def extra_repr(self) -> str:
        shown = f"{self.input_size}, {self.hidden_size}"
        defaults = {
            "proj_size": 0, "num_layers": 1, "bias": True, "batch_first": False, "dropout": 0,
            "bidirectional": False,
        }  # fmt: skip
        for name, default in defaults.items():
            value = getattr(self, name)
            if value != default:
                shown += f", {name}={value}"
        return shown


def _check_options(
    mode: str,
    input_size: int,
    hidden_size: int,
    num_layers: int,
    bias: bool,
    dropout: Any,
    proj_size: int,
) -> None:
    if mode not in _GATES:
        raise ValueError("Unrecognized RNN mode: " + mode)
    number = isinstance(dropout, int | float) and not isinstance(dropout, bool)
    if not number or not 0 <= dropout <= 1:
        raise ValueError(
            "dropout should be a number in range [0, 1] "
            "representing the probability of an element being zeroed"
        )
    if dropout > 0 and num_layers == 1:
        warnings.warn(
            "dropout option adds dropout after all but last recurrent layer, so non-zero dropout "
            f"expects num_layers greater than 1, but got dropout={dropout} and "
            f"num_layers={num_layers}",
            stacklevel=4,
        )
    if not isinstance(bias, bool):
        raise TypeError(f"bias should be of type bool, got: {type(bias).__name__}")
    sizes = {"input_size": input_size, "hidden_size": hidden_size, "num_layers": num_layers}
    for name, value in sizes.items():
        if not isinstance(value, int):
            raise TypeError(f"{name} should be of type int, got: {type(value).__name__}")
        if value <= 0:
            raise ValueError(f"{name} must be greater than zero")
    if proj_size < 0:
        raise ValueError("proj_size should be a positive integer or zero to disable projections")
    if proj_size >= hidden_size:
        raise ValueError("proj_size has to be smaller than hidden_size")


class RNN(RNNBase):
    """Layers of ``h' = tanh(W_ih x + b_ih + W_hh h + b_hh)``, or relu.

    ``RNN(input_size, hidden_size, num_layers=1, nonlinearity="tanh", bias=True,
    batch_first=False, dropout=0.0, bidirectional=False)``: see `RNNBase`. A call takes the input
    and the state before the first step (zeros), and gives the outputs of all steps and the state
    after the last one.

    Examples
    --------
    >>> import adjoint as ad
    >>> output, state = ad.nn.RNN(3, 4)(ad.ones(5, 2, 3))
    >>> output.shape, state.shape
    (torch.Size([5, 2, 4]), torch.Size([1, 2, 4]))
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if kwargs.get("proj_size", 0):
            raise ValueError("proj_size argument is only supported for LSTM, not RNN or GRU")
        if len(args) > 3:
            kwargs["nonlinearity"] = args[3]
            args = args[:3] + args[4:]
        self.nonlinearity = kwargs.pop("nonlinearity", "tanh")
        if self.nonlinearity not in ("tanh", "relu"):
            raise ValueError(
                f"Unknown nonlinearity '{self.nonlinearity}'. Select from 'tanh' or 'relu'."
            )
        super().__init__(f"RNN_{self.nonlinearity.upper()}", *args, **kwargs)


class GRU(RNNBase):
    """Layers of gated recurrent units.

    ``r = sigmoid(W_ir x + W_hr h)``, ``z = sigmoid(W_iz x + W_hz h)``,
    ``n = tanh(W_in x + r (W_hn h + b_hn))``, ``h' = (1 - z) n + z h``, with biases. Parameters and
    results: see `RNNBase` and `RNN`.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if kwargs.get("proj_size", 0):
            raise ValueError("proj_size argument is only supported for LSTM, not RNN or GRU")
        super().__init__("GRU", *args, **kwargs)


class LSTM(RNNBase):
    """Layers of long short-term memory.

    ``i, f, o = sigmoid(...)``, ``g = tanh(...)`` of sums of the input and the hidden state,
    ``c' = f c + i g``, ``h' = o tanh(c')``. The state is a pair, hidden and cell state.
    Parameters: see `RNNBase`.

    Examples
    --------
    >>> import adjoint as ad
    >>> output, (h, c) = ad.nn.LSTM(3, 4, num_layers=2, batch_first=True)(ad.ones(2, 5, 3))
    >>> output.shape, h.shape, c.shape
    (torch.Size([2, 5, 4]), torch.Size([2, 2, 4]), torch.Size([2, 2, 4]))
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__("LSTM", *args, **kwargs)

    def get_expected_cell_size(
        self, input: Tensor, batch_sizes: Tensor | None
    ) -> tuple[int, int, int]:
        """(layers * directions, batch, features) of the cell state."""
        return *self.get_expected_hidden_size(input, batch_sizes)[:2], self.hidden_size

    def check_forward_args(self, input: Tensor, hidden: Any, batch_sizes: Tensor | None) -> None:
        self.check_input(input, batch_sizes)
        sizes = self.get_expected_hidden_size(input, batch_sizes)
        self.check_hidden_size(hidden[0], sizes, "Expected hidden[0] size {}, got {}")
        cell = self.get_expected_cell_size(input, batch_sizes)
        self.check_hidden_size(hidden[1], cell, "Expected hidden[1] size {}, got {}")

    def permute_hidden(self, hx: Any, permutation: Tensor | None) -> Any:
        if permutation is None:
            return hx
        return tuple(part.index_select(1, permutation) for part in hx)

    def _zeros(self, input: Tensor, batch_sizes: Tensor | None) -> Any:
        h = self.get_expected_hidden_size(input, batch_sizes)
        return input.new_zeros(h), input.new_zeros(self.get_expected_cell_size(input, batch_sizes))

    def _state_axes(self, hx: Any, batched: bool) -> None:
        if any(part.dim() != (3 if batched else 2) for part in hx):
            kind, axes = ("batched 3-D", 3) if batched else ("unbatched 2-D", 2)
            raise RuntimeError(
                f"For {kind} input, hx and cx should also be {axes}-D "
                f"but got ({hx[0].dim()}-D, {hx[1].dim()}-D) tensors"
            )

    def _as_tuple(self, hx: Any) -> State:
        return tuple(hx)

    def _as_given(self, state: State) -> Any:
        return state

    def _unbatched(self, hx: Any) -> Any:
        return tuple(part.unsqueeze(1) for part in hx)


class RNNCellBase(Module):
    """What the cells share: the parameters of one step."""

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool,
        num_chunks: int,
        device: Any = None,
        dtype: ad.dtype | None = None,
    ) -> None:
        super().__init__()
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.bias = bias
        rows = num_chunks * hidden_size

        def parameter(*shape: int) -> Parameter:
            return Parameter(ad.empty(shape, device=device, dtype=dtype))

        self.weight_ih = parameter(rows, input_size)
        self.weight_hh = parameter(rows, hidden_size)
        self.register_parameter("bias_ih", parameter(rows) if bias else None)
        self.register_parameter("bias_hh", parameter(rows) if bias else None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Uniform numbers up to 1/sqrt(hidden_size)."""
        bound = 1.0 / math.sqrt(self.hidden_size) if self.hidden_size > 0 else 0
        for weight in self.parameters():
            init.uniform_(weight, -bound, bound)

    def extra_repr(self) -> str:
        shown = f"{self.input_size}, {self.hidden_size}"
        if not self.bias:
            shown += f", bias={self.bias}"
        if getattr(self, "nonlinearity", "tanh") != "tanh":
            shown += f", nonlinearity={self.nonlinearity}"
        return shown

    def _check(self, tensor: Tensor, what: str) -> None:
        if tensor.dim() not in (1, 2):
            raise ValueError(
                f"{type(self).__name__}: Expected {what} to be 1D or 2D, "
                f"got {tensor.dim()}D instead"
            )

    def _step(self, function: Any, input: Tensor, hx: Any, parts: int) -> Any:
        """`function` on a batch, made of a single sample where that is given."""
        self._check(input, "input")
        single = input.dim() == 1
        state = () if hx is None else (hx,) if parts == 1 else tuple(hx)
        for k, part in enumerate(state):
            self._check(part, "hidden" if parts == 1 else f"hx[{k}]")
        if single:
            input, state = input.unsqueeze(0), tuple(part.unsqueeze(0) for part in state)
        if not state:
            state = (input.new_zeros(input.size(0), self.hidden_size),) * parts
        weights = self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh
        after = function(input, state[0] if parts == 1 else state, *weights)
        if not single:
            return after
        return after.squeeze(0) if parts == 1 else tuple(part.squeeze(0) for part in after)


class RNNCell(RNNCellBase):
    """One step of an `RNN`.

    Parameters
    ----------
    input_size, hidden_size : int
        Features of the input and of the state.
    bias : bool, default True
        Whether the sum has biases.
    nonlinearity : {"tanh", "relu"}
        What is applied to the sum.
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        nonlinearity: str = "tanh",
        device: Any = None,
        dtype: ad.dtype | None = None,
    ) -> None:
        super().__init__(input_size, hidden_size, bias, 1, device, dtype)
        self.nonlinearity = nonlinearity

    def forward(self, input: Tensor, hx: Tensor | None = None) -> Tensor:
        if self.nonlinearity not in ("tanh", "relu"):
            raise RuntimeError(f"Unknown nonlinearity: {self.nonlinearity}")
        steps = {"tanh": recurrent.rnn_tanh_cell, "relu": recurrent.rnn_relu_cell}
        result: Tensor = self._step(steps[self.nonlinearity], input, hx, 1)
        return result


class LSTMCell(RNNCellBase):
    """One step of an `LSTM`: the hidden and the cell state after it.

    Parameters
    ----------
    input_size, hidden_size : int
        Features of the input and of the state.
    bias : bool, default True
        Whether sums have biases.
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        device: Any = None,
        dtype: ad.dtype | None = None,
    ) -> None:
        super().__init__(input_size, hidden_size, bias, 4, device, dtype)

    def forward(
        self, input: Tensor, hx: tuple[Tensor, Tensor] | None = None
    ) -> tuple[Tensor, Tensor]:
        result: tuple[Tensor, Tensor] = self._step(recurrent.lstm_cell, input, hx, 2)
        return result


class GRUCell(RNNCellBase):
    """One step of a `GRU`.

    Parameters
    ----------
    input_size, hidden_size : int
        Features of the input and of the state.
    bias : bool, default True
        Whether sums have biases.
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        device: Any = None,
        dtype: ad.dtype | None = None,
    ) -> None:
        super().__init__(input_size, hidden_size, bias, 3, device, dtype)

    def forward(self, input: Tensor, hx: Tensor | None = None) -> Tensor:
        result: Tensor = self._step(recurrent.gru_cell, input, hx, 1)
        return result
