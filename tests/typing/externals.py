"""Externals that have to type-check: methods and evaluations as objects, and the short forms."""

from __future__ import annotations

from typing import Any

import adjoint as ad


def model(x: Any) -> Any:
    return x**2


slow = ad.Evaluation(workers=4, timeout=60, retries=1, progress=False)
whole = ad.external(model, derivative=ad.differences.Central(step=1e-3), evaluate=slow)
short = ad.external(model, derivative="central", step=1e-3, workers=4, timeout=60)
method: ad.differences.Method = ad.differences.Spsa(directions=4, seed=1)
count: int = method.evaluations(10)
ad.external(model, derivative="central", directions="many")  # type: ignore[arg-type]
ad.external(model, wokers=4)  # type: ignore[call-arg]
