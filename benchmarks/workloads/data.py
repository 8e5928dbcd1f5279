"""Inputs: the same numbers for every library, whatever its random streams."""

from __future__ import annotations

from typing import Any

import numpy as np


def normal(lib: Any, *shape: int, seed: int = 0, grad: bool = False, scale: float = 1.0) -> Any:
    """Return a float32 tensor of normal deviates."""
    values = np.random.default_rng(seed).standard_normal(shape).astype(np.float32)
    return lib.from_numpy(values * np.float32(scale)).requires_grad_(grad)
