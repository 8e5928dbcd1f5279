"""What type checkers know of composites: results have the type of what went in.

Nothing here runs; `mypy --strict`, which reads this folder too, has to accept it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import assert_type

import adjoint as ad
from adjoint import Tensor
from adjoint.composite import Structure, Unravel, VectorSpace


@dataclass
class State(VectorSpace):
    position: Tensor
    velocity: Tensor


def structures(state: State, params: dict[str, Tensor]) -> None:
    assert_type(ad.requires_grad(state), State)
    assert_type(ad.grads(state), State)
    assert_type(ad.grads(params), dict[str, Tensor])
    assert_type(ad.detach(state), State)
    assert_type(ad.clone(state), State)
    assert_type(ad.to(state, ad.float64), State)
    assert_type(ad.map(lambda x: x, state), State)
    assert_type(ad.allclose(state, state), bool)
    assert_type(ad.autograd.grad(state.dot(state), state), State)
    assert_type(ad.autograd.grad(state.dot(state), params), dict[str, Tensor])
    vector, back = ad.ravel(state)
    assert_type(vector, Tensor)
    assert_type(back, Unravel[State])
    assert_type(back(vector), State)
    tensors, structure = ad.flatten(state)
    assert_type(tensors, list[Tensor])
    assert_type(structure, Structure[State])
    assert_type(ad.unflatten(structure, tensors), State)


def tensors(x: Tensor) -> None:
    assert_type(ad.clone(x), Tensor)
    assert_type(ad.detach(x), Tensor)
    assert_type(ad.flatten(x), Tensor)
    assert_type(ad.ravel(x), Tensor)
    assert_type(ad.unflatten(x, 0, (2, 3)), Tensor)
    assert_type(ad.autograd.grad(x.sum(), x), tuple[Tensor | None, ...])
    assert_type(ad.autograd.grad(x.sum(), [x, x]), tuple[Tensor | None, ...])


def vectors(state: State, rate: State, dt: float, scale: Tensor) -> None:
    assert_type(state + 0.5 * dt * rate, State)
    assert_type(-state / 2 - scale * rate, State)
    assert_type(state * scale, State)
    assert_type(state.dot(rate), Tensor)
    assert_type(state.norm(), Tensor)
    state += rate
    assert_type(state, State)
