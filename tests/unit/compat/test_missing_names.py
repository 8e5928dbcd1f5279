"""Names of PyTorch that are not there say so: what is missing, what is nearest, how to go on."""

from __future__ import annotations

import pickle
import subprocess
import sys
import traceback

import pytest

import adjoint as ad
from tests.children import ENVIRONMENT


@pytest.mark.parametrize(
    ("module", "name", "whole"),
    [
        (ad, "quantization", "quantization"),
        (ad.nn, "QuantStub", "nn.QuantStub"),
        (ad.nn.functional, "scaled_mm", "nn.functional.scaled_mm"),
        (ad.func, "debug_unwrap", "func.debug_unwrap"),
        (ad.optim, "Lion", "optim.Lion"),
        (ad.optim.lr_scheduler, "NoamLR", "optim.lr_scheduler.NoamLR"),
        (ad.nn.init, "delta_", "nn.init.delta_"),
        (ad.nn.utils, "weight_clip", "nn.utils.weight_clip"),
        (ad.autograd, "profiler_legacy", "autograd.profiler_legacy"),
        (ad.autograd.functional, "lop", "autograd.functional.lop"),
        (ad.utils, "bottleneck", "utils.bottleneck"),
        (ad.fft, "hfft3", "fft.hfft3"),
        (ad.random, "fork", "random.fork"),
        (ad.backends.cudnn, "nonsense", "backends.cudnn.nonsense"),
    ],
)
def test_a_missing_name_says_what_is_missing_and_how_to_go_on(
    module: object, name: str, whole: str
) -> None:
    with pytest.raises(AttributeError) as error:
        getattr(module, name)
    text = str(error.value)
    assert f"has no attribute '{name}': adjoint has no {whole} (docs/limits.md" in text
    assert "\n  fix: " in text
    assert not hasattr(module, name) and getattr(module, name, 3) == 3
    assert pickle.loads(pickle.dumps(error.value)).args == error.value.args == (text,)
    assert error.value.name == name


@pytest.mark.parametrize(
    ("module", "name", "nearest"),
    [
        (ad, "sinn", "adjoint.sin"),
        (ad, "zeroes", "adjoint.zeros"),
        (ad.func, "jacref", "adjoint.func.jacrev"),
        (ad.nn, "mse_loss", "adjoint.nn.functional.mse_loss"),
        (ad.linalg, "softmax", "adjoint.softmax"),
        (ad.fft, "requires_grad_", "Tensor.requires_grad_"),
    ],
)
def test_what_is_nearest_is_named_wherever_it_is(module: object, name: str, nearest: str) -> None:
    with pytest.raises(AttributeError) as error:
        getattr(module, name)
    (line,) = [line for line in str(error.value).splitlines() if line.startswith("  nearest: ")]
    assert nearest in line


def test_nothing_is_suggested_where_nothing_is_near() -> None:
    with pytest.raises(AttributeError) as error:
        _ = ad.xyzzyplugh  # type: ignore[attr-defined]
    assert "\n  nearest: " not in str(error.value)


def test_private_names_fail_as_ever() -> None:
    with pytest.raises(AttributeError) as error:
        _ = ad._nothing
    assert str(error.value) == "module 'adjoint' has no attribute '_nothing'"


@pytest.mark.parametrize("name", ["symeig", "q_scale", "reinforce", "to_mkldnn"])
def test_a_missing_method_of_tensors(name: str) -> None:
    x = ad.ones(2)
    with pytest.raises(AttributeError, match=rf"'Tensor' object has no attribute '{name}': ") as e:
        getattr(x, name)
    assert "\n  fix: " in str(e.value)
    assert not hasattr(x, name) and not hasattr(ad.Tensor, name) and name not in dir(x)
    setattr(x, name, 3)  # a name like any other
    assert getattr(x, name) == 3


def test_an_unknown_method_is_pythons_own_error() -> None:
    with pytest.raises(AttributeError, match="Tensor' object has no attribute 'frobnicate'"):
        ad.ones(2).frobnicate()  # type: ignore[attr-defined]


def test_imports_raise_import_errors() -> None:
    with pytest.raises(
        ImportError, match=r"cannot import name 'QuantStub' from 'adjoint\.nn': "
    ) as e:
        from adjoint.nn import QuantStub  # type: ignore[attr-defined]  # noqa: F401
    assert e.value.name == "adjoint.nn" and "\n  fix: " in str(e.value)
    with pytest.raises(ImportError, match=r"\n  nearest: adjoint\.nn\.functional\.relu"):
        from adjoint.nn.functional import relux  # type: ignore[attr-defined]  # noqa: F401
    with pytest.raises(ImportError, match="from 'adjoint'"):
        from adjoint import sinn  # type: ignore[attr-defined]  # noqa: F401


def test_the_traceback_ends_in_the_users_line() -> None:
    def ask_module() -> None:
        _ = ad.nn.QuantStub  # type: ignore[attr-defined]

    def ask_top() -> None:
        _ = ad.sinn  # type: ignore[attr-defined]

    def ask_tensor() -> None:
        ad.ones(2).symeig()  # type: ignore[attr-defined]

    def ask_import() -> None:
        from adjoint.nn.functional import relux  # type: ignore[attr-defined]  # noqa: F401

    for ask in (ask_module, ask_top, ask_tensor, ask_import):
        try:
            ask()
        except (AttributeError, ImportError) as error:
            frames = traceback.extract_tb(error.__traceback__)
            assert frames[-1].name == ask.__name__, ask.__name__
            shown = traceback.format_exception_only(error)[-1].split(":")[0]
            assert shown in ("AttributeError", "ImportError") or "fix" in shown


STATEMENTS = [
    ("import torch.a.b", "ModuleNotFoundError", "No module named 'torch.a"),
    ("import torch.nn.quantized", "ModuleNotFoundError", "no quantised tensors"),
    ("from torch.nn import QuantStub", "ImportError", "cannot import name 'QuantStub'"),
    ("from torch import sinn", "ImportError", "nearest: torch.sin"),
    ("from torch.nn.functional import relux", "ImportError", "torch.nn.functional.relu"),
    ("import torch; torch.sinn", "AttributeError", "nearest: torch.sin"),
    ("import torch; torch.nn.functional.relux", "AttributeError", "torch.nn.functional.relu"),
    ("import torch; torch.ones(2).symeig()", "AttributeError", "use linalg.eigh(x)"),
    ("import torch; torch.backends.nonsense", "AttributeError", "`torch` is adjoint"),
]
PROGRAM = f"""
import traceback
for statement, kind, text in {STATEMENTS!r}:
    try:
        exec(compile(statement, "<user>", "exec"), {{}})
    except (AttributeError, ImportError) as error:
        last = traceback.extract_tb(error.__traceback__)[-1].filename
        shown = traceback.format_exception_only(error)[0]
        ok = last == "<user>" and shown.startswith(kind + ": ") and text in str(error)
        print("" if ok else f"{{statement}}: {{last}} {{shown}} {{error}}", end="")
    else:
        print("nothing raised:", statement)
"""


def test_under_the_name_torch() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "adjoint", "run", "-c", PROGRAM],
        capture_output=True,
        text=True,
        check=False,
        env=ENVIRONMENT,
    )
    assert done.stdout == "" and done.returncode == 0, done.stdout + done.stderr
