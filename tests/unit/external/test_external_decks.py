"""Programs with input decks, parsers of their outputs, kept runs."""

from __future__ import annotations

import json
import sys

import numpy as np
import pytest

import adjoint as ad
from adjoint.external import parsers


def float64(values, **options):
    return ad.tensor(values, dtype=ad.float64, **options)


MODEL = """
import json, pathlib, sys
lines = pathlib.Path("case.inp").read_text().splitlines()
deck = dict(line.split("=") for line in lines if "=" in line)
k = float(deck["stiffness"]); x = [float(v) for v in deck["load"].split()]
print("iteration 1 energy = 9.9")
print("iteration 2 energy = %.17E" % (0.5 * k * sum(v * v for v in x)))
with open("field.dat", "w") as file:
    file.write("# time  u\\n")
    for i, v in enumerate(x):
        file.write(f"{i} {(v / k)!r}  # a remark\\n")
pathlib.Path("out.json").write_text(json.dumps({"results": [{"norm": sum(x)}]}))
"""


@pytest.fixture
def program(tmp_path):
    (tmp_path / "model.py").write_text(MODEL)
    (tmp_path / "case.inp").write_text("stiffness={{k:.17g}}\nload={{x}}\nfirst={{ x[0] }}\n")
    return tmp_path


def spring(program, **options):
    return ad.command(
        [sys.executable, str(program / "model.py")],
        inputs=["k", "x"],
        templates=program / "case.inp",
        outputs={
            "energy": parsers.regex(r"energy = (\S+)"),
            "u": parsers.columns("field.dat", "u", skip=1),
            "norm": parsers.json_path("results.0.norm", "out.json"),
        },
        **options,
    )


def test_a_deck_goes_in_and_parsed_results_come_out(program):
    f = ad.external(spring(program))
    k, x = float64(2.0, requires_grad=True), float64([1.0, 3.0], requires_grad=True)
    found = f(k, x)
    assert found["energy"].item() == 10.0 and found["norm"].item() == 4.0
    np.testing.assert_array_equal(found["u"].detach().numpy(), [0.5, 1.5])
    (found["energy"] + found["u"].sum()).backward()
    assert k.grad.item() == pytest.approx(5.0 - 1.0, rel=1e-6)
    np.testing.assert_allclose(x.grad.numpy(), [2.5, 6.5], rtol=1e-6)


def test_each_file_has_its_format(tmp_path):
    code = (
        "import sys, json, numpy as np; a = np.load(sys.argv[1]); b = json.load(open(sys.argv[2]));"
        "np.savetxt(sys.argv[3], a * b['k'], delimiter=','); np.save(sys.argv[4], a + b['k'])"
    )
    f = ad.command(
        [sys.executable, "-c", code, "{input_a}", "{input_b}", "{output_c}", "{output_d}"],
        inputs=["a", "b"],
        outputs=["c", "d"],
        format={"a": "npy", "b": "json", "c": "csv"},
    )
    c, d = f(np.array([1.0, 2.0]), {"k": 3.0})
    np.testing.assert_array_equal(c, [3.0, 6.0])
    np.testing.assert_array_equal(d, [4.0, 5.0])
    with pytest.raises(ValueError, match="format= names 'z'; the files are"):
        ad.command(["model"], format={"z": "npy"})
    with pytest.raises(ValueError, match="format= is one of"):
        ad.command(["model"], format={"input": "xml"})


def test_runs_are_kept_and_read_again(program):
    runs = program / "runs"
    f = spring(program, keep=runs)
    first = f(2.0, np.array([1.0, 3.0]))
    (kept,) = runs.glob("run-*")
    assert "stiffness=2" in (kept / "case.inp").read_text()
    assert "iteration 2" in (kept / "stdout.txt").read_text()
    (line,) = (runs / "journal.jsonl").read_text().splitlines()
    assert json.loads(line)["ok"] and json.loads(line)["run"] == kept.name

    resumed = spring(program, keep=runs, resume=True)
    again = resumed(2.0, np.array([1.0, 3.0]))
    assert again["energy"] == first["energy"]
    assert len((runs / "journal.jsonl").read_text().splitlines()) == 1  # nothing ran
    resumed(2.5, np.array([1.0, 3.0]))
    assert len((runs / "journal.jsonl").read_text().splitlines()) == 2
    (program / "model.py").write_text(MODEL.replace("0.5 *", "1.5 *"))  # another program
    assert spring(program, keep=runs, resume=True)(2.0, np.array([1.0, 3.0]))["energy"] == 30.0


