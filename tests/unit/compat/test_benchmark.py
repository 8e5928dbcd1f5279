"""`utils.benchmark`: times of statements and tables of them."""

from __future__ import annotations

import math

import pytest

import adjoint as ad
from adjoint.utils import benchmark
from adjoint.utils.benchmark import Compare, Measurement, TaskSpec, Timer


def test_timeit_takes_one_time() -> None:
    calls: list[int] = []
    timer = Timer("f()", globals={"f": lambda: calls.append(1)}, label="calls")
    m = timer.timeit(50)
    assert (m.number_per_run, len(m.raw_times)) == (50, 1)
    assert len(calls) == 50 + 2  # two to warm up
    assert m.mean == m.median == m.times[0] == m.raw_times[0] / 50 > 0
    assert m.iqr == 0 and not m.has_warnings


def test_blocked_autorange_runs_as_long_as_asked() -> None:
    m = Timer("x + 1", globals={"x": ad.ones(3)}).blocked_autorange(min_run_time=0.01)
    assert sum(m.raw_times) >= 0.01 and m.number_per_run % 10 == 0 and 0 < m.median < 1e-3
    assert "runs per measurement" in repr(m) or "1 measurement," in repr(m)
    a = Timer("x + 1", globals={"x": ad.ones(3)}).adaptive_autorange(max_run_time=0.02)
    assert sum(a.raw_times) < 1


def test_the_statement_sees_globals_and_setup() -> None:
    Timer("y * n", setup="y = torch.ones(2)", globals={"n": 2}).timeit(2)
    Timer("\n    z = 1\n    z + 1\n").timeit(2)
    with pytest.raises(NameError):
        Timer("nowhere").timeit(2)


def test_threads_are_put_back() -> None:
    before = ad.get_num_threads()
    Timer("pass", num_threads=1).timeit(2)
    assert ad.get_num_threads() == before


def test_statistics_of_a_measurement() -> None:
    m = Measurement(2, [2.0, 4.0, 6.0, 8.0, 10.0], TaskSpec("s", "pass", label="L"))
    assert m.times == [1.0, 2.0, 3.0, 4.0, 5.0]
    assert (m.median, m.mean, m.iqr) == (3.0, 3.0, 2.0)
    assert m.has_warnings and "WARNING" in repr(m) and "IQR:    2.00 s (2.00 to 4.00)" in repr(m)
    assert m.label == "L" and m.title == "L" and m.env == "Unspecified env"
    assert m.significant_figures == 2
    with pytest.raises(AttributeError):
        _ = m.nonsense
    (merged,) = Measurement.merge([m, m])
    assert len(merged.times) == 10 and merged.median == 3.0


@pytest.mark.parametrize(
    ("seconds", "unit"), [(2.0, "s"), (3e-3, "ms"), (4e-6, "us"), (5e-9, "ns"), (1e-12, "ns")]
)
def test_units(seconds: float, unit: str) -> None:
    found, scale = benchmark.select_unit(seconds)
    assert found == unit and benchmark.unit_to_english(unit).endswith("second")
    assert math.isclose(scale, {"s": 1, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}[unit])


def test_digits_are_trimmed() -> None:
    assert benchmark.trim_sigfig(1234.5, 2) == 1200.0
    assert benchmark.trim_sigfig(0.012345, 3) == pytest.approx(0.0123)
    assert benchmark.trim_sigfig(0.0, 3) == 0.0


def test_the_table_has_rows_columns_and_threads() -> None:
    def measured(description: str, row: str, us: float, threads: int = 1) -> Measurement:
        spec = TaskSpec("x", "pass", "", "add", row, description, None, threads)
        return Measurement(1, [us * 1e-6], spec)

    compare = Compare(
        [measured("ours", "8x8", 1.25), measured("theirs", "8x8", 10.5), measured("ours", "64", 2)]
    )
    compare.extend_results([measured("ours", "8x8", 0.5 * 1e3, threads=2)])
    text = str(compare)
    lines = text.splitlines()
    assert lines[0].startswith("[---") and " add " in lines[0]
    assert "ours" in lines[1] and "theirs" in lines[1]
    assert lines[2].startswith("1 threads: ---")
    assert lines[3].split() == ["8x8", "|", "1.2", "|", "10.5"]
    assert lines[4].split() == ["64", "|", "2.0", "|"]
    assert lines[5].startswith("2 threads: ") and "500.0" in lines[6]
    assert "Times are in microseconds (us)." in text
    compare.trim_significant_figures()
    compare.highlight_warnings()
    compare.colorize()
    assert "Times are" in str(compare)
    with pytest.raises(ValueError, match="Measurement"):
        Compare([1])  # type: ignore[list-item]


def test_what_is_not_there_says_so() -> None:
    with pytest.raises(NotImplementedError, match="C\\+\\+"):
        Timer("x", language="c++")
    with pytest.raises(NotImplementedError, match="valgrind"):
        Timer("x").collect_callgrind()
    with pytest.raises(NotImplementedError, match="blocked_autorange"):
        Timer("x").repeat()
