"""optim: the same losses as PyTorch's optimizers, step by step."""

from __future__ import annotations

import copy
import math

import pytest

import adjoint as ad
from adjoint import optim

OPTIMIZERS = [
    "SGD(w, 0.1)",
    "SGD(w, 0.05, momentum=0.9)",
    "SGD(w, 0.05, momentum=0.9, nesterov=True, weight_decay=0.1)",
    "SGD(w, 0.01, momentum=0.5, dampening=0.2, weight_decay=0.1)",
    "SGD(w, 1e-5, maximize=True)",
    "Adam(w, 0.1)",
    "Adam(w, 0.01, betas=(0.3, 0.5))",
    "Adam(w, 0.1, weight_decay=0.1, amsgrad=True)",
    "AdamW(w, 0.1, amsgrad=True)",
    "AdamW(w, 0.01, maximize=True)",
    "AdamW([{'params': w[:1], 'lr': 0.3}, {'params': w[1:]}], betas=(0.5, 0.9))",
    "Adadelta(w)",
    "Adadelta(w, 0.5, rho=0.7, weight_decay=0.1, maximize=True)",
    "Adagrad(w)",
    "Adagrad(w, 0.1, lr_decay=0.1, weight_decay=0.1, initial_accumulator_value=0.1)",
    "Adamax(w, 0.1)",
    "Adamax(w, weight_decay=0.1, maximize=True)",
    "ASGD(w)",
    "ASGD(w, 0.1, lambd=0.01, t0=20, weight_decay=0.1)",
    "NAdam(w, 0.1, weight_decay=0.1)",
    "NAdam(w, weight_decay=0.1, decoupled_weight_decay=True, momentum_decay=0.1)",
    "RAdam(w, 0.1, weight_decay=0.1)",
    "RAdam(w, betas=(0.8, 0.9), weight_decay=0.1, decoupled_weight_decay=True)",
    "RMSprop(w)",
    "RMSprop(w, 0.1, momentum=0.5, weight_decay=0.1)",
    "RMSprop(w, centered=True, maximize=True)",
    "RMSprop(w, centered=True, momentum=0.5)",
    "Rprop(w)",
    "Rprop(w, 0.1, etas=(0.3, 1.9), step_sizes=(1e-3, 0.5))",
    "Adafactor(w[::2])",
    "Adafactor(w, 0.1, weight_decay=0.1, eps=(1e-5, 1e-2))",
    "Muon(w[2:], 0.1)",
    "Muon(w[2:], nesterov=False, adjust_lr_fn='match_rms_adamw', weight_decay=0)",
]

# Sizes below and above the vector widths, and one that is not contiguous.
START = [[0.5, -1.5, 2.0], [0.1 * i - 1.7 for i in range(37)]]


def _train(lib, code: str, steps: int = 50):
    w = [
        lib.tensor(START[0], requires_grad=True),
        lib.tensor(START[1], dtype=lib.float64, requires_grad=True),
        lib.tensor([START[0], START[0]]).t().requires_grad_(),
    ]
    optimizer = eval("o." + code, {"o": lib.optim, "w": w})
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = (w[0].sin() * w[0]).sum() + (w[1] ** 2).sum().float() + (w[2] * w[2].exp()).sum()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses, optimizer


@pytest.mark.parametrize("code", OPTIMIZERS)
def test_fifty_steps_give_pytorchs_losses_and_state(code: str) -> None:
    torch = pytest.importorskip("torch")
    ours, mine = _train(ad, code)
    theirs, other = _train(torch, code)
    assert ours == pytest.approx(theirs, rel=1e-5, abs=1e-6)
    assert repr(mine) == repr(other)
    a, b = mine.state_dict(), other.state_dict()
    assert a["param_groups"] == b["param_groups"]
    assert {k: list(v) for k, v in a["state"].items()} == {
        k: list(v) for k, v in b["state"].items()
    }


