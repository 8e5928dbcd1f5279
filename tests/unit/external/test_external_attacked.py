"""Programs and caches where something is odd: names, encodings, stale results, damaged files."""

import sys

import numpy as np
import pytest

import adjoint as ad
from adjoint.external import parsers

X = ad.tensor([1.5, 2.5], dtype=ad.float64)
SCALE = 2.0


def helper(v):
    return SCALE * v


def scaled(v):
    return helper(v) + 1


def test_a_cache_knows_the_globals_and_the_functions_that_a_function_calls(tmp_path, monkeypatch):
    pytest.importorskip("joblib")
    f = ad.external(scaled, cache=tmp_path)
    assert f(X).tolist() == [4.0, 6.0]
    monkeypatch.setattr(sys.modules[__name__], "SCALE", 3.0)
    assert ad.external(scaled, cache=tmp_path)(X).tolist() == [5.5, 8.5]
    monkeypatch.setattr(sys.modules[__name__], "helper", lambda v: 0 * v)
    assert ad.external(scaled, cache=tmp_path)(X).tolist() == [1.0, 1.0]


def test_two_functions_of_one_line_are_two(tmp_path):
    pytest.importorskip("joblib")
    one, ten = lambda v: v + 1, lambda v: v * 10
    assert ad.external(one, cache=tmp_path)(X).tolist() == [2.5, 3.5]
    assert ad.external(ten, cache=tmp_path)(X).tolist() == [15.0, 25.0]


def test_a_function_that_calls_itself_is_cached(tmp_path):
    pytest.importorskip("joblib")

    def power(v, n=3):
        return v if n == 1 else v * power(v, n - 1)

    f = ad.external(power, cache=tmp_path)
    np.testing.assert_allclose(f(X).numpy(), X.numpy() ** 3)


def deck(tmp_path, data, **options):
    path = tmp_path / "deck ü.txt"
    path.write_bytes(data)
    program = [sys.executable, "-c", "print('v = 1')"]
    outputs = {"v": parsers.regex(r"v = (\S+)")}
    return ad.command(
        program, inputs=["k", "x"], templates={"d.txt": path}, outputs=outputs, **options
    )


def test_a_deck_keeps_its_encoding_and_its_ends_of_lines(tmp_path):
    text = "k = {{k}}\r\nné {{x[1]:.3e}} {{ x }}\r\n".encode("latin-1")
    run = deck(tmp_path, text, keep=tmp_path / "kept")
    ad.external(run)(ad.tensor(1e300, dtype=ad.float64), X)
    (found,) = (tmp_path / "kept").rglob("d.txt")
    assert found.read_bytes() == "k = 1e+300\r\nné 2.500e+00 1.5 2.5\r\n".encode("latin-1")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"{{k.real}} {{x}}", "not understood"),
        (b"{{k}}", "'x' stands in no template"),
        (b"{{k}} {{x}} {{z}}", "names"),
    ],
)
def test_a_deck_that_cannot_be_filled_is_refused_at_once(tmp_path, text, message):
    with pytest.raises(ValueError, match=message):
        deck(tmp_path, text)


def test_a_deck_stays_in_the_folder_of_its_run(tmp_path):
    (tmp_path / "d").write_text("{{k}}")
    with pytest.raises(ValueError, match="not the name of a file"):
        ad.command(["true"], inputs=["k"], templates={"../d": tmp_path / "d"})


@pytest.mark.parametrize(
    ("printed", "options", "message"),
    [
        ("1 2\\n3 4 5", {}, "2 numbers, others 3"),
        ("1 2", {"skip": 9}, "1 lines, of which skip=9"),
    ],
)
def test_a_table_that_is_none_is_said_to_be_none(printed, options, message):
    outputs = {"t": parsers.columns(**options)}
    run = ad.command([sys.executable, "-c", f"print('{printed}')"], outputs=outputs)
    with pytest.raises(ad.external.CommandError, match=message):
        ad.external(run)(X)


def test_a_kept_run_that_is_damaged_is_named(tmp_path):
    program = [sys.executable, "-c", "print('v = 1')"]
    outputs = {"v": parsers.regex(r"v = (\S+)")}
    run = ad.command(program, outputs=outputs, keep=tmp_path / "runs", resume=True)
    run(X.numpy())
    (kept,) = (tmp_path / "runs").glob("run-*")
    (kept / "stdout.txt").write_text("")
    with pytest.raises(ad.external.CommandError, match=r"matches nowhere(.|\n)*remove that folder"):
        run(X.numpy())


# --- numbers of Python's --------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_complex_number_of_python_keeps_its_imaginary_part(dtype):
    whole = np.complex64 if dtype is np.float32 else np.complex128
    for form in (lambda z: z, lambda z: (z, 1.5), lambda z: {"z": z}):
        f = ad.external(lambda v, form=form: form(complex(v.sum(), (v**2).sum())))
        x = ad.tensor(np.array([1.0, -3.0], dtype), requires_grad=True)
        found = f(x)
        z = found if isinstance(found, ad.Tensor) else found["z" if isinstance(found, dict) else 0]
        assert z.numpy(force=True).dtype == whole and z.item() == -2 + 10j
        (z.real + 2 * z.imag).backward()
        np.testing.assert_allclose(x.grad.numpy(), [5, -11], rtol=1e-3)


def test_samples_of_a_batch_that_do_not_fit_together_are_told():
    mixed = ad.external(lambda v: (max(0, float(v)), float(v) ** 2))
    with pytest.raises(ad.external.EvaluationError, match=r"= 0 for the first .* and 2.0 for sam"):
        ad.vmap(mixed)(ad.tensor([-1.0, 2.0]))
    steps = ad.external(lambda v: {"y": v**2, "steps": int(v)})
    with pytest.raises(ad.external.EvaluationError, match=r"output\['steps'\] = 1 for the first"):
        ad.vmap(steps)(ad.tensor([1.0, 2.0]))
    forms = ad.external(lambda v: {"y": v} if v > 1 else {"z": v})
    with pytest.raises(ad.external.EvaluationError, match="of another form for sample 1"):
        ad.vmap(forms)(ad.tensor([1.0, 2.0]))
    alike = ad.vmap(ad.external(lambda v: {"y": v**2, "method": "none", "steps": 3}))
    assert alike(ad.tensor([1.0, 2.0]))["steps"] == 3
