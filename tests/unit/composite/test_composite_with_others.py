"""Custom functions, hooks, checkpoints, modes and gradcheck take and return composites."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

import adjoint as ad
from adjoint.utils.checkpoint import checkpoint


@dataclass
class State:
    x: Any
    inner: Any
    name: str = "s"


def make(dtype: Any = None) -> State:
    first = ad.tensor([1.0, 2.0], dtype=dtype)
    return ad.requires_grad(State(first, {"y": ad.tensor([3.0], dtype=dtype)}))


def step(state: State) -> State:
    return ad.map(lambda t: (t * t).sin(), state)


def total(state: State) -> Any:
    return state.x.sum() + state.inner["y"].sum()


class Step(ad.autograd.Function):
    @staticmethod
    def forward(ctx: Any, state: State) -> State:
        ctx.save_for_backward(*ad.flatten(state)[0])
        return step(state)

    @staticmethod
    def backward(ctx: Any, grad: State) -> State:
        x, y = ctx.saved_tensors
        here = State(x, {"y": y})
        return ad.map(lambda t, g: g * (t * t).cos() * 2 * t, here, grad)


def test_custom_functions_from_composite_to_composite() -> None:
    state = make()
    out = Step.apply(state)
    assert isinstance(out, State) and out.name == "s"
    ours = ad.autograd.grad(total(out), state)
    assert ad.allclose(ours, ad.autograd.grad(total(step(state)), state))


@pytest.mark.parametrize("reentrant", [False, True])
def test_checkpoints(reentrant: bool) -> None:
    state, plain = make(), make()
    out = checkpoint(step, state, use_reentrant=reentrant)
    assert isinstance(out, State) and out.name == "s"
    ad.backward(total(out))
    ad.backward(total(step(plain)))
    assert ad.allclose(ad.grads(state), ad.grads(plain))


def test_gradcheck_takes_composites_and_names_their_parts() -> None:
    state = make(ad.float64)
    assert ad.autograd.gradcheck(Step.apply, (state,))
    assert ad.autograd.gradcheck(step, state)

    class Wrong(Step):
        @staticmethod
        def backward(ctx: Any, grad: State) -> State:
            return ad.map(lambda g: g * 2, grad)

    with pytest.raises(RuntimeError, match=r"0\.x|0\.inner"):
        ad.autograd.gradcheck(Wrong.apply, (state,))


def test_multi_grad_hooks_get_composites() -> None:
    state = make()
    seen: list[Any] = []
    handle = ad.autograd.graph.register_multi_grad_hook(state, seen.append)  # type: ignore[arg-type]
    total(step(state)).backward()
    assert len(seen) == 1 and isinstance(seen[0], State)
    assert ad.allclose(seen[0], ad.grads(state))
    handle.remove()
    total(step(state)).backward()
    assert len(seen) == 1
    first: list[Any] = []
    ad.autograd.graph.register_multi_grad_hook(state, first.append, mode="any")  # type: ignore[arg-type]
    total(step(state)).backward()
    assert len(first) == 1 and isinstance(first[0], ad.Tensor)


def test_module_forward_hooks_see_composites() -> None:
    class Module(ad.nn.Module):
        def forward(self, state: State) -> State:
            return step(state)

    module, seen = Module(), []
    module.register_forward_pre_hook(lambda m, args: seen.append(args[0]))
    module.register_forward_hook(lambda m, args, out: ad.map(lambda t: t * 2, out))
    state = make()
    out = module(state)
    assert seen == [state] and isinstance(out, State)
    assert ad.allclose(out, ad.map(lambda t: t * 2, step(state)))


@pytest.mark.parametrize("mode", [ad.no_grad, ad.inference_mode])
def test_modes_as_decorators(mode: Any) -> None:
    out = mode()(step)(make())
    assert isinstance(out, State) and not out.x.requires_grad
    with ad.no_grad():
        assert ad.enable_grad()(step)(make()).x.requires_grad


def test_modules_in_composites_are_carried_along() -> None:
    net = ad.nn.Linear(1, 1)
    state = State(ad.ones(1), net)
    assert ad.clone(state).inner is net and ad.numel(state) == 1
