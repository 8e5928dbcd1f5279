"""What may be changed in place after a call: what torch allows is allowed, with right gradients.

An op keeps some of its arguments and results for its derivative; changing one of those in place is
an error of the backward pass. Which ones they are decides which programs run, so whatever torch
lets change, adjoint lets change. Where adjoint keeps less than torch it may allow more; the
gradient is then compared with that of the same call without a change.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from tests.ops.samples import OPS
from tests.ops.spec import Op, Sample, outputs, to_library, to_numpy

torch: Any = pytest.importorskip("torch")
# Where the package opt_einsum is installed, torch would multiply in another order.
torch.backends.opt_einsum.enabled = False

# What is changed: ("result", 0), ("argument", 1), ... or nothing.
Place = tuple[str, int]


class Program:
    """One call on copies of leaves, an edit in place, and the backward pass of its results."""

    def __init__(self, op: Op, sample: Sample, dtype: str, wanted: set[int], in_place: bool):
        self.op, self.sample, self.dtype, self.wanted = op, sample, dtype, wanted
        self.in_place = in_place  # the form of the op that writes into its first argument

    def run(self, library: Any, place: Place | None) -> tuple[str, list[Any]]:
        """Where it was refused ("" for nowhere), and the gradients of the leaves."""
        leaves: list[Any] = []
        arguments: list[Any] = []

        def argument(a: Any) -> Any:
            tensor = to_library(a, library, self.dtype)
            if isinstance(a, np.ndarray):
                if len(arguments) in self.wanted:
                    leaves.append(tensor.requires_grad_())
                    tensor = tensor * 1  # a leaf refuses to be changed
                arguments.append(tensor)
            return tensor

        call = self.sample.map(argument)
        if self.in_place:
            name = self.op.name + "_"
            ys = [getattr(call.args[0], name)(*call.args[1:], **call.kwargs)]
        else:
            ys = outputs(self.op.function(library)(*call.args, **call.kwargs))
        history = [y.requires_grad for y in ys]
        if place is not None:
            kind, index = place
            try:
                change((ys if kind == "result" else arguments)[index])
            except RuntimeError:
                return "edit", []
        try:
            total = [y.sum() for y, kept in zip(ys, history, strict=True) if kept]
            found = library.autograd.grad(
                total, leaves, [t.detach() * 0 + 1 for t in total], allow_unused=True
            )
        except RuntimeError:
            return "backward", []
        return "", [None if g is None else to_numpy(g) for g in found]


def change(tensor: Any) -> None:
    """In place; an index stays one that is in range."""
    if tensor.is_floating_point() or tensor.is_complex():
        tensor.add_(1)
    else:
        tensor.zero_()


def differentiable(sample: Sample, op: Op) -> list[bool]:
    """Of each array of a sample in turn: may it require a gradient?"""
    found: list[bool] = []

    def note(a: Any) -> Any:
        if isinstance(a, np.ndarray):
            found.append(a.dtype.kind in "fc")
        return a

    Sample(sample.args, {}).map(note)
    for name, value in sample.kwargs.items():
        before = len(found)
        Sample((value,), {}).map(note)
        if name in op.constants:
            found[before:] = [False] * (len(found) - before)
    return found


def programs(op: Op, in_place: bool) -> Iterator[tuple[str, Program, int]]:
    """With every argument differentiable, and with each one alone."""
    dtype = op.letters("f")[-1] if op.letters("f") else op.letters("c")[-1]
    for sample in op.samples:
        drawn = sample.draw(dtype, op.name)
        able = differentiable(drawn, op)
        everything = {i for i, yes in enumerate(able) if yes}
        for wanted in [everything, *({i} for i in everything if len(everything) > 1)]:
            label = f"{op.name}({sample}), gradient of {sorted(wanted)}"
            yield label, Program(op, drawn, dtype, wanted, in_place), len(able)


def same(got: list[Any], want: list[Any]) -> bool:
    return len(got) == len(want) and all(
        (g is None) == (w is None) and (g is None or np.allclose(g, w, equal_nan=True))
        for g, w in zip(got, want, strict=True)
    )


def quietly(run: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch's deprecations are not ours
        return run(*args, **kwargs)


# Where adjoint keeps what torch does not, because something else would be lost by it.
KEPT = {
    # The derivative is e^(y^2); finding y again from x takes five times as long.
    ("erfinv", "result"),
    # By the result, as in torch, the derivative for a size of zero is lost: it is z / |z|.
    ("polar", "argument"),
    # torch writes log_softmax to memory; adjoint keeps two numbers for each row and the logits.
    ("cross_entropy", "argument"),
    # A vector times a batch: torch happens to copy the transposed matrices.
    ("matmul", "argument"),
    # Where padding="same" is uneven, torch pads into a copy.
    *((f"conv{n}d", "argument") for n in (1, 2, 3)),
    # By tiles, from the result; torch's CPU does so for four axes only.
    ("scaled_dot_product_attention", "result"),
    ("scaled_dot_product_attention", "argument"),
    # A function of its own here, written with erfc in torch.
    ("special_ndtr", "argument"),
}
# torch has none of complex numbers.
REAL_IN_TORCH = {"silu_of_complex", "logaddexp2_of_complex"}
DIFFERENTIABLE = [
    n for n, op in OPS.items() if op.diff and op.letters("fc") and n not in REAL_IN_TORCH
]


def refusals(program: Program, places: list[Place], kept: bool) -> Iterator[str]:
    """Changes that torch allows, or refuses later, and changes with a wrong gradient."""
    _, plain = quietly(program.run, ad, None)
    for place in places:
        ours, got = quietly(program.run, ad, place)
        if not ours and not same(got, plain):
            yield f"{place} changed, gradient {got} for {plain}"
        elif ours and not kept:
            theirs, found = quietly(program.run, torch, place)
            right = theirs == "" and same(found, plain)  # torch's kron does not notice
            if right or (ours == "edit" and theirs == "backward"):
                yield f"{place} changed, refused at {ours}; torch: {theirs or 'allowed'}"


@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_what_torch_lets_change_after_a_call_may_change(name: str) -> None:
    op = OPS[name]
    failures = []
    for label, program, count in programs(op, in_place=False):
        call = program.sample.map(partial(to_library, library=ad, dtype=program.dtype))
        results = outputs(quietly(op.function(ad), *call.args, **call.kwargs))
        places: dict[str, list[Place]] = {
            "result": [("result", k) for k in range(len(results))],
            "argument": [("argument", k) for k in range(count)],
        }
        for kind, where in places.items():
            found = refusals(program, where, (name, kind) in KEPT)
            failures += [f"{label}: {text}" for text in found]
    assert not failures, f"{len(failures)}: " + "\n".join(failures[:20])


IN_PLACE = [n for n in DIFFERENTIABLE if OPS[n].inplace and hasattr(torch.Tensor, n + "_")]


@pytest.mark.parametrize("name", IN_PLACE)
def test_what_torch_lets_change_after_a_change_may_change(name: str) -> None:
    op = OPS[name]
    failures = []
    for label, program, count in programs(op, in_place=True):
        first = program.sample.args[0]
        if not isinstance(first, np.ndarray) or quietly(fails, program):
            continue
        places = [("result", 0), *(("argument", k) for k in range(1, count))]
        found = refusals(program, places, (name, "result") in KEPT)
        failures += [f"{label}: {text}" for text in found]
    assert not failures, f"{len(failures)}: " + "\n".join(failures[:20])


def fails(program: Program) -> bool:
    """Does the form in place refuse its arguments, here or in torch?"""
    for library in (ad, torch):
        try:
            program.run(library, None)
        except RuntimeError:
            return True
    return False


# Products and positions that torch's last step happens to reshape or select.
VIEWS_IN_TORCH = {"linear", "inner", "einsum", "tensordot", "sum_to_size", "unravel_index"}
VIEWS_IN_TORCH |= {"nonzero_as_tuple", "interpolate_area", "fft_ifft", "fft_ihfft", "fft_ihfftn"}
VIEWS_IN_TORCH |= {"linalg_cond", "linalg_multi_dot", "chain_matmul"}
VIEWS_IN_TORCH |= {f"{kind}_pool1d" for kind in ("max", "avg", "adaptive_avg", "adaptive_max")}
VIEWS_IN_TORCH |= {"max_pool1d_with_indices"}
# Views of a result, not of an argument, that our last step happens to be; and of nothing.
VIEWS_HERE = {"affine_grid", "scaled_dot_product_attention", "conv_tbc", "stft"}
VIEWS_HERE |= {"linalg_solve", "linalg_solve_ex", "linalg_lstsq"}
VIEWS_HERE |= {"channel_shuffle", "native_channel_shuffle", "pixel_shuffle", "pixel_unshuffle"}


@pytest.mark.parametrize(
    "name", [n for n in OPS if n not in VIEWS_IN_TORCH | VIEWS_HERE | REAL_IN_TORCH]
)
def test_results_are_views_where_those_of_torch_are(name: str) -> None:
    """What is called a view is refused by detach_, and by changes in place of some kinds."""
    op = OPS[name]
    dtype = op.letters("fcib")[0]
    for sample in op.samples:
        drawn = sample.draw(dtype, name)
        views = []
        for library in (ad, torch):
            call = drawn.map(partial(to_library, library=library, dtype=dtype))
            results = outputs(quietly(op.function(library), *call.args, **call.kwargs))
            views.append([not isinstance(y, bool) and y._is_view() for y in results])
        assert views[0] == views[1], f"{name}({sample})"
