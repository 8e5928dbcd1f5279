"""Which results of torch's ops have a conjugate or negative bit.

Each entry of torch's operator database is called with operands that have such bits, on both.
"""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from tests.conformance.opinfo import Unsupported, call_of, database, ours

torch = pytest.importorskip("torch")

pytestmark = pytest.mark.filterwarnings("ignore")

PARTS = 4
SAMPLES = 2
# Not the same numbers in both, or none that say anything.
VALUES_DIFFER = ("empty", "rand", "eig", "svd", "pca_lowrank", "dropout", "bessel")


def turned(value: Any) -> Any:
    """The same values, with the conjugate bit, or the negative one where they are real."""
    if isinstance(value, torch.Tensor | ad.Tensor):
        if str(value.layout) != "torch.strided":
            return value
        plain = value.detach()
        if value.is_complex():
            return plain.conj_physical().conj()
        return (-plain)._neg_view() if value.is_floating_point() else value
    if type(value) in (list, tuple):
        return type(value)(turned(v) for v in value)
    if isinstance(value, dict):
        return {key: turned(v) for key, v in value.items()}
    return value


def tensors(value: Any) -> Iterator[Any]:
    if isinstance(value, torch.Tensor | ad.Tensor):
        yield value
    elif isinstance(value, list | tuple | dict):
        for part in value.values() if isinstance(value, dict) else value:
            yield from tensors(part)


def outcome(function: Any, args: Any, kwargs: Any) -> Any:
    torch.manual_seed(7)
    ad.manual_seed(7)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return function(*args, **kwargs)
    except Exception as error:
        return error


def facts(results: Any) -> list[tuple[bool, bool]]:
    return [(t.is_conj(), t.is_neg()) for t in tensors(results)]


def numbers(t: Any) -> Any:
    return t.detach().resolve_conj().resolve_neg().numpy()


def differences(name: str, op: Any, dtype: Any) -> Iterator[str]:
    torch.manual_seed(0)
    for sample in itertools.islice(op.sample_inputs("cpu", dtype), SAMPLES):
        try:
            args, kwargs = call_of(sample)
        except Unsupported:
            continue
        want = outcome(op.op, turned([sample.input, *sample.args]), turned(sample.kwargs))
        got = outcome(ours(op), turned(args), turned(kwargs))
        if isinstance(want, Exception) or isinstance(got, Exception):
            if isinstance(want, Exception) != isinstance(got, Exception):
                yield f"{name} {dtype}: {got!r:.200}, torch {want!r:.200}"
        elif facts(got) != facts(want):
            yield f"{name}: {facts(got)}, torch {facts(want)}"
        elif not any(part in name for part in VALUES_DIFFER):
            yield from (f"{name} {dtype}: {wrong}" for wrong in unequal(got, want))


def unequal(got: Any, want: Any) -> Iterator[str]:
    for a, b in zip(tensors(got), tensors(want), strict=True):
        if b.layout is not torch.strided or b.dtype in (torch.bfloat16, torch.float16):
            continue
        if not np.allclose(numbers(a), numbers(b), 1e-6, 1e-8, equal_nan=True):
            yield f"{numbers(a)}, torch {numbers(b)}"


@pytest.mark.parametrize("part", range(PARTS))
def test_results_have_the_bits_that_torchs_have(part: int) -> None:
    found = []
    for name, op in list(database().items())[part::PARTS]:
        if torch.complex128 in op.dtypes:
            found += list(differences(name, op, torch.complex128))
    assert not found, "\n".join(found)
