"""Messages about what the caller hands over: functions that change their mind, classes and modules
of the caller's, and the name `torch` for adjoint.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np

import adjoint as ad
from adjoint import _C, func
from adjoint.autograd import forward_ad
from adjoint.cli import check as cli
from tests.errors.table import Row, check, refusals
from tests.unit.cli.test_cli import adjoint


def leaf(*values: float) -> Any:
    return ad.tensor(list(values), dtype=ad.float64, requires_grad=True)


x = leaf(1.0, 2.0).detach()


# --- functions and objects of the caller ---------------------------------------------------------
class Elsewhere:
    """An array on another device."""

    def __dlpack__(self, **_: Any) -> Any:
        raise AssertionError("not asked for")

    def __dlpack_device__(self) -> Any:
        return 2, 0


class Tagged:
    """A composite with metadata of its own."""

    def __init__(self, item: Any, tag: str) -> None:
        self.item, self.tag = item, tag

    def __tree_flatten__(self) -> Any:
        return (self.item,), self.tag

    @classmethod
    def __tree_unflatten__(cls, tag: Any, items: Any) -> Tagged:
        return cls(items[0], tag)


class Named(ad.autograd.Function):
    """A function with a tensor that is given by name only."""

    @staticmethod
    def forward(ctx: Any, a: Any, *, b: Any) -> Any:
        return a * b


def growing() -> Any:
    """Return a function whose result gets longer with each call."""
    calls = [0]

    def grows(a: Any) -> Any:
        calls[0] += 1
        return a[:1].expand(1 + calls[0]) * 1

    return grows


def no_inputs() -> int:
    return 3


def delayed() -> None:
    _C._functions.DelayedError("not this way", 1)(leaf(1.0)).sum().backward()


def hook_without_inputs() -> None:
    module = ad.nn.Linear(2, 2)
    module.register_full_backward_hook(lambda *_: (ad.ones(2),))
    with warnings.catch_warnings():  # of a hook that fires on outputs
        warnings.simplefilter("ignore")
        module(ad.ones(2)).sum().backward()


@refusals(
    (delayed, RuntimeError, "not this way"),
    (
        lambda: ad.kl_div(ad.ones(2), ad.ones(2), 3),
        ValueError,
        "reduction must be 0 (none), 1 (mean) or 2 (sum), got 3",
    ),
    (lambda: cli._pair("a"), argparse.ArgumentTypeError, "must be LOW,HIGH such as 0,1; got 'a'"),
    (
        lambda: ad.take_along_dim(ad.tensor(1.0), ad.tensor(0), 0),
        IndexError,
        "Dimension specified as 0 but tensor has no dimensions",
    ),
    (hook_without_inputs, RuntimeError, "Modules where no input requires gradient should always"),
    (
        lambda: ad.from_dlpack(Elsewhere()),
        BufferError,
        "the array is on device (2, 0); adjoint computes on the CPU only",
    ),
    (
        lambda: Named.apply(leaf(1.0), b=leaf(1.0)),
        NotImplementedError,
        "kwarg-only Tensor args (b) have no place among the gradients",
    ),
    (
        lambda: ad.map(lambda a, b: a, Tagged(x, "a"), Tagged(x, "b")),
        ValueError,
        "the metadata of the two",
    ),
    (lambda: ad.check(growing(), leaf(1.0, 2.0)), RuntimeError, "outputs that keep their shapes"),
    (lambda: cli._drawn("2,-1", ad.float64), cli.Usage, "--shape 2,-1: expected sizes such as"),
    (lambda: cli._guessed(no_inputs, ad.float64), cli.Usage, "no inputs: the function has no argu"),
    (
        lambda: func.jacobian(lambda a: a, sparsity="detect")(3),
        ValueError,
        "jacobian(f)(*args): expected tensors, but got int: 3",
    ),
    (
        lambda: func.jacobian(lambda a: a, sparsity=np.ones((3, 2)), mode="forward")(x),
        ValueError,
        "sparsity= has shape [3, 2]; the matrix has [2, 2]",
    ),
)
def test_what_the_caller_gives(row: Row) -> None:
    check(row)


def test_a_result_that_forward_mode_changes_is_named() -> None:
    def longer(a: Any) -> Any:
        dual = forward_ad._current_level >= 0 and forward_ad.unpack_dual(a).tangent is not None
        return ad.cat([a, a]) if dual else a * 1

    text = str(ad.check(longer, leaf(1.0, 2.0)))
    assert "the tangent of output has shape [4], the output [2]" in text


# --- other processes -----------------------------------------------------------------------------
ALIAS = """
import adjoint
adjoint.install_as_torch()
import torch, torch.optim
for module, name in (torch, "__nothing__"), (torch.optim, "__nothing__"), (torch.optim, "Nothing"):
    try:
        getattr(module, name)
    except AttributeError as error:
        print(error)
"""


def test_the_second_name_says_what_it_lacks() -> None:
    command = [sys.executable, "-c", ALIAS]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.stdout.splitlines()[:2] == [
        "module 'torch' has no attribute '__nothing__'",
        "module 'torch.optim' has no attribute '__nothing__'",
    ], done.stderr
    assert "module 'torch.optim' has no attribute 'Nothing': `torch` is adjoint" in done.stdout


def test_a_module_that_lacks_another(tmp_path: Path) -> None:
    (tmp_path / "needy.py").write_text("import no_such_module_anywhere\n")
    done = adjoint("check", "needy.py:f", cwd=tmp_path)
    assert done.returncode == 2
    assert "importing 'needy.py' raised" in done.stderr
    assert "no_such_module_anywhere" in done.stderr
