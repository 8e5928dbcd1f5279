"""Pictures: what they show is what happened; without matplotlib they say what is missing."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

import adjoint as ad

PNG = b"\x89PNG\r\n\x1a\n"


def small_net() -> ad.nn.Module:
    ad.manual_seed(0)
    return ad.nn.Sequential(ad.nn.Linear(2, 4), ad.nn.Tanh(), ad.nn.Linear(4, 1))


def test_norms_are_those_of_the_gradients_after_each_pass() -> None:
    net = small_net()
    seen = ad.plot.gradients(net)
    expected: dict[str, list[float]] = {name: [] for name, _ in net.named_parameters()}
    for scale in (1.0, 2.0, 3.0):
        net.zero_grad()
        (scale * net(ad.ones(5, 2))).square().mean().backward()
        for name, p in net.named_parameters():
            assert p.grad is not None
            expected[name].append(float(p.grad.norm()))
    assert seen.norms == expected


def test_a_pass_that_does_not_reach_a_parameter_is_a_gap_in_its_curve() -> None:
    a, b = ad.nn.Linear(1, 1, bias=False), ad.nn.Linear(1, 1, bias=False)
    seen = ad.plot.gradients(ad.nn.ModuleList([a, b]))
    x = ad.ones(1, 1)
    a(x).sum().backward()
    b(x).sum().backward()  # the first that is reached here was not in the pass before
    (a(x) + b(x)).sum().backward()
    seen.stop()
    a(x).sum().backward()
    first, second = seen.norms["0.weight"], seen.norms["1.weight"]
    assert [math.isnan(v) for v in first] == [False, True, False]
    assert [math.isnan(v) for v in second] == [True, False, False]


def test_a_model_without_parameters_has_no_gradients_to_plot() -> None:
    with pytest.raises(ValueError, match="Tanh has no parameter that requires a gradient"):
        ad.plot.gradients(ad.nn.Tanh())
    with pytest.raises(TypeError, match="expected a Module, got int"):
        ad.plot.gradients(3)  # type: ignore[arg-type]


def test_the_peak_of_memory_and_the_lines_that_hold_it() -> None:
    x = ad.ones(100_000, requires_grad=True)

    def f(x: ad.Tensor) -> ad.Tensor:
        kept = x.exp()
        y = kept * x
        z = y.sin()
        del y, z
        return (kept * kept).sum()

    seen = ad.plot.memory(f, x)
    size = 4 * x.numel()
    assert seen.moments[0].bytes == 0
    assert 3 * size <= seen.peak.bytes <= 5 * size
    assert sum(count for _, count in seen.lines) <= seen.peak.bytes
    assert all(f.__code__.co_filename in line for line, _ in seen.lines)
    assert any(moment.backward for moment in seen.moments)
    assert not any(m.backward for m in ad.plot.memory(f, x, backward=False).moments)


def test_a_function_without_operations_has_no_memory_to_plot() -> None:
    with pytest.raises(ValueError, match="ran no operation"):
        ad.plot.memory(lambda: None)


@pytest.mark.parametrize("sparse", [False, True])
def test_columns_of_one_colour_share_no_row(sparse: bool) -> None:
    n = 12
    J = ad.eye(n) + ad.eye(n).roll(1, 0) + ad.eye(n).roll(2, 1)
    seen = ad.plot.jacobian(J.to_sparse() if sparse else J)
    for colour in range(seen.count):
        mine = J.numpy()[:, seen.colours == colour] != 0
        assert (np.count_nonzero(mine, axis=1) <= 1).all()
    with pytest.raises(ValueError, match="J must be a matrix"):
        ad.plot.jacobian(ad.ones(3))


def test_pictures_are_written_and_shown_in_notebooks(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    net = small_net()
    norms = ad.plot.gradients(net)
    net(ad.ones(5, 2)).sum().backward()
    x = ad.ones(8, requires_grad=True)
    drawn = (norms, ad.plot.memory(lambda: x.exp().sum()), ad.plot.jacobian(ad.eye(3)))
    for number, picture in enumerate(drawn):
        assert picture._repr_png_().startswith(PNG)
        picture.save(tmp_path / f"{number}.svg")
        assert b"<svg" in (tmp_path / f"{number}.svg").read_bytes()
    report = ad.check(lambda x: x**3, ad.ones(2, dtype=ad.float64))
    assert len(report.plot().axes) == 4
