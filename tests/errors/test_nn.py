"""Messages of nn: layers, containers, modules, initialisation."""

from __future__ import annotations

from typing import Any

import pytest

import adjoint as ad
from adjoint import nn
from tests.errors.table import Row, check, refusals

F = nn.functional
x = ad.ones(2, 3)
s = ad.tensor(1.0)
i = ad.arange(3)
lin = nn.Linear(2, 2)
Parameter = nn.Parameter


class Plain(nn.Module):
    """A module with one parameter, one buffer, one child and one other attribute."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = Parameter(ad.ones(2))
        self.register_buffer("mean", ad.ones(2))
        self.child = nn.ReLU()
        self.other = 3


class Early(nn.Module):
    """Assigns before nn.Module's __init__ has run."""

    def __init__(self, value: Any) -> None:
        self.value = value


def assign(name: str, value: Any) -> None:
    setattr(Plain(), name, value)


def made() -> Any:
    """Return a parameter that is not a leaf."""
    return ad.ones(2, requires_grad=True).mul(2).as_subclass(Parameter)


def load(state: Any) -> None:
    Plain().load_state_dict(state)


def item(container: Any, index: Any) -> Any:
    return container[index]


@refusals(
    (lambda: Plain()(x), NotImplementedError, 'Module [Plain] is missing the required "forward"'),
    (
        lambda: Early(Parameter(s)),
        AttributeError,
        "cannot assign parameters before Module.__init__",
    ),
    (
        lambda: Early.__new__(Early).register_buffer("b", s),
        AttributeError,
        "cannot assign buffer be",
    ),
    (lambda: Early(lin), AttributeError, "cannot assign module before Module.__init__() call"),
    (lambda: assign("weight", 3), TypeError, "as parameter 'weight' (torch.nn.Parameter or None"),
    (lambda: assign("child", 3), TypeError, "as child module 'child' (torch.nn.Module or None exp"),
    (lambda: assign("mean", 3), TypeError, "as buffer 'mean'"),
    (lambda: Plain().register_parameter("w", made()), ValueError, "Cannot assign non-leaf Tensor"),
    (lambda: Plain().register_parameter("w", x), TypeError, "object to parameter 'w'"),
    (lambda: Plain().register_parameter("", None), KeyError, "be empty string"),
    (lambda: Plain().register_parameter("a.b", None), KeyError, 't contain "."'),
    (lambda: Plain().register_parameter(3, None), TypeError, "name should be a string. Got int"),
    (lambda: Plain().register_parameter("other", None), KeyError, "attribute 'other' already exis"),
    (lambda: Plain().register_buffer("b", 3), TypeError, "object to buffer 'b'"),
    (lambda: Plain().register_buffer("weight", s), KeyError, "attribute 'weight' already exists"),
    (lambda: Plain().add_module("m", 3), TypeError, "int is not a Module subclass"),
    (lambda: Plain().add_module("weight", lin), KeyError, "attribute 'weight' already exists"),
    (lambda: Plain().nothing, AttributeError, "'Plain' object has no attribute 'nothing'"),
    (lambda: Plain().get_submodule("nothing"), AttributeError, "has no attribute `nothing`"),
    (lambda: Plain().get_submodule("other"), AttributeError, "`other` is not an nn.Module"),
    (lambda: Plain().get_parameter("nothing"), AttributeError, "has no attribute `nothing`"),
    (lambda: Plain().get_parameter("other"), AttributeError, "`other` is not an nn.Parameter"),
    (lambda: Plain().get_buffer("nothing"), AttributeError, "has no attribute `nothing`"),
    (lambda: Plain().get_buffer("other"), AttributeError, "`other` is not a buffer"),
    (lambda: Plain().train(1), ValueError, "training mode is expected to be boolean"),
    (lambda: Plain().get_extra_state(), RuntimeError, "should never be called"),
    (lambda: Plain().set_extra_state(3), RuntimeError, "should never be called"),
    (lambda: load(3), TypeError, "Expected state_dict to be dict-like, got <class 'int'>"),
    (lambda: load({}), RuntimeError, "Error(s) in loading state_dict for Plain"),
    (lambda: Plain().to(ad.int64), TypeError, "only accepts floating point or complex dtypes"),
    (lambda: Plain().to(kind=3), TypeError, "unexpected keyword argument 'kind'"),
    (lambda: Plain().to([]), TypeError, "expected a dtype, a device or a tensor, got list"),
)
def test_modules(row: Row) -> None:
    check(row)