@pytest.mark.parametrize("code", ["SGD([w], 0.1, momentum=0.9)", "Adam([w], 0.1, amsgrad=True)"])
def test_training_resumes_from_saved_state(code: str) -> None:
    def make(values: list[float]):
        w = ad.tensor(values, requires_grad=True)
        return w, eval("o." + code, {"o": optim, "w": w})

    def step(w, optimizer) -> None:
        optimizer.zero_grad()
        (w**2).sum().backward()
        optimizer.step()

    w, optimizer = make([1.0, -2.0, 3.0])
    for _ in range(5):
        step(w, optimizer)
    again, other = make(w.tolist())
    other.load_state_dict(copy.deepcopy(optimizer.state_dict()))
    for _ in range(5):
        step(w, optimizer)
        step(again, other)
    assert w.tolist() == again.tolist()


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("code", ["SGD([w], 0.1, momentum=0.9)", "Adam([w], 0.1)"])
def test_sixteen_bit_parameters_are_optimised_too(code: str, dtype: str) -> None:
    w = ad.tensor([1.0, -2.0], dtype=getattr(ad, dtype), requires_grad=True)
    optimizer = eval("o." + code, {"o": optim, "w": w})
    for _ in range(30):
        optimizer.zero_grad()
        (w * w).sum().backward()
        optimizer.step()
    assert w.abs().max().item() < 1.0


# Those with a loop, and any parameters at all.
ELEMENTWISE = [c for c in OPTIMIZERS if "w[" not in c and "Adafactor" not in c]


@pytest.mark.parametrize("code", ELEMENTWISE)
@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64"])
def test_loops_and_ops_compute_the_same(code: str, dtype: str) -> None:
    """Memory with gaps has no native loop; rounded alike, ops and loops give the same bits."""
    found = []
    for gaps in (False, True):
        ad.manual_seed(0)
        values = ad.randn(5, 14, dtype=getattr(ad, dtype))[:, ::2]
        w = values.requires_grad_() if gaps else values.contiguous().requires_grad_()
        optimizer = eval("o." + code, {"o": optim, "w": [w]})
        for _ in range(4):
            w.grad = ad.randn(5, 7, dtype=getattr(ad, dtype))
            version = w._version
            optimizer.step()
            assert w._version > version
        found.append([w.detach(), *optimizer.state[w].values()])
    for a, b in zip(*found, strict=True):
        assert ad.equal(a, b)


@pytest.mark.parametrize("code", ["Adam(w)", "RMSprop(w, centered=True, momentum=0.5)"])
def test_dense_memory_in_any_order_has_a_loop(code: str) -> None:
    ad.manual_seed(0)
    start, grad = ad.randn(5, 7), ad.randn(5, 7)
    found = []
    for w in (start.clone(), start.t().contiguous().t()):
        w.requires_grad_()
        w.grad = grad.t().contiguous().t() if not w.is_contiguous() else grad.clone()
        eval("o." + code, {"o": optim, "w": [w]}).step()
        found.append(w.detach())
    assert ad.equal(*found)


@pytest.mark.parametrize("code", ELEMENTWISE)
def test_complex_numbers_are_pairs(code: str) -> None:
    ad.manual_seed(0)
    z = ad.randn(5, dtype=ad.complex64, requires_grad=True)
    pair = ad.view_as_real(z.detach()).clone().requires_grad_()
    optimizers = [eval("o." + code, {"o": optim, "w": [w]}) for w in (z, pair)]
    for _ in range(3):
        z.grad = ad.randn(5, dtype=ad.complex64)
        pair.grad = ad.view_as_real(z.grad)
        for optimizer in optimizers:
            optimizer.step()
    assert ad.equal(ad.view_as_real(z.detach()), pair.detach())


def test_complex_parameters_keep_infinities_apart() -> None:
    w = ad.tensor([1 + 1j, 2 - 1j], requires_grad=True)
    optimizer = optim.SGD([w], 1.0, maximize=True)
    w.grad = ad.tensor([complex(math.inf, 1), 1j])
    optimizer.step()
    assert w.real.tolist() == [math.inf, 2.0]


