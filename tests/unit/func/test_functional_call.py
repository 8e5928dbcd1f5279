"""Modules as functions of their state: ``functional_call``, ``stack_module_state``, functorch's."""

from __future__ import annotations

import warnings
from typing import Any

import pytest

import adjoint as ad
from adjoint._functorch import make_functional as functorch
from adjoint.func import functional_call, grad, stack_module_state, vmap
from adjoint.nn.utils import stateless


class Scale(ad.nn.Module):
    """Has a parameter, a buffer that it assigns anew, and a child; the bias is tied."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = ad.nn.Linear(2, 1)
        self.factor = ad.nn.Parameter(ad.tensor(2.0))
        self.tied = self.layer.bias
        self.calls = ad.nn.Buffer(ad.tensor(0.0))

    def forward(self, x: ad.Tensor, *, extra: float = 0.0) -> ad.Tensor:
        self.calls = self.calls + 1
        return self.factor * self.layer(x) + self.tied + extra


def new_state() -> dict[str, ad.Tensor]:
    return {
        "layer.weight": ad.tensor([[1.0, 2.0]]),
        "layer.bias": ad.tensor([10.0]),
        "factor": ad.tensor(3.0),
    }


X = ad.tensor([1.0, 1.0])


def test_the_module_is_called_with_the_given_state_and_left_as_it_was() -> None:
    model = Scale()
    before = dict(model.named_parameters())
    assert functional_call(model, new_state(), X).item() == 3 * 13 + 10  # the tied bias too
    assert functional_call(model, new_state(), (X,), {"extra": 0.5}).item() == 49.5
    for name, parameter in model.named_parameters():
        assert parameter is before[name]
    assert model.calls.item() == 2  # it was not given: the module's own, which the calls changed


def test_what_is_not_given_is_the_module_s_own() -> None:
    model = Scale()
    result = functional_call(model, {"factor": ad.tensor(0.0)}, X)
    assert result.item() == pytest.approx(model.tied.item())


def test_a_buffer_that_is_assigned_anew_comes_back_in_the_dict() -> None:
    model = Scale()
    state = {"calls": ad.tensor(5.0)}
    functional_call(model, state, X)
    assert state["calls"].item() == 6
    assert model.calls.item() == 0


def test_several_dicts_are_joined_and_must_not_overlap() -> None:
    model = Scale()
    params, buffers = new_state(), {"calls": ad.tensor(1.0)}
    assert functional_call(model, (params, buffers), X).item() == 49
    assert functional_call(model, [params, buffers], X).item() == 49
    with pytest.raises(ValueError, match=r"\['factor'\] appeared in multiple dictionaries"):
        functional_call(model, (params, {"factor": ad.tensor(1.0)}), X)
    with pytest.raises(ValueError, match="elements of parameter_and_buffer_dicts to be dict"):
        functional_call(model, (params, 3), X)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="to be a dict, or a list/tuple of dicts"):
        functional_call(model, 3, X)  # type: ignore[arg-type]


def test_tied_names() -> None:
    model = Scale()
    bias = ad.tensor([1.0])
    with pytest.raises(
        ValueError, match=r"multiple values for keys \['layer.bias', 'tied'\], which are tied"
    ):
        functional_call(model, {"layer.bias": bias, "tied": ad.tensor([2.0])}, X)
    functional_call(model, {"layer.bias": bias, "tied": bias}, X)  # the same tensor: no question
    weights = {"layer.weight": ad.zeros(1, 2), "layer.bias": ad.tensor([1.0])}
    weights["factor"] = ad.tensor(1.0)
    loose = functional_call(model, weights, X, tie_weights=False)
    assert loose.item() == pytest.approx(1 + model.tied.item())
    two = functional_call(model, weights | {"tied": ad.tensor([5.0])}, X, tie_weights=False)
    assert two.item() == 6


def test_strict_names_what_is_missing_and_what_is_unknown() -> None:
    model = Scale()
    complete = new_state() | {"calls": ad.tensor(0.0)}
    functional_call(model, complete, X, strict=True)
    with pytest.raises(RuntimeError, match=r"Unexpected key\(s\): 'nothing'"):
        functional_call(model, complete | {"nothing": X}, X, strict=True)
    with pytest.raises(RuntimeError, match=r"Missing key\(s\): 'calls'"):
        functional_call(model, new_state(), X, strict=True)


def test_names_that_lead_nowhere_leave_the_module_whole() -> None:
    model = Scale()
    weight = model.layer.weight
    with pytest.raises(AttributeError, match="Scale has no attribute `nolayer`"):
        functional_call(model, {"layer.weight": ad.zeros(1, 2), "nolayer.weight": X}, X)
    assert model.layer.weight is weight
    with pytest.raises(TypeError, match=r"3 is not an instance of torch\.Tensor"):
        functional_call(model, {"factor": 3}, X)  # type: ignore[dict-item]
    with pytest.raises(TypeError, match="attribute `training`"):
        functional_call(model, {"training": X}, X)
    with pytest.raises(TypeError, match="expected a module"):
        functional_call(3, {}, X)  # type: ignore[arg-type]
    assert model.layer.weight is weight


def test_the_module_is_whole_again_after_an_error() -> None:
    model = Scale()
    factor = model.factor
    with pytest.raises(RuntimeError):
        functional_call(model, {"factor": ad.tensor(1.0)}, ad.ones(3))
    assert model.factor is factor


def test_gradients_by_the_given_state() -> None:
    model = Scale()

    def loss(state: dict[str, ad.Tensor]) -> ad.Tensor:
        return functional_call(model, state, X).sum()

    gradient = grad(loss)(new_state())
    assert gradient["factor"].item() == 13
    assert gradient["layer.bias"].item() == 4  # 3 by the layer, 1 by the tied name
    assert all(p.grad is None for p in model.parameters())


def test_the_old_address_says_that_it_has_moved() -> None:
    with pytest.warns(FutureWarning, match=r"Please use `torch.func.functional_call`"):
        result = stateless.functional_call(Scale(), new_state(), X)
    assert result.item() == 49


# --- ensembles ----------------------------------------------------------------------------------
def test_an_ensemble_under_vmap_is_the_models_one_by_one() -> None:
    models = [ad.nn.Sequential(ad.nn.Linear(2, 3), ad.nn.BatchNorm1d(3)).eval() for _ in range(4)]
    x = ad.randn(5, 2)
    params, buffers = stack_module_state(models)
    assert all(p.requires_grad and p.is_leaf for p in params.values())
    assert params["0.weight"].shape == (4, 3, 2)
    assert buffers["1.running_mean"].shape == (4, 3)

    def call(params: Any, buffers: Any) -> ad.Tensor:
        return functional_call(models[0], (params, buffers), x)

    expected = ad.stack([m(x) for m in models])
    ad.testing.assert_close(vmap(call)(params, buffers), expected)
    func, stacked, state = functorch.combine_state_for_ensemble(models)
    ad.testing.assert_close(vmap(func, in_dims=(0, 0, None))(stacked, state, x), expected)
    assert not stacked[0].requires_grad


@pytest.mark.parametrize(
    "combine", [stack_module_state, functorch.combine_state_for_ensemble], ids=["stack", "combine"]
)
def test_models_of_an_ensemble_must_be_alike(combine: Any) -> None:
    linear = [ad.nn.Linear(2, 2) for _ in range(2)]
    with pytest.raises(RuntimeError, match="Expected at least one model"):
        combine([])
    linear[1].eval()
    with pytest.raises(RuntimeError, match="same training/eval mode"):
        combine(linear)
    with pytest.raises(RuntimeError, match="models to be of the same class"):
        combine([linear[0], ad.nn.Identity()])


def test_an_ensemble_trains_all_or_nothing() -> None:
    models = [ad.nn.Linear(2, 2) for _ in range(2)]
    models[0].weight.requires_grad_(False)
    with pytest.raises(RuntimeError, match=r"weight from each model to have the same .requires"):
        stack_module_state(models)


# --- functorch's way ----------------------------------------------------------------------------
def test_make_functional_splits_a_copy() -> None:
    model = ad.nn.Linear(2, 1)
    func, params = functorch.make_functional(model)
    assert [p.requires_grad for p in params] == [True, True]
    assert params[0] is not model.weight
    ad.testing.assert_close(func(params, X), model(X))
    _, plain = functorch.make_functional(model, disable_autograd_tracking=True)
    assert not any(p.requires_grad for p in plain)
    with pytest.raises(RuntimeError, match="make_functional_with_buffers"):
        functorch.make_functional(ad.nn.BatchNorm1d(2))
    norm = ad.nn.BatchNorm1d(2).eval()
    call, weights, buffers = functorch.make_functional_with_buffers(norm)
    batch = ad.randn(3, 2)
    ad.testing.assert_close(call(weights, buffers, batch), norm(batch))


def test_models_are_drawn_with_their_functions() -> None:
    weights, call, names = functorch.functional_init(ad.nn.Linear)(2, 3)
    assert names == ("weight", "bias")
    assert call(weights, X).shape == (3,)
    weights, call, _ = functorch.functional_init(ad.nn.Linear, (4,))(2, 3)
    assert vmap(call)(weights, (ad.ones(4, 2),)).shape == (4, 3)
    drawn = functorch.functional_init_with_buffers(ad.nn.BatchNorm1d, (4,))(2)
    assert [len(part) for part in (drawn[0], drawn[1], drawn[3], drawn[4])] == [2, 3, 2, 3]
    with pytest.raises(ValueError, match="more than 1 element"):
        functorch.functional_init(ad.nn.Linear, (2, 2))(2, 3)
    with pytest.raises(ValueError, match="should be > 0"):
        functorch.functional_init(ad.nn.Linear, (0,))(2, 3)


def test_functorch_names_work_and_say_that_they_have_moved() -> None:
    from adjoint import functorch as old

    for name in ("vmap", "grad", "jacrev", "jacfwd", "hessian", "grad_and_value", "functionalize"):
        with pytest.warns(FutureWarning, match="Please use `torch"):
            getattr(old, name)(ad.sin)
    with pytest.warns(FutureWarning):
        assert old.grad(ad.sin)(ad.tensor(0.0)).item() == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result = old.experimental.chunk_vmap(ad.sin, chunks=2)(ad.zeros(5, 2))
    assert result.shape == (5, 2)
    with pytest.raises(ValueError, match="chunks should be greater than 0"):
        old.experimental.chunk_vmap(ad.sin, chunks=0)


def test_functionalize_calls_the_function() -> None:
    func = ad.func.functionalize(lambda x: x.clone().mul_(2), remove="mutations_and_views")
    assert func(ad.ones(2)).tolist() == [2, 2]
    with pytest.raises(RuntimeError, match="invalid argument for remove=views"):
        ad.func.functionalize(ad.sin, remove="views")


def test_batch_norms_forget_what_vmap_could_not_keep() -> None:
    net = ad.nn.Sequential(ad.nn.Linear(2, 3), ad.nn.BatchNorm1d(3))
    assert ad.func.replace_all_batch_norm_modules_(net) is net
    assert not list(net.buffers())
    params = dict(net.named_parameters())

    def loss(params: Any, x: ad.Tensor) -> ad.Tensor:
        return functional_call(net, params, (x,)).square().sum()

    x = ad.randn(4, 5, 2)
    each = vmap(grad(loss), in_dims=(None, 0))(params, x)
    one = grad(loss)(params, x[1])
    for name, gradient in one.items():
        ad.testing.assert_close(each[name][1], gradient)


def test_restore_vmap_tells_what_the_samples_share() -> None:
    from adjoint._functorch.vmap import restore_vmap

    def func(x: Any, y: ad.Tensor) -> dict[str, Any]:
        return {"a": x[0] + x[1], "b": 3 * y, "c": None}

    x0, x1, y = ad.randn(2, 3), ad.randn(2), ad.randn(4)
    out, dims = restore_vmap(func, ((0, 0), None), 2, "error")((x0, x1), y)
    assert dims == {"a": 0, "b": None, "c": None}
    ad.testing.assert_close(out["a"], x0 + x1[:, None])
    ad.testing.assert_close(out["b"], 3 * y)
