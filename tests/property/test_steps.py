"""A pass that is stepped through does what a plain one does, on random graphs with hooks."""

from __future__ import annotations

from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import adjoint as ad
from tests.property.test_graphs import leaves_of, losses, programs, run

moves = st.lists(st.sampled_from(["next", "back", "many", "to", "run"]), min_size=1, max_size=12)
relaxed = settings(
    max_examples=60, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)


def hooked(
    program: list[Any], seed: int, doubling: bool
) -> tuple[Any, list[Any], list[Any], list[str]]:
    """Loss, leaves and tensors of a program, and the log that hooks of every kind write."""
    machine = run(program, seed)
    log: list[str] = []
    for i, x in enumerate(machine.ours):
        if not x.requires_grad:
            continue
        scale = 2.0 if doubling and i % 3 == 0 else 1.0
        x.register_hook(lambda g, i=i, scale=scale: log.append(f"tensor {i}") or g * scale)
        if x.grad_fn is not None:
            x.grad_fn.register_prehook(lambda grads, i=i: log.append(f"pre {i}"))
            x.grad_fn.register_hook(lambda ins, outs, i=i: log.append(f"post {i}"))
            if i % 4 == 1:
                x.retain_grad()
        else:
            x.register_post_accumulate_grad_hook(lambda t, i=i: log.append(f"leaf {i}"))
    loss, _ = losses(machine)
    return loss, leaves_of(machine)[0], machine.ours, log


def wander(stepper: Any, script: list[str]) -> None:
    """Go on and back as the script says, then to the end."""
    for move in script:
        if move == "next":
            stepper.next()
        elif move == "back":
            stepper.back(2)
        elif move == "many":
            stepper.next(5)
        elif move == "to" and not stepper.done:
            stepper.run_to(stepper.waiting[-1][0])
        elif move == "run":
            stepper.break_on(zero=True)
            stepper.run()
    while not stepper.done:
        stepper.break_on(zero=False).run()


def grads_of(tensors: list[Any]) -> list[Any]:
    kept = [t for t in tensors if t.requires_grad and (t.is_leaf or t.retains_grad)]
    return [None if t.grad is None else t.grad.numpy().tobytes() for t in kept]


@relaxed
@given(programs, st.integers(0, 5), moves, st.booleans(), st.booleans(), st.booleans())
def test_gradients_are_the_same_and_every_hook_runs_once(
    program: list[Any], seed: int, script: list[str], keep: bool, doubling: bool, some: bool
) -> None:
    loss, leaves, tensors, log = hooked(program, seed, doubling)
    inputs = [leaves[0], leaves[2]] if some else None
    loss.backward(retain_graph=keep, inputs=inputs)
    again, leaves, stepped, other_log = hooked(program, seed, doubling)
    inputs = [leaves[0], leaves[2]] if some else None
    stepper = ad.step(again, retain_graph=keep, inputs=inputs)
    wander(stepper, script)
    assert other_log == log  # each once, and in the same order
    assert grads_of(stepped) == grads_of(tensors)
    ran = [step.node.index for step in stepper.history]
    assert len(set(ran)) == len(ran)
    if not some:
        assert len(ran) == len(stepper.graph)


@relaxed
@given(programs, st.integers(0, 5), st.integers(0, 30))
def test_an_abandoned_pass_leaves_a_graph_that_others_can_run(
    program: list[Any], seed: int, count: int
) -> None:
    """Also while it stands still in the middle."""
    loss, leaves, _, _ = hooked(program, seed, False)
    want = ad.autograd.grad(loss, leaves, retain_graph=True, allow_unused=True)
    stepper = ad.step(loss, retain_graph=True)
    stepper.next(count)
    meanwhile = ad.autograd.grad(loss, leaves, retain_graph=True, allow_unused=True)
    stepper.close()
    assert stepper.done
    afterwards = ad.autograd.grad(loss, leaves, allow_unused=True)
    for found in (meanwhile, afterwards):
        for g, w in zip(found, want, strict=True):
            assert (g is None) == (w is None)
            assert g is None or g.equal(w)