def test_a_loop_is_exact_to_the_rounding_of_pytorchs() -> None:
    """Hundred steps with given gradients; PyTorch's own square root may be off in the last bit."""
    torch = pytest.importorskip("torch")
    exact = ["SGD(w, 0.01, momentum=0.9, weight_decay=0.1)", "ASGD(w, t0=20)", "Adamax(w)"]
    for code in (*exact, "Rprop(w)", "Adam(w)", "RAdam(w)", "NAdam(w, weight_decay=0.1)"):
        ad.manual_seed(0)
        grads = [ad.randn(1003) for _ in range(100)]
        ends = []
        for lib in (ad, torch):
            w = lib.tensor(grads[-1].tolist(), requires_grad=True)
            optimizer = eval("o." + code, {"o": lib.optim, "w": [w]})
            for grad in grads:
                w.grad = grad if lib is ad else torch.from_numpy(grad.numpy())
                optimizer.step()
            ends.append(ad.from_numpy(w.detach().numpy()))
        if code in exact and _has_fused_products(torch):
            assert ad.equal(*ends), code
        ad.testing.assert_close(*ends, rtol=3e-7, atol=3e-7)


def _has_fused_products(torch) -> bool:
    """Whether PyTorch rounds a product and a sum at once here, as adjoint's loops then do."""
    x, y = (torch.linspace(0.1, 1, 64) ** k for k in (1, 2))
    once = (x.double() + 0.3 * y.double()).float()
    return "AVX" in torch.backends.cpu.get_cpu_capability() and bool(
        (x.add(y, alpha=0.3) - once).abs().max() < 1e-7
    )


def test_tangents_go_through_a_step() -> None:
    with ad.autograd.forward_ad.dual_level():
        w = ad.zeros(2, requires_grad=True)
        w.grad = ad.autograd.forward_ad.make_dual(ad.ones(2), ad.tensor([1.0, 2.0]))
        optim.SGD([w], 0.5).step()
        assert w.tolist() == [-0.5, -0.5]
        assert ad.autograd.forward_ad.unpack_dual(w).tangent.tolist() == [-0.5, -1.0]


def test_a_step_count_is_one_number() -> None:
    w = ad.tensor([1.0], requires_grad=True)
    optimizer = optim.Adam([w])
    w.grad = ad.ones(1)
    optimizer.step()
    optimizer.state[w]["step"] = ad.zeros(0)
    with pytest.raises(ValueError, match="`step` must be one number, not a tensor of 0 elements"):
        optimizer.step()


def test_a_closure_is_evaluated_with_gradients_and_its_value_returned() -> None:
    w = ad.tensor([1.0], requires_grad=True)
    optimizer = optim.SGD([w], 0.1)

    def closure():
        optimizer.zero_grad()
        loss = (w**2).sum()
        loss.backward()
        return loss

    assert optimizer.step(closure).item() == 1.0
    assert w.item() == pytest.approx(0.8)


def test_hooks_run_around_a_step() -> None:
    w = ad.tensor([1.0], requires_grad=True)
    optimizer = optim.SGD([w], 0.1)
    seen: list[str] = []
    before = optimizer.register_step_pre_hook(lambda *_: seen.append("before"))
    optimizer.register_step_post_hook(lambda *_: seen.append("after"))
    optimizer.step()
    before.remove()
    optimizer.step()
    assert seen == ["before", "after", "after"]


def test_a_step_is_seen_by_the_graph_as_an_in_place_change() -> None:
    """A value saved for backward and then stepped over must not be used silently."""
    w = ad.tensor([1.0, 2.0], requires_grad=True)
    optimizer = optim.SGD([w], 0.1)
    loss = (w * w).sum()
    w.grad = ad.ones(2)
    optimizer.step()
    with pytest.raises(RuntimeError):
        loss.backward()


def test_parameters_without_a_gradient_are_left_alone() -> None:
    w, idle = ad.tensor([1.0], requires_grad=True), ad.tensor([5.0], requires_grad=True)
    optimizer = optim.Adam([w, idle])
    (w**2).sum().backward()
    optimizer.step()
    assert idle.item() == 5.0 and idle not in optimizer.state


def test_results_do_not_depend_on_the_number_of_threads() -> None:
    def train(threads: int) -> list[float]:
        ad.set_num_threads(threads)
        ad.manual_seed(0)
        w = ad.randn(100_003, requires_grad=True)
        optimizer = optim.Adam([w], 0.1)
        for _ in range(3):
            w.grad = w.detach().sin()
            optimizer.step()
        return w.tolist()

    before = ad.get_num_threads()
    try:
        assert train(1) == train(2)
    finally:
        ad.set_num_threads(before)
