"""Points where a derivative does not exist, and the value that stands for it.

Each entry: a name, what is differentiated (of the module `m`, adjoint or torch, and tensors a, b),
where, and the gradients, which are PyTorch's. tests/ops/test_kinks.py compares with adjoint and
with the table in docs/reference/kinks.md, tests/conformance/test_kinks.py with torch.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

INF = math.inf
NAN = math.nan


class Kink(NamedTuple):
    """The gradients of ``code`` with respect to its inputs, at ``at``."""

    name: str
    code: str
    at: list[Any]
    grads: list[Any]


def gradients(m: Any, kink: Kink) -> list[Any]:
    """What the module ``m`` computes, as numbers."""
    inputs = [m.tensor(x, dtype=m.float64, requires_grad=True) for x in kink.at]
    names = dict(zip("ab", inputs, strict=False))
    out = eval(kink.code, {"m": m, "inf": INF, **names})
    found = m.autograd.grad(out.sum(), inputs, allow_unused=True, materialize_grads=True)
    return [g.tolist() for g in found]


def same(got: Any, want: Any) -> bool:
    """Equal numbers, NaN included, in equal lists; the sign of a zero does not count."""
    if isinstance(want, list):
        return len(got) == len(want) and all(map(same, got, want))
    if math.isnan(want):
        return math.isnan(got)
    return got == want or math.isclose(got, want, rel_tol=1e-12)


KINKS = [
    Kink("abs at 0", "a.abs()", [0.0], [0.0]),
    Kink("sign anywhere", "a.sign()", [2.0], [0.0]),
    Kink("relu at 0", "a.relu()", [0.0], [0.0]),
    Kink("relu6 at its bounds", "m.nn.functional.relu6(a)", [[0.0, 6.0]], [[0.0, 0.0]]),
    Kink("leaky_relu at 0", "m.nn.functional.leaky_relu(a, 0.1)", [0.0], [0.1]),
    Kink("elu at 0", "m.nn.functional.elu(a)", [0.0], [1.0]),
    Kink("hardtanh at its bounds", "m.nn.functional.hardtanh(a)", [[-1.0, 1.0]], [[0.0, 0.0]]),
    Kink(
        "hardsigmoid at its bounds", "m.nn.functional.hardsigmoid(a)", [[-3.0, 3.0]], [[0.0, 0.0]]
    ),
    Kink("hardswish at its bounds", "m.nn.functional.hardswish(a)", [[-3.0, 3.0]], [[0.0, 1.0]]),
    Kink("softshrink at its bounds", "m.nn.functional.softshrink(a)", [[-0.5, 0.5]], [[0.0, 0.0]]),
    Kink("hardshrink at its bounds", "m.nn.functional.hardshrink(a)", [[-0.5, 0.5]], [[0.0, 0.0]]),
    Kink("threshold at its bound", "m.nn.functional.threshold(a, 1.0, 0.0)", [1.0], [0.0]),
    Kink("clamp at its bounds", "a.clamp(0.0, 1.0)", [[0.0, 1.0]], [[1.0, 1.0]]),
    Kink("clamp at a tensor bound", "m.clamp(a, min=b)", [1.0, 1.0], [1.0, 0.0]),
    Kink("maximum of equals", "m.maximum(a, b)", [1.0, 1.0], [0.5, 0.5]),
    Kink("minimum of equals", "m.minimum(a, b)", [1.0, 1.0], [0.5, 0.5]),
    Kink("fmax of equals", "m.fmax(a, b)", [1.0, 1.0], [1.0, 0.0]),
    Kink("fmin of equals", "m.fmin(a, b)", [1.0, 1.0], [1.0, 0.0]),
    Kink("fmax beside NaN", "m.fmax(a, b)", [1.0, NAN], [1.0, 0.0]),
    Kink("max of all, tied", "a.max()", [[2.0, 2.0, 1.0]], [[0.5, 0.5, 0.0]]),
    Kink("max along an axis, tied", "a.max(0).values", [[2.0, 2.0, 1.0]], [[1.0, 0.0, 0.0]]),
    Kink("min of all, tied", "a.min()", [[1.0, 1.0, 2.0]], [[0.5, 0.5, 0.0]]),
    Kink("amax, tied", "a.amax(0)", [[2.0, 2.0, 1.0]], [[0.5, 0.5, 0.0]]),
    Kink("amin, tied", "a.amin(0)", [[1.0, 1.0, 2.0]], [[0.5, 0.5, 0.0]]),
    Kink("aminmax, tied", "a.aminmax().max", [[2.0, 2.0, 1.0]], [[0.5, 0.5, 0.0]]),
    Kink("cummax, tied", "a.cummax(0).values.sum()", [[1.0, 1.0, 0.0]], [[1.0, 2.0, 0.0]]),
    Kink("cummin, tied", "a.cummin(0).values.sum()", [[1.0, 1.0, 2.0]], [[1.0, 2.0, 0.0]]),
    Kink("median, tied", "a.median()", [[1.0, 1.0, 2.0]], [[0.5, 0.5, 0.0]]),
    Kink("nanmedian, tied", "a.nanmedian()", [[1.0, NAN, 1.0, 2.0]], [[0.5, 0.0, 0.5, 0.0]]),
    Kink("sort, tied", "a.sort(stable=True).values[0]", [[1.0, 1.0, 2.0]], [[1.0, 0.0, 0.0]]),
    Kink("topk, tied", "a.topk(1).values.sum()", [[2.0, 2.0, 1.0]], [[1.0, 0.0, 0.0]]),
    Kink("quantile between equals", "a.quantile(0.5)", [[1.0, 1.0, 2.0]], [[0.0, 1.0, 0.0]]),
    Kink("logsumexp of equals", "a.logsumexp(0)", [[0.0, 0.0]], [[0.5, 0.5]]),
    Kink("logsumexp of -inf", "a.logsumexp(0)", [[-INF, -INF]], [[NAN, NAN]]),
    Kink("norm at 0", "a.norm()", [[0.0, 0.0]], [[0.0, 0.0]]),
    Kink("norm along an axis at 0", "a.norm(dim=0)", [[0.0, 0.0]], [[0.0, 0.0]]),
    Kink("1-norm at 0", "a.norm(1)", [[0.0, 1.0]], [[0.0, 1.0]]),
    Kink("3-norm at 0", "a.norm(3)", [[0.0, 0.0]], [[0.0, 0.0]]),
    Kink("maximum norm, tied", "a.norm(inf)", [[1.0, -1.0]], [[0.5, -0.5]]),
    Kink("maximum norm at 0", "a.norm(inf)", [[0.0, 0.0]], [[0.0, 0.0]]),
    Kink("dist at 0", "m.dist(a, b)", [[1.0], [1.0]], [[0.0], [-0.0]]),
    Kink("cdist at 0", "m.cdist(a, b)", [[[1.0]], [[1.0]]], [[[0.0]], [[0.0]]]),
    Kink("sqrt at 0", "a.sqrt()", [0.0], [INF]),
    Kink("rsqrt at 0", "a.rsqrt()", [0.0], [-INF]),
    Kink("log at 0", "a.log()", [0.0], [INF]),
    Kink("reciprocal at 0", "a.reciprocal()", [0.0], [-INF]),
    Kink("pow: 0 to the 0", "a ** 0", [0.0], [0.0]),
    Kink("pow: 0 to the 0, a tensor", "a ** b", [0.0, 0.0], [0.0, 0.0]),
    Kink("pow: 0 to the 2, a tensor", "a ** b", [0.0, 2.0], [0.0, 0.0]),
    Kink("pow: 0 to the 1/2", "a ** 0.5", [0.0], [INF]),
    Kink("pow: 0 to the -1", "a ** b", [0.0, -1.0], [-INF, -INF]),
    Kink("pow: a negative base", "a ** b", [-2.0, 2.0], [-4.0, NAN]),
    Kink("xlogy at 0, 0", "m.xlogy(a, b)", [0.0, 0.0], [0.0, NAN]),
    Kink("xlogy at 0", "m.xlogy(a, b)", [0.0, 2.0], [0.6931471805599453, 0.0]),
    Kink("atan2 at 0, 0", "m.atan2(a, b)", [0.0, 0.0], [0.0, -0.0]),
    Kink("hypot at 0, 0", "m.hypot(a, b)", [0.0, 0.0], [NAN, NAN]),
    Kink("asin at 1", "a.asin()", [1.0], [INF]),
    Kink("acosh at 1", "a.acosh()", [1.0], [INF]),
    Kink("atanh at 1", "a.atanh()", [1.0], [INF]),
    Kink("prod with one zero", "a.prod()", [[0.0, 2.0, 3.0]], [[6.0, 0.0, 0.0]]),
    Kink("prod with two zeros", "a.prod()", [[0.0, 0.0, 3.0]], [[0.0, 0.0, 0.0]]),
    Kink("cumprod with a zero", "a.cumprod(0).sum()", [[2.0, 0.0, 3.0]], [[1.0, 8.0, 0.0]]),
    Kink("std of equals", "a.std()", [[1.0, 1.0]], [[0.0, 0.0]]),
    Kink("var of equals", "a.var()", [[1.0, 1.0]], [[0.0, 0.0]]),
    Kink("floor, ceil, round, trunc", "a.floor() + a.ceil() + a.round() + a.trunc()", [1.0], [0.0]),
    Kink("frac at an integer", "a.frac()", [1.0], [1.0]),
    Kink("remainder at a multiple", "m.remainder(a, b)", [4.0, 2.0], [1.0, -2.0]),
    Kink("fmod at a multiple", "m.fmod(a, b)", [4.0, 2.0], [1.0, -2.0]),
    Kink("copysign at 0", "m.copysign(a, b)", [0.0, 1.0], [0.0, 0.0]),
    Kink("where on the boundary", "m.where(a > 0, a, -a)", [0.0], [-1.0]),
    Kink("sinc at 0", "a.sinc()", [0.0], [0.0]),
    Kink("nan_to_num of NaN", "a.nan_to_num()", [[NAN, INF, 1.0]], [[0.0, 0.0, 1.0]]),
    Kink("l1_loss at 0", "m.nn.functional.l1_loss(a, b)", [1.0, 1.0], [0.0, -0.0]),
    Kink(
        "smooth_l1_loss at its joint",
        "m.nn.functional.smooth_l1_loss(a, b)",
        [1.0, 0.0],
        [1.0, -1.0],
    ),
    Kink("huber_loss at its joint", "m.nn.functional.huber_loss(a, b)", [1.0, 0.0], [1.0, -1.0]),
    Kink("logaddexp of equals", "m.logaddexp(a, b)", [0.0, 0.0], [0.5, 0.5]),
    Kink("logaddexp of -inf", "m.logaddexp(a, b)", [-INF, -INF], [NAN, NAN]),
    Kink("complex abs at 0", "m.complex(a, b).abs()", [0.0, 0.0], [0.0, 0.0]),
    Kink("complex angle at 0", "m.complex(a, b).angle()", [0.0, 0.0], [0.0, 0.0]),
    Kink("renorm at its bound", "a.renorm(2, 0, 5.0)", [[[3.0, 4.0]]], [[[1.0, 1.0]]]),
    Kink(
        "normalize at 0",
        "m.nn.functional.normalize(a, dim=0).sum()",
        [[0.0, 0.0]],
        [[1000000000000.0, 1000000000000.0]],
    ),
]