def test_a_run_that_failed_is_kept_and_made_again(tmp_path):
    flag, runs = tmp_path / "flag", tmp_path / "runs"
    code = (
        f"import pathlib, sys; flag = pathlib.Path({str(flag)!r}); there = flag.exists();"
        "flag.touch(); pathlib.Path('trace').write_text('x');"
        "print(1.5) if there else sys.exit('no licence')"
    )
    f = ad.command([sys.executable, "-c", code], format="text", keep=runs, resume=True)
    with pytest.raises(ad.external.CommandError, match="no licence"):
        f(1.0)
    (failed,) = runs.glob("run-*-failed")
    assert (failed / "trace").exists() and "no licence" in (failed / "stderr.txt").read_text()
    assert f(1.0) == 1.5 and f(1.0) == 1.5
    told = [json.loads(line)["ok"] for line in (runs / "journal.jsonl").read_text().splitlines()]
    assert told == [False, True]


def test_gradients_on_workers_leave_every_run(program):
    runs = program / "runs"
    f = ad.external(spring(program, keep=runs, resume=True), workers=2, probe=False, verify=False)
    try:
        k = float64(2.0, requires_grad=True)
        f(k, np.array([1.0, 3.0]))["energy"].backward()
        assert k.grad.item() == pytest.approx(5.0, rel=1e-6)
    finally:
        f.close()
    assert len(list(runs.glob("run-*"))) == 3  # the call and a pair; the repeat is read
    assert not list(runs.glob(".run*"))


# --- parsers --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("parser", "data", "wanted"),
    [
        (parsers.regex(r"cd = (\S+)"), b"cd = 1\ncd = 1.5D-03\n", 1.5e-3),
        (parsers.regex(r"^cd (\S+)", every=True), b"cd 1\nx cd 7\ncd 2.5-103\n", [1.0, 2.5e-103]),
        (parsers.columns(), b"1 2\n# no\n3 4\n", [[1, 2], [3, 4]]),
        (parsers.columns(use=1, delimiter=","), b"1,2\n3,4\n", [2, 4]),
        (parsers.columns(use=["b", "a"], skip=2), b"title\n# a b\n1 2\n3 4\n", [[2, 1], [4, 3]]),
        (parsers.json_path("a.b.1"), b'{"a": {"b": [1, [2, 3]]}}', [2, 3]),
        (parsers.json_path("$.a[1]['b.c'][0]"), b'{"a": [1, {"b.c": [4, 5]}]}', 4),
    ],
)
def test_what_parsers_read(parser, data, wanted):
    np.testing.assert_array_equal(parser.read(data), wanted)


@pytest.mark.parametrize(
    ("parser", "message"),
    [
        (parsers.regex(r"lift = (\S+)"), r"y could not be read from standard output: .*nowhere"),
        (parsers.columns("none.dat"), "y could not be read from none.dat: it wrote no none.dat"),
        (parsers.json_path("a"), "y could not be read from standard output"),
        (parsers.columns(use="b"), "there is no column 'b' among none"),
    ],
)
def test_what_cannot_be_read_is_told_with_what_there_is(parser, message):
    f = ad.command([sys.executable, "-c", "print(1.0)"], outputs={"y": parser}, format="text")
    with pytest.raises(ad.external.CommandError, match=message):
        f(1.0)


def test_a_table_with_other_marks_says_how_it_is_read():
    with pytest.raises(ValueError, match=r"delimiter=',', skip= .* 0 now"):
        parsers.columns().read(b"t,u\n0,2\n")
    with pytest.raises(ValueError, match=r"fix: skip= .* 0 now"):
        parsers.columns().read(b"t u\n0 2\n")


def test_decks_and_parsers_that_make_no_sense_are_refused(tmp_path):
    deck = tmp_path / "deck.inp"
    deck.write_text("{{k}} {{zeta}}")
    with pytest.raises(ValueError, match=r"names \{\{zeta\}\}; the inputs are k"):
        ad.command(["model"], inputs=["k"], templates=deck)
    with pytest.raises(ValueError, match="there is no file"):
        ad.command(["model"], templates=tmp_path / "none")
    with pytest.raises(TypeError, match="templates= takes a path"):
        ad.command(["model"], templates=3)
    with pytest.raises(ValueError, match="put one around the number"):
        parsers.regex("drag")
    with pytest.raises(TypeError, match="dict of names and parsers"):
        ad.command(["model"], outputs={"y": "drag"})
    with pytest.raises(ValueError, match="resume=True reads runs that were kept"):
        ad.command(["model"], resume=True)