def test_a_refused_state_leaves_the_module_as_it_was() -> None:
    module = Plain()
    state = {"weight": ad.zeros(3), "mean": ad.zeros(2), "extra": ad.zeros(1)}
    with pytest.raises(RuntimeError) as caught:
        module.load_state_dict(state)
    assert "size mismatch for weight" in str(caught.value) and '"extra"' in str(caught.value)
    assert (module.weight == 1).all()


def test_hooks_that_return_something_else() -> None:
    module = nn.Linear(2, 2)
    module.register_forward_pre_hook(lambda m, a, k: 3, with_kwargs=True)
    with pytest.raises(RuntimeError, match=r"a tuple of \(new_args, new_kwargs\), but got 3"):
        module(ad.ones(2))
    other = Plain()
    other.register_load_state_dict_post_hook(lambda m, keys: 3)
    with pytest.raises(AssertionError, match="are not expected to return new values"):
        other.load_state_dict(other.state_dict())


sequence = nn.Sequential(nn.ReLU(), nn.ReLU())


@refusals(
    (lambda: item(sequence, 5), IndexError, "index 5 is out of range"),
    (lambda: sequence + 3, ValueError, "only objects of Sequential class, but <class 'int'>"),
    (lambda: sequence.append(3), TypeError, "int"),
    (lambda: sequence.insert(9, lin), IndexError, "Index out of range: 9"),
    (lambda: sequence.insert(0, 3), AssertionError, "module should be of type"),
    (lambda: item(nn.ModuleList([lin]), 3), IndexError, "index 3 is out of range"),
    (lambda: nn.ModuleList([lin]).extend(3), TypeError, "with an iterable, but got int"),
    (lambda: nn.ModuleList([lin])(x), NotImplementedError, "forward"),
    (lambda: nn.ModuleDict().update(3), TypeError, "key/value pairs, but got int"),
    (lambda: item(nn.ParameterList([s]), 3), IndexError, "index 3 is out of range"),
    (lambda: nn.ParameterList([s]).extend(3), TypeError, "with an iterable, but got int"),
    (lambda: nn.ParameterList([s])(), RuntimeError, "ParameterList should not be called."),
    (lambda: item(nn.ParameterDict(), 3), TypeError, "is not a string (type is 'int')"),
    (lambda: nn.ParameterDict()(), RuntimeError, "ParameterDict should not be called."),
)
def test_containers(row: Row) -> None:
    check(row)


