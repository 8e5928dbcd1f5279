"""C libraries through ctypes, and executables through files and pipes."""

from __future__ import annotations

import math
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import adjoint as ad

C = r"""
#include <math.h>
double energy(int n, const double *x, double k) {
    double e = 0; for (int i = 0; i < n; i++) e += k * x[i] * x[i]; return e; }
void wave(const double *x, int n, double *y, double *total) {
    *total = 0; for (int i = 0; i < n; i++) { y[i] = sin(x[i]); *total += y[i]; } }
void halve(float *x, int n) { for (int i = 0; i < n; i++) x[i] *= 0.5f; }
void gaps(int n, const double *x, const double *w, double *y) {
    for (int i = 0; i + 1 < n; i++) y[i] = w[i] * (x[i + 1] - x[i]); }
void powers(double x, int steps, double *y) {
    double p = 1; for (int i = 0; i < steps; i++) y[i] = p *= x; }
void corner_(const double *a, const int *n, const int *m, double *y) { *y = a[1] * a[*n]; }
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> str:
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler")
    folder = tmp_path_factory.mktemp("c")
    (folder / "lib.c").write_text(C)
    made = folder / "lib.so"
    subprocess.run(
        [compiler, "-O1", "-shared", "-fPIC", "-o", made, folder / "lib.c", "-lm"], check=True
    )
    return str(made)


def leaf(values: Any, dtype: Any = ad.float64) -> ad.Tensor:
    return ad.tensor(values, dtype=dtype, requires_grad=True)


def test_a_c_function_that_returns_a_number(library: str) -> None:
    f = ad.ctypes_function(
        library, "energy", ["int n", "double[n] x", "double k"], restype="double"
    )
    x, k = leaf([1.0, 2.0]), leaf(3.0)
    y = f(x, k)
    y.backward()
    assert y.item() == 15.0
    np.testing.assert_allclose(x.grad.numpy(), [6.0, 12.0], rtol=1e-9)
    np.testing.assert_allclose(k.grad.item(), 5.0, rtol=1e-9)


def test_a_c_function_that_writes_arrays(library: str) -> None:
    argtypes = ["in double[n] x", "int n", "out double[n] y", "out double total"]
    f = ad.ctypes_function(library, "wave", argtypes, elementwise=False)
    x = leaf([0.1, 0.2, 0.3])
    y, total = f(x)
    assert y.shape == (3,) and total.shape == ()
    (y[0] + total).backward()
    expected = x.detach().cos().numpy() * [2, 1, 1]
    np.testing.assert_allclose(x.grad.numpy(), expected, rtol=1e-8)


def test_what_a_c_function_changes_is_a_copy(library: str) -> None:
    f = ad.ctypes_function(library, "halve", ["inout float[n] x", "int n"])
    x = leaf([1.0, 2.0], ad.float32)
    y = f(x)
    assert y.dtype == ad.float32 and y.tolist() == [0.5, 1.0] and x.tolist() == [1.0, 2.0]
    y.sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), [0.5, 0.5], rtol=1e-4)


def test_fortran_gets_addresses_and_columns(library: str) -> None:
    argtypes = ["in double[n,m] a", "int n", "int m", "out double y"]
    f = ad.ctypes_function(library, "CORNER", argtypes, fortran=True)
    a = leaf([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    y = f(a)
    y.backward()
    assert y.item() == 4.0 * 2.0  # a(2,1) * a(1,2)
    expected = [[0.0, 4.0, 0.0], [2.0, 0.0, 0.0]]
    np.testing.assert_allclose(a.grad.numpy(), expected, rtol=1e-8, atol=1e-8)


def test_c_functions_run_in_worker_processes(library: str) -> None:
    f = ad.ctypes_function(
        library, "energy", ["int n", "double[n] x", "double k"], restype="double", workers=2
    )
    x = leaf([1.0, 2.0])
    f(x, 3.0).backward()
    f.close()
    np.testing.assert_allclose(x.grad.numpy(), [6.0, 12.0], rtol=1e-9)


def test_mistakes_in_a_signature_are_named(library: str) -> None:
    with pytest.raises(AttributeError, match="has no symbol 'nothing'"):
        ad.ctypes_function(library, "nothing", ["double x"])
    with pytest.raises(ValueError, match="parameter 0: 'quad x' is not understood"):
        ad.ctypes_function(library, "energy", ["quad x"])
    argtypes = ["double[n] x", "int n", "out double[m] y", "out double total"]
    f = ad.ctypes_function(library, "wave", argtypes)
    with pytest.raises(ValueError, match="no input tells the size m of y"):
        f(leaf([1.0]))
    with pytest.raises(ValueError, match=r"x has 1 axes \(n\), got an array of shape \[1, 2\]"):
        f(leaf([[1.0, 2.0]]))
    with pytest.raises(TypeError, match=r"wave takes 1 arguments \(x\), got 2; n is read off them"):
        f(leaf([1.0]), leaf([1.0]))
    with pytest.raises(
        AttributeError, match=r"has no symbol 'corner', but 'corner_'.*fortran=True"
    ):
        ad.ctypes_function(library, "corner", ["double x"])
    with pytest.raises(ValueError, match=r"the size 'n/2' is not understood"):
        ad.ctypes_function(library, "wave", ["double[n] x", "out double[n/2] y"])


def test_sizes_may_be_put_together(library: str) -> None:
    """A wrong length is refused: the routine would read beyond the array."""
    argtypes = ["int n", "in double[n] x", "in double[n-1] w", "out double[n+1] y"]
    f = ad.ctypes_function(library, "gaps", argtypes)
    x, w = leaf([1.0, 2.0, 4.0]), leaf([10.0, 100.0])
    y = f(x, w)
    assert y.tolist() == [10.0, 200.0, 0.0, 0.0]
    y.sum().backward()
    np.testing.assert_allclose(w.grad.numpy(), [1.0, 2.0], rtol=1e-8)
    np.testing.assert_array_equal(f(w=w, x=x).detach().numpy(), y.detach().numpy())
    with pytest.raises(ValueError, match=r"w has 3 along n-1, which is 2 elsewhere \(n = 3\)"):
        f(x, leaf([1.0, 2.0, 3.0]))
    # n is read off 2*n as well.
    argtypes = ["in double[2*n] x", "int n", "out double[n] y", "out double total"]
    twice = ad.ctypes_function(library, "wave", argtypes)
    y, total = twice(leaf([0.0, 1.0, 2.0, 3.0]))
    assert y.shape == (2,) and total.shape == ()
    with pytest.raises(ValueError, match=r"x has 3 along 2\*n, which fits no n"):
        twice(leaf([0.0, 1.0, 2.0]))
    argtypes[:3] = ["in double[n] x", "int n", "out double[n-2] y"]
    less = ad.ctypes_function(library, "wave", argtypes)
    with pytest.raises(ValueError, match="y cannot have the size n-2 with n = 1"):
        less(leaf([1.0]))


def test_a_size_of_outputs_alone_is_an_argument(library: str) -> None:
    f = ad.ctypes_function(library, "powers", ["double x", "int steps", "out double[steps] y"])
    x = leaf(2.0)
    y = f(x, 4)
    assert y.tolist() == [2.0, 4.0, 8.0, 16.0]
    y[3].backward()
    np.testing.assert_allclose(x.grad.item(), 32.0, rtol=1e-8)


# --- executables ----------------------------------------------------------------------------------

NPY = "import sys, numpy as np; np.save(sys.argv[2], np.sin(np.load(sys.argv[1])))"
PIPE = {
    "json": "import sys, json; print(json.dumps([v * v for v in json.load(sys.stdin)]))",
    "csv": "import sys; [print(float(l) ** 2) for l in sys.stdin]",
    "text": "import sys; print(*[float(l) ** 2 for l in sys.stdin.read().split()])",
}


def program(code: str, *arguments: str, **options: Any) -> Any:
    return ad.command([sys.executable, "-c", code, *arguments], **options)


def test_a_program_that_reads_and_writes_files(tmp_path: Path) -> None:
    run = program(NPY, "{input}", "{output}", scratch=tmp_path)
    x = leaf([0.1, 0.2])
    ad.external(run, workers="threads", probe=False)(x).sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), np.cos([0.1, 0.2]), rtol=1e-8)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("kind", PIPE)
def test_a_program_on_pipes(kind: str) -> None:
    x = leaf([1.5, -2.25])
    y = ad.external(program(PIPE[kind], format=kind), probe=False)(x)
    assert y.tolist() == [2.25, 5.0625]
    y.sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), [3.0, -4.5], rtol=1e-8)


def test_few_digits_need_a_noise() -> None:
    code = "import sys; print(*['%.5e' % float(l) ** 2 for l in sys.stdin])"
    x = leaf([1.2345])
    ad.external(program(code, format="text"), noise=1e-5, probe=False)(x).sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), [2.469], rtol=3e-3)


def test_several_inputs_outputs_and_values_in_the_arguments() -> None:
    code = (
        "import sys, json\n"
        "a = json.load(open(sys.argv[1])); k = float(sys.argv[2])\n"
        "json.dump([k * v for v in a], open(sys.argv[3], 'w'))\n"
        "json.dump(sum(a), open(sys.argv[4], 'w'))\n"
    )
    run = program(
        code,
        "{input_a}",
        "{k}",
        "{output_b}",
        "{output_s}",
        inputs=["a", "k"],
        outputs=["b", "s"],
        format="json",
    )
    a, k = leaf([1.0, 2.0]), leaf(0.1)
    b, s = ad.external(run, probe=False)(a, k)
    assert b.tolist() == [0.1, 0.2] and s.item() == 3.0
    (b.sum() + s).backward()
    np.testing.assert_allclose(a.grad.numpy(), [1.1, 1.1], rtol=1e-8)
    np.testing.assert_allclose(k.grad.item(), 3.0, rtol=1e-8)


def test_json_has_objects(tmp_path: Path) -> None:
    code = (
        "import sys, json\n"
        "d = json.load(open(sys.argv[1]))\n"
        "lift = [a * d['speed'] ** 2 for a in d['angles']]\n"
        "out = dict(lift=lift, name=d['name'], rows=[dict(n=1)])\n"
        "json.dump(out, open(sys.argv[2], 'w'))\n"
    )
    run = program(code, "{input}", "{output}", format="json")
    angles, speed = leaf([1.0, 2.0]), leaf(3.0)
    out = ad.external(run)({"angles": angles, "speed": speed, "name": "wing"})
    assert out["lift"].tolist() == [9.0, 18.0] and out["name"] == "wing"
    assert out["rows"][0]["n"].item() == 1.0
    out["lift"].sum().backward()
    np.testing.assert_allclose(angles.grad.numpy(), [9.0, 9.0], rtol=1e-8)
    np.testing.assert_allclose(speed.grad.item(), 18.0, rtol=1e-8)

    @dataclass
    class Case:
        angles: Any
        speed: Any
        name: str = "dataclass"

    assert run(Case(np.ones(1), 2.0))["lift"].tolist() == [4.0]
    with pytest.raises(TypeError, match="a file of format='npy' holds one array"):
        program(code, "{input}", "{output}")({"angles": np.ones(2)})
    with pytest.raises(TypeError, match="JSON has no object"):
        run({"angles": object()})


def test_exit_code_and_stderr_are_in_the_error(tmp_path: Path) -> None:
    run = program("import sys; sys.exit('no convergence')", scratch=tmp_path, format="text")
    with pytest.raises(
        ad.external.CommandError, match=r"exited with code 1(.|\n)*no convergence"
    ) as e:
        ad.external(run)(leaf([1.0]))
    assert e.value.returncode == 1 and "no convergence" in e.value.stderr
    assert not list(tmp_path.iterdir())


def test_a_file_beside_the_caller_is_found_with_the_fix_of_the_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "model.py").write_text("print(float(input()) + 1)")
    monkeypatch.chdir(tmp_path)
    call = [sys.executable, "model.py"]
    with pytest.raises(ad.external.CommandError) as e:
        ad.command(call, format="text")(np.ones(1))
    assert f"fix: it ran in its scratch folder; cwd='.' runs it in {tmp_path}" in str(e.value)
    assert ad.command(call, format="text", cwd=".")(np.ones(1)) == 2
    with pytest.raises(ad.external.CommandError) as e:
        ad.command([sys.executable, "modle.py"], format="text", cwd=".")(np.ones(1))
    assert "No such file" in str(e.value) and "scratch folder" not in str(e.value)


def test_a_program_that_fails_in_a_derivative_names_the_input(tmp_path: Path) -> None:
    code = "import sys; v = float(sys.stdin.read()); assert v <= 1, 'too large'; print(v)"
    run = program(code, format="text", scratch=tmp_path)
    y = ad.external(run, step=1e-3)(leaf(1.0))
    with pytest.raises(
        ad.external.EvaluationError, match=r"failed at input \+ 0.001(.|\n)*too large"
    ):
        y.backward()
    assert not list(tmp_path.iterdir())


def test_a_program_that_hangs_is_ended_with_its_children(tmp_path: Path) -> None:
    mark = tmp_path / "pid"
    code = (
        "import subprocess, sys, time\n"
        "p = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'])\n"
        f"open({str(mark)!r}, 'w').write(str(p.pid)); time.sleep(60)"
    )
    folder = tmp_path / "scratch"
    folder.mkdir()
    start = time.perf_counter()
    with pytest.raises(ad.external.CommandError, match=r"did not end within timeout=2"):
        program(code, format="text", timeout=2, scratch=folder)(np.ones(1))
    assert time.perf_counter() - start < 20
    assert not list(folder.iterdir())
    deadline = time.perf_counter() + 5
    while _alive(int(mark.read_text())) and time.perf_counter() < deadline:
        time.sleep(0.05)
    assert not _alive(int(mark.read_text()))


def _alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def test_retries_run_a_failed_program_again(tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    code = (
        "import os, sys; v = float(sys.stdin.read())\n"
        f"if not os.path.exists({str(mark)!r}): open({str(mark)!r}, 'w'); sys.exit(3)\n"
        "print(v)"
    )
    assert ad.external(program(code, format="text"), retries=1)(leaf(2.0)).item() == 2.0


def test_what_a_program_left_out_or_wrote_wrongly_is_said(tmp_path: Path) -> None:
    with pytest.raises(
        ad.external.CommandError, match=r"wrote no output.npy; its folder holds input.npy"
    ):
        program("pass", "{input}", "{output}")(np.ones(2))
    with pytest.raises(ad.external.CommandError, match=r"standard output is not json.*b'hello"):
        program("print('hello')", format="json")(np.ones(2))
    with pytest.raises(ad.external.CommandError, match="could not be started"):
        ad.command(["/nowhere/model"], format="text")(np.ones(2))
    with pytest.raises(ad.external.CommandError, match="no scratch folder could be made"):
        program("pass", scratch=tmp_path / "missing")(np.ones(2))


def test_a_full_disk_is_one_clear_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(self: Path, data: bytes) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(ad.external.CommandError, match=r"No space left on device(.|\n)*scratch="):
        program(NPY, "{input}", "{output}", scratch=tmp_path)(np.ones(2))
    assert not list(tmp_path.iterdir())


def test_mistakes_in_a_template_are_named() -> None:
    with pytest.raises(ValueError, match=r"the template names \{inptu\}; there are"):
        ad.command(["model", "{inptu}"])
    with pytest.raises(ValueError, match="format= is one of 'npy', 'json', 'csv', 'text'"):
        ad.command(["model"], format="xml")
    with pytest.raises(ValueError, match="braces that are not fields are doubled"):
        ad.command(["awk", "{print $1"])
    with pytest.raises(ValueError, match="got an empty list"):
        ad.command([])
    with pytest.raises(TypeError, match="takes the program and its arguments as a list"):
        ad.command("./model {input}")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="takes 1 inputs"):
        ad.command(["model"])(1.0, 2.0)
    with pytest.raises(ValueError, match="text has at most 2 axes"):
        ad.command(["model"], format="text")(np.ones((1, 1, 1)))


def test_a_ufunc_is_elementwise_by_itself() -> None:
    f = ad.numpy_function(np.arctan)
    x = leaf(np.linspace(-2, 2, 100).tolist())
    assert f.cost(x).vjp == 2 + 2
    f(x).sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), 1 / (1 + x.detach().numpy() ** 2), rtol=1e-8)
    assert math.isfinite(x.grad.sum().item())


def test_a_relative_program_is_that_of_the_caller(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "a {folder} of models"
    home.mkdir()
    script = home / "model"
    script.write_text("#!/bin/sh\ncp $1 $2\n")
    script.chmod(0o755)
    monkeypatch.chdir(home)
    plain = ad.command(["./model", "{input}", "{output}"])
    inside = ad.command(["./model", "{input}", "{output}"], cwd=".")
    missing = ad.command(["./modle"])
    unknown = ad.command(["model"])
    nowhere = ad.command(["./model"], cwd="nowhere")
    monkeypatch.chdir(tmp_path)  # what counts is where it was made
    x = leaf([1.0, 2.0])
    for made in (plain, inside):
        ad.external(made, workers=2)(x).sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), 2.0, rtol=1e-9)
    for made, message in (
        (missing, f"there is no modle in {home}"),
        (unknown, f"no model in the folders of PATH\n  fix: './model' is the one in {home}"),
        (nowhere, f"there is no folder {home / 'nowhere'}"),
    ):
        with pytest.raises(ad.external.CommandError) as caught:
            made(np.ones(2))
        assert message in str(caught.value)
