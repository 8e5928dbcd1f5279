"""Random directions of the inputs and combinations of the outputs, fitted to their sizes."""

from __future__ import annotations

import numpy as np

from adjoint.autograd._gradcheck.numerical import CENTRAL
from adjoint.autograd._gradcheck.problem import Vector
from adjoint.autograd._gradcheck.projection import OUTPUT_SEED, draw

from ._line import levels
from ._subject import Subject

__all__ = ["combinations", "scales", "signs"]


def signs(subject: Subject, seed: int) -> Vector:
    """Random signs times ½ to 1."""
    return subject.x.join([draw(n, 1000 * seed + k) for k, n in enumerate(subject.x.sizes)])


def scales(subject: Subject) -> list[Vector]:
    """How far each coordinate moves for t = 1: its own size; and not less than what is typical.

    The first suits arrays whose elements differ by orders of magnitude, the second sees elements
    that happen to be small. Where they hardly differ there is only one.
    """
    own = np.abs(subject.at)
    typical = np.empty_like(own)
    for k in range(len(subject.inputs)):
        part = subject.x.part(k)
        used = own[part][(own[part] > 0) & np.isfinite(own[part])]
        typical[part] = float(np.exp(np.mean(np.log(used)))) if used.size else 1.0
    own = np.where((own > 0) & np.isfinite(own), own, typical)
    at_least = np.maximum(own, typical)
    return [own] if bool((at_least <= 10 * own).all()) else [own, at_least]


def combinations(subject: Subject, direction: Vector, seed: int) -> list[tuple[int, Vector]]:
    """Weights for each output; a second set where its elements change by different orders."""
    found: list[tuple[int, Vector]] = []
    t = 2.0 ** -(levels(subject.unit) // 3)
    _, right = subject.near(subject.at + t * direction)
    _, left = subject.near(subject.at - t * direction)
    with np.errstate(all="ignore"):
        change = np.abs(CENTRAL.combine((t, -t), (right, left), 0.0))
        one_sided = np.fmax(np.abs(right - subject.value), np.abs(left - subject.value)) / t
        change = np.where(np.isnan(change), one_sided, change)
    for k in range(len(subject.outputs)):
        part = subject.y.part(k)
        plain = draw(subject.y.sizes[k], OUTPUT_SEED + 1000 * seed + k)
        if plain.size == 1:
            plain = np.ones(1)
        found.append((k, plain))
        response = change[part]
        floor = 1e3 * subject.unit * np.abs(subject.value[part])
        response = np.maximum(np.nan_to_num(response, posinf=0.0), floor)
        used = response[response > 0]
        if used.size > 1 and used.max() > 100 * used.min():
            with np.errstate(divide="ignore", over="ignore"):
                balanced = np.where(response > 0, plain / response, 0.0)
            found.append((k, balanced * float(used.min())))
    return found