@refusals(
    (lambda: nn.Hardtanh(1, 0), AssertionError, "max_val (0) must be greater than min_val (1)"),
    (lambda: nn.BatchNorm1d(3)(s), ValueError, "(got 0D input)"),
    (lambda: nn.Dropout(2), ValueError, "between 0 and 1, but got 2"),
    (lambda: nn.Unflatten(0, 3), TypeError, "must be a tuple of ints, but found type int"),
    (lambda: nn.Unflatten(0, (1, "a")), TypeError, "found element of type str at pos 1"),
    (lambda: nn.Bilinear(0, 1, 1), ValueError, "must be > 0, but got (in1_features=0)"),
    (lambda: nn.GroupNorm(2, 3), ValueError, "num_channels must be divisible by num_groups"),
    (lambda: nn.Embedding(3, 2, padding_idx=5), AssertionError, "within num_embeddings"),
    (lambda: nn.Embedding(3, 2, _weight=x), AssertionError, "does not match num_embeddings"),
    (lambda: nn.Embedding.from_pretrained(s), AssertionError, "to be 2-dimensional"),
    (lambda: F.hardtanh(x, 1, 0), ValueError, "min_val cannot be greater than max_val"),
    (lambda: F.prelu(x, ad.ones(2)), RuntimeError, "numbers = 2 and channel size = 3."),
    (lambda: F.softshrink(x, -1), RuntimeError, "greater or equal to 0, but found to be -1"),
    (
        lambda: F.softshrink(3),
        TypeError,
        "softshrink(): argument 'input' (position 1) must be",
    ),
    (lambda: F.softshrink(i), NotImplementedError, "not implemented for torch.int64: use .float()"),
    (lambda: F.glu(s), RuntimeError, "glu does not support 0-dimensional tensors"),
    (lambda: F.glu(x), RuntimeError, "but dimension -1 is size 3"),
    (lambda: F.elu(3), TypeError, "must be Tensor, not int"),
    (lambda: F.dropout(x, 2), ValueError, "between 0 and 1, but got 2"),
    (lambda: F.layer_norm(x, 3), TypeError, "write (3,)"),
    (lambda: F.embedding(i, x, padding_idx=5), AssertionError, "within num_embeddings"),
    (lambda: F.one_hot(x), RuntimeError, "got torch.float32: use tensor.long()"),
    (lambda: F.one_hot(i[:0]), RuntimeError, "from empty tensor: give num_classes"),
    (lambda: F.one_hot(i - 1), RuntimeError, "must be non-negative. (got -1)"),
    (lambda: F.one_hot(i, 0), RuntimeError, "num_classes should be positive, got 0"),
    (lambda: F.one_hot(i, 2), RuntimeError, "smaller than num_classes. (got 2, of 2)"),
    (lambda: F.pad(x, (1,)), RuntimeError, "divisible by 2, got 1: (1,)"),
    (lambda: F.pad(s, (1, 1)), RuntimeError, "padding length 2 and input of dimension 0"),
    (lambda: F.pad(x, (-2, -2)), RuntimeError, "The input size 3, plus negative padding -2 and -2"),
    (lambda: F.mse_loss(x, x, weight=s), ValueError, "same size. (got [] and [2, 3])"),
    (lambda: F.kl_div(x, x, reduction="up"), ValueError, "up is not a valid value for reduction"),
    (lambda: F.batch_norm(x, None, None), RuntimeError, "to be defined when not training"),
    (
        lambda: F.batch_norm(x[:1], None, None, training=True),
        ValueError,
        "Expected more than 1 val",
    ),
    (
        lambda: F.group_norm(i.float(), 1),
        RuntimeError,
        "2 dimensions for input tensor but received 1",
    ),
    (lambda: F.group_norm(x, 2), RuntimeError, "of shape [2, 3] and num_groups=2"),
    (lambda: nn.init.calculate_gain("leaky_relu", "a"), ValueError, "negative_slope a not a valid"),
    (lambda: nn.init.eye_(s), ValueError, "2 dimensions"),
    (lambda: nn.init.xavier_uniform_(s), ValueError, "fewer than 2 dimensions"),
    (lambda: nn.init.kaiming_uniform_(x, mode="up"), ValueError, "Mode up not supported"),
)
def test_layers(row: Row) -> None:
    check(row)


def test_warnings_of_layers() -> None:
    with pytest.warns(UserWarning, match="please use reduction='sum' instead"):
        F.mse_loss(x, x, size_average=False)
    with pytest.warns(UserWarning, match="Please ensure they have the same size"):
        F.mse_loss(x, s)
    with pytest.warns(UserWarning, match="'batchmean' divides only by the batch size"):
        F.kl_div(x, x, reduction="mean")
    with pytest.warns(UserWarning, match="mean is more than 2 std from"):
        nn.init.trunc_normal_(ad.empty(2), mean=9)


def test_refused_uses_of_modules() -> None:
    module = nn.Linear(2, 2)
    module.register_full_backward_hook(lambda *a: None)
    with pytest.raises(RuntimeError, match="Cannot use both"):
        module.register_backward_hook(lambda *a: None)
    p = Parameter(ad.ones(1))
    p.grad = ad.full((1,), float("inf"))
    with pytest.raises(RuntimeError, match="set `error_if_nonfinite=False`"):
        nn.utils.clip_grad_norm_([p], 1.0, error_if_nonfinite=True)
    assert (p.grad == float("inf")).all()
    with pytest.raises(TypeError, match=r"expected torch\.Tensor, but got: int"):
        nn.utils.vector_to_parameters(3, [p])  # type: ignore[arg-type]
