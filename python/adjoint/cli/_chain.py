"""The demo's problem: a chain of masses and springs, seen through noise.

    wall --k0-- mass 0 --k1-- mass 1 -- ... -- mass n-1 --kn-- wall

Unknown are the stiffnesses, the initial positions and the initial velocities. `simulate` is plain
tensor code; the gradient through all its time steps comes from `backward()`.
"""

from __future__ import annotations

from dataclasses import dataclass

import adjoint as ad
from adjoint import Tensor

TIME_STEP = 0.05
TIME_STEPS = 200
NOISE = 0.02


@dataclass
class Chain:
    """What determines the motion: logarithms of the stiffnesses keep these positive."""

    log_stiffness: Tensor
    position: Tensor
    velocity: Tensor

    def unknowns(self) -> list[Tensor]:
        """The tensors, in order."""
        return [self.log_stiffness, self.position, self.velocity]

    def quantities(self) -> list[Tensor]:
        """Stiffnesses, positions and velocities, as a person reads them."""
        return [self.log_stiffness.exp(), self.position, self.velocity]


def simulate(chain: Chain, stretch: Tensor) -> Tensor:
    """Return the positions at every time step, one row each (semi-implicit Euler).

    `stretch` is the matrix that takes positions to the elongations of the springs.
    """
    stiffness = chain.log_stiffness.exp()
    # Force = -stretch^T (stiffness * (stretch @ x)): one matrix for the whole simulation.
    acceleration = -TIME_STEP * (stretch.t() @ (stiffness.unsqueeze(1) * stretch))
    position, velocity = chain.position, chain.velocity
    rows = []
    for _ in range(TIME_STEPS):
        velocity = velocity + acceleration @ position
        position = position + TIME_STEP * velocity
        rows.append(position)
    return ad.stack(rows)


def stretch_matrix(masses: int) -> Tensor:
    """Row i of the result gives the elongation of spring i: x[i] - x[i-1], the walls being at 0."""
    last = ad.zeros(1, masses)
    identity = ad.eye(masses)
    return ad.cat([identity, last]) - ad.cat([last, identity])


def true_chain(masses: int) -> Chain:
    """Draw the chain to be found, from the current random stream."""
    return Chain(
        log_stiffness=(1.0 + 3.0 * ad.rand(masses + 1)).log(),
        position=ad.randn(masses),
        velocity=ad.randn(masses),
    )


def first_guess(masses: int) -> Chain:
    """Equal springs, at rest: nothing of the truth is in it."""
    return Chain(
        log_stiffness=ad.full((masses + 1,), 2.0).log().requires_grad_(),
        position=ad.zeros(masses).requires_grad_(),
        velocity=ad.zeros(masses).requires_grad_(),
    )
