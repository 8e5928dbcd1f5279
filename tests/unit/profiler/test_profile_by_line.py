"""`adjoint.profile`: times and bytes belong to the line and operation that took them."""

from __future__ import annotations

import inspect
import subprocess
import sys
import time
from pathlib import Path

import pytest

import adjoint as ad
from tests.children import ENVIRONMENT


def line_of(text: str) -> int:
    lines = Path(__file__).read_text(encoding="utf-8").splitlines()
    return next(i for i, line in enumerate(lines, 1) if text in line and "line_of" not in line)


def test_calls_are_counted_by_operation_and_line_in_both_directions() -> None:
    x = ad.ones(50, 50, requires_grad=True)
    with ad.profile() as p:
        for _ in range(4):
            y = x.exp()
            z = (y @ x).sum()  # the product
            z.backward()
    assert p.ops["exp"].count == 4 and p.ops["exp"].backward == 0
    product = p.lines[__file__, line_of("# the product")]
    assert product.forward > 0 and product.backward > 0
    inside = sum(row.seconds for row in p.rows)
    assert 0 < inside <= p.seconds and p.outside == pytest.approx(p.seconds - inside)
    forward = {row.op for row in p.rows if not row.backward}
    assert {"exp", "matmul", "sum"} <= forward | {"matmul"}
    assert any(row.op == "ExpBackward0" for row in p.rows if row.backward)


def test_what_runs_inside_is_not_counted_twice() -> None:
    class Slow(ad.autograd.Function):
        @staticmethod
        def forward(ctx: object, x: ad.Tensor) -> ad.Tensor:
            time.sleep(0.05)
            return x.exp().sin()

        @staticmethod
        def backward(ctx: object, g: ad.Tensor) -> ad.Tensor:
            return g

    with ad.profile() as p:
        Slow.apply(ad.ones(3, requires_grad=True))
    assert p.ops["Slow"].forward >= 0.05 and p.ops["exp"].forward < 0.05
    assert sum(row.seconds for row in p.rows) <= p.seconds


def test_bytes_are_those_that_stay() -> None:
    x = ad.ones(1000, requires_grad=True)
    with ad.profile() as p:
        y = x.exp()
    assert 4000 <= p.ops["exp"].bytes <= 8192 and y.shape == (1000,)


def test_a_compiled_function_is_profiled_by_its_instructions() -> None:
    f = ad.compile(lambda x: (x @ x).cumsum(0).sum())
    x = ad.ones(30, 30)
    for _ in range(2):
        f(x)
    with ad.profile() as p:
        f(x)
    assert any(op.startswith("compiled ") for op in p.ops)


def test_an_error_inside_ends_the_profile() -> None:
    with pytest.raises(ZeroDivisionError), ad.profile() as p:
        ad.ones(3).exp()
        1 / 0
    assert p.ops["exp"].count == 1
    with ad.profile() as again:
        pass
    assert again.rows == []


def test_only_one_profiler_runs_at_a_time() -> None:
    with ad.profile(), pytest.raises(RuntimeError, match="a profiler is running already"):
        ad.profile().start()
    with ad.profiler.profile(), pytest.raises(RuntimeError, match="a profiler is running already"):
        ad.profile().start()
    with pytest.raises(RuntimeError, match="the profile was not started"):
        ad.profile().stop()


def test_ending_it_in_the_middle_of_a_pass_is_harmless() -> None:
    p = ad.profile()
    x = ad.ones(3, requires_grad=True)
    y = x.exp()
    y.register_hook(lambda g: p.stop())
    p.start()
    y.sum().backward()
    assert x.grad is not None and p.seconds > 0


def test_short_calls_are_counted_to_the_last_one() -> None:
    x = ad.ones(3, requires_grad=True)
    with ad.profile() as p:
        for _ in range(500):
            y = x * 2.0  # counted
            (y + x.detach().exp()).sum()
    (row,) = [row for row in p.rows if row.line == line_of("# counted")]
    assert row.op == "mul" and row.count == 500 and 0 < row.seconds < p.seconds
    assert p.ops["exp"].count == p.ops["add"].count == p.ops["sum"].count == 500
    assert sum(row.seconds for row in p.rows) <= p.seconds


def test_calls_inside_of_short_nodes_are_counted_by_samples() -> None:
    x = y = ad.ones(3, requires_grad=True)
    for _ in range(4000):
        y = y.sin()
    loss = y.sum()
    with ad.profile() as p:
        loss.backward()
    assert p.ops["SinBackward0"].count == 4000
    assert p.ops["_mul_cos"].count == pytest.approx(4000, rel=0.2)
    assert p.ops["_mul_cos"].backward > 0 and x.grad is not None


def test_lines_that_look_like_markup_are_shown() -> None:
    parts = {"loss": ad.ones(3)}
    loss = "loss"
    with ad.profile() as p:
        parts[loss] * 2  # [/x]
    assert "parts[loss] * 2  # [/x]" in str(p)


def test_a_node_knows_how_long_its_call_took() -> None:
    x = ad.ones(300, 300, requires_grad=True)
    before = x.exp()
    with ad.profile():
        y = before @ before
        z = y + 1
    times = ad._core._forward_times([t.grad_fn for t in (before, y, z)])
    assert times[0] is None and times[1][0] > 0 and not times[1][1] and times[2][0] > 0
    with ad.profile():
        for _ in range(200):
            before = before[0, :3] * 2 if before.ndim > 1 else before * 2
    means = ad._core._forward_times([before.grad_fn, y.grad_fn])
    assert 0 < means[0][0] < 1 and means[1] is None


def test_the_page_stands_alone_and_names_lines(tmp_path: Path) -> None:
    x = ad.ones(200, 200, requires_grad=True)
    with ad.profile() as p:
        (x @ x).sum().backward()  # <the> line
    page = Path(p.save(tmp_path / "p.html")).read_text(encoding="utf-8")
    assert "# \\u003cthe> line" in page and "http://" not in page and "https://" not in page
    assert "forward" in str(p) and inspect.currentframe() is not None


def test_the_command_profiles_a_program(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(
        "import torch, sys\nx = torch.ones(9).exp()\nprint(sys.argv[1:])\nsys.exit(3)\n"
    )
    done = subprocess.run(
        [sys.executable, "-m", "adjoint", "profile", "--html", "p.html", "train.py", "--a", "b"],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env=ENVIRONMENT,
        check=False,
    )
    assert done.returncode == 3 and done.stdout == "['--a', 'b']\n"
    assert "train.py:2" in done.stderr and (tmp_path / "p.html").exists()
