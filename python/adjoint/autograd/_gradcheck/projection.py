"""Random vectors for projections of Jacobians."""

from __future__ import annotations

import numpy as np

from .problem import Vector

# Directions of inputs are drawn with seeds from 0, weights of outputs with seeds from here.
OUTPUT_SEED = 1_000_000


def draw(size: int, seed: int) -> Vector:
    """Random signs times ½ to 1, so that no entry of a Jacobian is left out or counts for little.

    A generator of its own: the caller's random stream is left where it is.
    """
    generator = np.random.default_rng((20240229, seed))
    drawn: Vector = generator.uniform(0.5, 1.0, size) * generator.choice((-1.0, 1.0), size)
    return drawn
