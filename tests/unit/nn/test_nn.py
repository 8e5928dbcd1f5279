"""nn: modules register, print, save and compute as PyTorch's do."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

import adjoint as ad
from adjoint import nn

MESSAGES = [
    ("L.load_state_dict({'weight': ad.zeros(2, 2)})", RuntimeError),
    ("L.load_state_dict(3)", TypeError),
    ("L.foo", AttributeError),
    ("setattr(L, 'weight', 3)", TypeError),
    ("setattr(nn.Sequential(L), '0', 3)", TypeError),
    ("L.register_parameter('a.b', None)", KeyError),
    ("L.register_parameter('', None)", KeyError),
    ("L.register_parameter('forward', None)", KeyError),
    ("L.register_parameter(3, None)", TypeError),
    ("L.register_buffer('q', 3)", TypeError),
    ("L.add_module('q', 3)", TypeError),
    ("L.add_module('a.b', nn.ReLU())", KeyError),
    ("nn.Module()(3)", NotImplementedError),
    ("nn.Module(3)", TypeError),
    ("nn.Module(x=3)", TypeError),
    ("L.train(3)", ValueError),
    ("L.to(ad.int64)", TypeError),
    ("L.get_submodule('a')", AttributeError),
    ("L.get_submodule('weight')", AttributeError),
    ("L.get_parameter('q')", AttributeError),
    ("L.get_buffer('weight')", AttributeError),
    ("nn.Sequential(L)[3]", IndexError),
    ("nn.Sequential(L) + 3", ValueError),
    ("nn.Sequential(3)", TypeError),
    ("nn.ModuleDict(3)", TypeError),
    ("nn.ParameterList()()", RuntimeError),
    ("nn.Dropout(2)", ValueError),
    ("nn.Hardtanh(1, 1)", AssertionError),
    ("nn.Unflatten(1, 3)", TypeError),
    ("nn.Bilinear(0, 1, 1)", ValueError),
    ("nn.Embedding(3, 4, 5)", AssertionError),
    ("nn.init.calculate_gain('x')", ValueError),
    ("nn.init.xavier_uniform_(ad.zeros(3))", ValueError),
]


@pytest.mark.parametrize(("code", "error"), MESSAGES)
def test_bad_use_raises_pytorchs_class_and_text(code: str, error: type[Exception]) -> None:
    with pytest.raises(error) as ours:
        eval(code, {"ad": ad, "nn": nn, "L": nn.Linear(2, 3)})
    torch = pytest.importorskip("torch")
    with pytest.raises(error) as theirs:
        eval(code, {"ad": torch, "nn": torch.nn, "L": torch.nn.Linear(2, 3)})
    assert str(ours.value) == str(theirs.value)


MODULES = [
    "Sequential(nn.Linear(3, 4), nn.ReLU(), nn.ModuleList([nn.Linear(1, 1), nn.Linear(1, 1)]))",
    "ModuleDict({'a': nn.Tanh(), 'b': nn.Identity()})",
    "Sequential()",
    "ReLU(True)",
    "ReLU6()",
    "LeakyReLU(0.1, True)",
    "PReLU()",
    "ELU()",
    *("CELU(0.5)", "CELU(1.0, True)", "GLU()", "Hardshrink()", "Hardsigmoid()", "Hardswish(True)"),
    *("Mish(True)", "SELU()", "Softshrink(0.2)", "Tanhshrink()", "Threshold(0.1, 2, True)"),
    "GELU('tanh')",
    "SiLU()",
    "Softplus()",
    "Softmax(1)",
    "Hardtanh()",
    "Dropout()",
    "LayerNorm((2, 3), bias=False)",
    "Embedding(3, 4, -1)",
    "Flatten()",
    "Unflatten(1, (2, 2))",
    "Bilinear(2, 3, 4)",
    "CrossEntropyLoss()",
    "Linear(2, 3, False)",
    "ParameterList([ad.zeros(2, 3), ad.zeros(())])",
    "ParameterDict({'a': ad.zeros(2)})",
]


@pytest.mark.parametrize("code", MODULES)
def test_modules_print_and_start_as_pytorchs(code: str) -> None:
    torch = pytest.importorskip("torch")
    ad.manual_seed(0)
    ours = eval("nn." + code, {"nn": nn, "ad": ad})
    torch.manual_seed(0)
    theirs = eval("nn." + code, {"nn": torch.nn, "ad": torch})
    assert repr(ours) == repr(theirs)
    mine, other = ours.state_dict(), theirs.state_dict()
    assert list(mine) == list(other)
    for name in mine:
        theirs_flat = other[name].flatten().tolist()
        assert mine[name].flatten().tolist() == pytest.approx(theirs_flat, rel=3e-7), name


FORWARD = [
    "ReLU()",
    "ReLU6()",
    "LeakyReLU()",
    "PReLU()",
    "PReLU(4)",
    "ELU(2.0)",
    *("CELU(0.5)", "GLU()", "Hardshrink(0.2)", "Hardsigmoid()", "Hardswish()", "Mish()"),
    *("SELU()", "Softshrink(0.2)", "Tanhshrink()", "Threshold(0.1, 2.0)"),
    "GELU()",
    "GELU('tanh')",
    "SiLU()",
    "Tanh()",
    "Sigmoid()",
    "LogSigmoid()",
    "Softsign()",
    "Softplus(2.0)",
    "Softmax(1)",
    "LogSoftmax(-1)",
    "Hardtanh()",
    "Dropout(0.3)",
    "Dropout(1.0)",
    "LayerNorm(4)",
    "Flatten(0)",
    "Unflatten(-1, (2, -1))",
    "Identity()",
    "Linear(4, 3)",
    "Linear(4, 3, bias=False)",
]


def _values_and_gradients(lib, code: str, x: list, *targets: object) -> list:
    lib.manual_seed(3)
    module = eval("nn." + code, {"nn": lib.nn, "ad": lib})
    input = lib.tensor(x, requires_grad=True)
    result = module(input, *(lib.tensor(t) for t in targets))
    (result * result).sum().backward()
    grads = [p.grad.flatten().tolist() for p in module.parameters()]
    return [result.flatten().tolist(), input.grad.flatten().tolist(), *grads]


def _assert_close(ours: list, theirs: list) -> None:
    assert len(ours) == len(theirs)
    for mine, other in zip(ours, theirs, strict=True):
        # Absolute: under a sum of squares the gradient of a layer norm nearly cancels; there
        # PyTorch's float32 is 1.2e-6 off its own float64, ours 2e-7.
        assert mine == pytest.approx(other, rel=2e-5, abs=5e-6)


@pytest.mark.parametrize("code", FORWARD)
def test_layers_and_their_gradients_agree_with_pytorch(code: str) -> None:
    torch = pytest.importorskip("torch")
    x = torch.randn(3, 4, generator=torch.Generator().manual_seed(1)).mul(2).tolist()
    _assert_close(_values_and_gradients(ad, code, x), _values_and_gradients(torch, code, x))


LOSSES = [
    ("MSELoss({})", "real"),
    ("L1Loss({})", "real"),
    ("SmoothL1Loss(beta=0.3, {})", "real"),
    ("HuberLoss(delta=0.3, {})", "real"),
    ("BCEWithLogitsLoss({})", "real"),
    ("BCEWithLogitsLoss(pos_weight=ad.tensor([1.0, 2.0, 3.0, 4.0]), {})", "real"),
    ("CrossEntropyLoss({})", "class"),
    ("CrossEntropyLoss(weight=ad.tensor([1.0, 2.0, 3.0, 4.0]), ignore_index=2, {})", "class"),
    ("CrossEntropyLoss(label_smoothing=0.2, {})", "class"),
    ("CrossEntropyLoss({})", "real"),
    ("NLLLoss({})", "class"),
]


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize(("code", "target"), LOSSES)
def test_losses_and_their_gradients_agree_with_pytorch(
    code: str, target: str, reduction: str
) -> None:
    torch = pytest.importorskip("torch")
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(3, 4, generator=generator).tolist()
    t = torch.rand(3, 4, generator=generator).tolist() if target == "real" else [0, 3, 2]
    code = code.format(f"reduction={reduction!r}")
    _assert_close(_values_and_gradients(ad, code, x, t), _values_and_gradients(torch, code, x, t))


def test_bce_agrees_with_pytorch_and_refuses_what_is_no_probability() -> None:
    p = ad.tensor([0.1, 0.9, 0.0, 1.0], requires_grad=True)
    loss = nn.BCELoss()(p, ad.tensor([0.0, 1.0, 0.0, 1.0]))
    assert loss.item() == pytest.approx(0.0526803, rel=1e-5)
    with pytest.raises(RuntimeError, match="between 0 and 1"):
        nn.BCELoss()(ad.tensor([1.5]), ad.tensor([1.0]))


def test_embedding_looks_up_rows_and_skips_the_padding_gradient() -> None:
    table = nn.Embedding(5, 3, padding_idx=1)
    index = ad.tensor([[1, 2], [4, 4]])
    out = table(index)
    assert tuple(out.shape) == (2, 2, 3)
    out.sum().backward()
    assert table.weight.grad.sum(1).tolist() == [0.0, 0.0, 3.0, 0.0, 6.0]


INITIALISERS = [
    "uniform_(w, -1, 2)",
    "normal_(w)",
    "trunc_normal_(w)",
    "trunc_normal_(w, 1.0, 2.0, -1.0, 3.0)",
    "trunc_normal_(w, 0.0, 1.0, 1.0, 1.3)",
    "xavier_uniform_(w)",
    "xavier_normal_(w, 2.0)",
    "kaiming_uniform_(w)",
    "kaiming_normal_(w, mode='fan_out')",
    "constant_(w, 3.0)",
    "eye_(w)",
]


@pytest.mark.filterwarnings("ignore:mean is more than 2 std")
@pytest.mark.parametrize("code", INITIALISERS)
def test_initialisers_draw_pytorchs_numbers(code: str) -> None:
    torch = pytest.importorskip("torch")
    drawn = []
    for lib in (ad, torch):
        lib.manual_seed(5)
        w = lib.empty(6, 7)
        eval("init." + code, {"init": lib.nn.init, "w": w})
        drawn.append(w.flatten().tolist())
    assert drawn[0] == pytest.approx(drawn[1], rel=1e-6, abs=1e-7)


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 2)
        self.register_buffer("count", ad.tensor(0))
        self.register_buffer("scratch", ad.zeros(2), persistent=False)
        self.shared = self.linear

    def forward(self, x):
        return self.linear(x)


def test_members_are_listed_once_and_by_name() -> None:
    net = Net()
    assert [name for name, _ in net.named_parameters()] == ["linear.weight", "linear.bias"]
    assert [name for name, _ in net.named_buffers()] == ["count", "scratch"]
    assert [name for name, _ in net.named_modules()] == ["", "linear"]
    assert [name for name, _ in net.named_children()] == ["linear"]
    assert list(net.state_dict()) == [
        "count",
        "linear.weight",
        "linear.bias",
        "shared.weight",
        "shared.bias",
    ]
    assert net.get_parameter("linear.bias") is net.linear.bias
    assert "linear" in dir(net)


def test_state_loads_into_another_module() -> None:
    one, other = Net(), Net()
    assert repr(other.load_state_dict(one.state_dict())) == "<All keys matched successfully>"
    assert other.linear.weight.tolist() == one.linear.weight.tolist()
    assert other.linear.weight is not one.linear.weight
    keys = other.load_state_dict({"count": ad.tensor(3), "new": ad.tensor(1)}, strict=False)
    assert keys.unexpected_keys == ["new"] and "linear.bias" in keys.missing_keys
    assert other.count.item() == 3


@pytest.mark.parametrize("how", [copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))])
def test_copies_are_independent_and_complete(how) -> None:
    net = Net()
    twin = how(net)
    assert type(twin.linear.weight) is nn.Parameter and twin.linear.weight.requires_grad
    assert twin.shared is twin.linear
    with ad.no_grad():
        twin.linear.weight.zero_()
    assert net.linear.weight.abs().sum().item() > 0


def test_hooks_see_and_replace_arguments_and_results() -> None:
    layer = nn.Linear(2, 2)
    x = ad.ones(1, 2)
    before = layer.register_forward_pre_hook(lambda module, args: (args[0] * 0,))
    assert layer(x).tolist() == [layer.bias.tolist()]
    before.remove()
    with layer.register_forward_hook(lambda module, args, result: result * 0):
        assert layer(x).tolist() == [[0.0, 0.0]]
    assert layer(x).tolist() != [[0.0, 0.0]]


def test_casting_keeps_the_parameter_objects() -> None:
    net = Net()
    weight = net.linear.weight
    assert net.double() is net
    assert net.linear.weight is weight and weight.dtype == ad.float64
    assert net.count.dtype == ad.int64
    net.to(ad.float32)
    assert weight.dtype == ad.float32
    with pytest.raises(RuntimeError, match="CPU only"):
        net.to("cuda")


def test_training_mode_reaches_every_child() -> None:
    net = nn.Sequential(nn.Dropout(), nn.Sequential(nn.Dropout()))
    assert not net.eval()[1][0].training
    x = ad.ones(4)
    assert net(x) is x
    assert net.train()[1][0].training


def test_parameter_prints_and_is_a_leaf() -> None:
    p = nn.Parameter(ad.tensor([1.0, 2.0]))
    assert repr(p) == "Parameter containing:\ntensor([1., 2.], requires_grad=True)"
    assert p.is_leaf and isinstance(p, ad.Tensor)
    assert type(p * 2) is ad.Tensor


def test_sequences_of_modules_behave_as_lists() -> None:
    net = nn.Sequential(nn.ReLU(), nn.Tanh(), nn.Sigmoid())
    assert type(net[-1]) is nn.Sigmoid and len(net[:2]) == 2
    del net[0]
    assert list(net._modules) == ["0", "1"] and type(net[0]) is nn.Tanh
    net.insert(0, nn.ELU())
    assert [type(m).__name__ for m in net] == ["ELU", "Tanh", "Sigmoid"]
    modules = nn.ModuleList([nn.ReLU()])
    modules += [nn.Tanh()]
    modules.append(nn.ELU())
    assert type(modules.pop(0)) is nn.ReLU and len(modules) == 2


def test_gradients_are_clipped_and_flattened() -> None:
    layer = nn.Linear(3, 4)
    layer(ad.ones(2, 3)).sum().backward()
    assert nn.utils.clip_grad_norm_(layer.parameters(), 0.1).item() == pytest.approx(8.0)
    norm = sum(float((p.grad**2).sum()) for p in layer.parameters()) ** 0.5
    assert norm == pytest.approx(0.1, rel=1e-4)
    nn.utils.clip_grad_value_(layer.parameters(), 0.01)
    assert max(float(p.grad.max()) for p in layer.parameters()) == pytest.approx(0.01)
    vector = nn.utils.parameters_to_vector(layer.parameters())
    assert vector.numel() == 16
    nn.utils.vector_to_parameters(ad.zeros(16), layer.parameters())
    assert layer.weight.abs().sum().item() == 0.0


def test_functions_without_modules_agree_with_pytorch() -> None:
    torch = pytest.importorskip("torch")
    x = torch.randn(3, 4, generator=torch.Generator().manual_seed(1)).tolist()
    for call in (
        "F.pad(x, (1, 2, 0, 1), value=2.0)",
        "F.pad(x, (-1, 2))",
        "F.normalize(x)",
        "F.cosine_similarity(x, x + 1)",
        "F.one_hot(t.tensor([0, 2, 1]))",
        "F.softmin(x, 1)",
    ):
        ours = eval(call, {"F": nn.functional, "x": ad.tensor(x), "t": ad})
        theirs = eval(call, {"F": torch.nn.functional, "x": torch.tensor(x), "t": torch})
        assert ours.flatten().tolist() == pytest.approx(theirs.flatten().tolist(), rel=1e-5), call


def test_an_embedding_takes_torchs_options() -> None:
    torch = pytest.importorskip("torch")
    table = np.arange(6.0).reshape(3, 2)
    index = [0, 2, 2]
    options = {"max_norm": 2.0, "norm_type": 1.0, "scale_grad_by_freq": True}
    ours = nn.Embedding(3, 2, 1, _weight=ad.tensor(table), **options)
    theirs = torch.nn.Embedding(3, 2, 1, _weight=torch.tensor(table), **options)
    ours(ad.tensor(index)).sum().backward()
    theirs(torch.tensor(index)).sum().backward()
    np.testing.assert_allclose(ours.weight.grad.numpy(), theirs.weight.grad.numpy())
    np.testing.assert_allclose(ours.weight.detach().numpy(), theirs.weight.detach().numpy())
    assert repr(ours) == repr(theirs)
    assert repr(nn.Embedding(3, 2)) == "Embedding(3, 2)"


def test_hardtanh_takes_its_older_names_with_a_warning() -> None:
    with pytest.warns(FutureWarning, match="renamed to `min_val`"):
        layer = nn.Hardtanh(min_value=-2.0)
    assert (layer.min_val, layer.max_val) == (-2.0, 1.0)
