"""Files of PyTorch's `save` are read as PyTorch reads them."""

from __future__ import annotations

import io
import re
from collections import Counter, OrderedDict, defaultdict
from typing import Any

import pytest

import adjoint as ad

torch = pytest.importorskip("torch")


OLD = {"_use_new_zipfile_serialization": False}


def both(obj: Any, **options: Any) -> tuple[Any, Any]:
    """What adjoint and PyTorch load of what PyTorch saved."""
    file = io.BytesIO()
    torch.save(obj, file, **options)
    file.seek(0)
    theirs = torch.load(file, weights_only=False)
    file.seek(0)
    return ad.load(file), theirs


VALUES = [
    None, True, 3, 2**70, -(2**40), 10**300, 0.5, -0.0, 1j, "text", "é\ud800", b"", b"raw\xff",
    bytearray(b"ab"), bytearray(), (), (1, (2, 3)), [1, [2]], {"a": 1, 2: "b", (1, 2): None},
    {1, 2}, set(), frozenset({1}), OrderedDict(a=1), Counter("hello"), defaultdict(list, a=[1]),
    defaultdict(int, a=1), defaultdict(None, a=1), defaultdict(set), defaultdict(bytes), [[]] * 3,
    defaultdict(str), defaultdict(complex), defaultdict(bool), "a" * 300, b"b" * 300,
    list(range(2000)), {str(i): i for i in range(2000)}, tuple(range(10)),
]  # fmt: skip


@pytest.mark.parametrize("value", VALUES, ids=lambda value: f"{type(value).__name__} {value!r:.20}")
@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_values(value: Any, protocol: int) -> None:
    ours, theirs = both({"x": value}, pickle_protocol=protocol)
    assert type(ours["x"]) is type(theirs["x"]) and repr(ours) == repr(theirs)


x = torch.arange(24.0).reshape(2, 3, 4)
TENSORS = {
    "whole": x, "turned": x.permute(2, 0, 1), "row": x[1], "steps": x[:, ::2], "number": x.sum(),
    "empty": torch.ones(0, 3), "spread": torch.ones(1).expand(3, 2), "bool": x > 3, "int": x.int(),
    "leaf": torch.ones(2, requires_grad=True), "bfloat16": x.bfloat16(), "half": x.half(),
    "complex": torch.ones(2, dtype=torch.complex64), "uint8": x.to(torch.uint8),
    "parameter": torch.nn.Parameter(torch.ones(2)), "int8": x.to(torch.int8),
    "frozen": torch.nn.Parameter(torch.ones(2), requires_grad=False), "long": x.long(),
    "conjugated": torch.tensor([1 + 2j, 3]).conj(), "negated": torch.tensor([1 + 2j]).conj().imag,
    "both": torch.tensor([1 + 2j]).conj().imag.requires_grad_(), "double": x.double(),
    "short": x.short(), "complex128": torch.ones(2, dtype=torch.complex128),
}  # fmt: skip


@pytest.mark.parametrize("options", [{}, OLD], ids=["zip", "old"])
@pytest.mark.parametrize("name", TENSORS)
def test_tensors(name: str, options: Any) -> None:
    ours, theirs = both(TENSORS[name], **options)
    assert str(ours.dtype) == str(theirs.dtype) and tuple(ours.shape) == tuple(theirs.shape)
    assert ours.stride() == theirs.stride() and ours.storage_offset() == theirs.storage_offset()
    assert ours.tolist() == theirs.tolist() and ours.requires_grad == theirs.requires_grad
    assert type(ours).__name__ == type(theirs).__name__
    assert ours.is_conj() == theirs.is_conj() and ours.is_neg() == theirs.is_neg()
    assert ours.untyped_storage().nbytes() == theirs.untyped_storage().nbytes()


@pytest.mark.parametrize("options", [{}, OLD], ids=["zip", "old"])
def test_sharing_and_attributes(options: Any) -> None:
    t, inner = torch.arange(6.0), [1]
    t.tag = "a"
    model = torch.nn.BatchNorm1d(2)
    saved = [t, t[2:], inner, inner, model.state_dict(), torch.Size([2]), torch.float16, t]
    ours, _ = both(saved, **options)
    ours[0][2] = 9.0
    assert ours[1][0] == 9.0 and ours[2] is ours[3] and ours[0].tag == "a" and ours[7] is ours[0]
    assert ours[4]._metadata == model.state_dict()._metadata
    assert ours[5] == ad.Size([2]) and ours[6] is ad.float16


@pytest.mark.parametrize("options", [{}, OLD], ids=["zip", "old"])
def test_a_state_of_training_is_read(options: Any) -> None:
    model = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.BatchNorm1d(3))
    optimiser = torch.optim.Adam(model.parameters())
    model(torch.ones(4, 2)).sum().backward()
    optimiser.step()
    state = {"o": optimiser.state_dict(), "r": torch.get_rng_state(), "epoch": 3}
    ours, theirs = both(state, **options)
    assert ours["o"]["param_groups"] == theirs["o"]["param_groups"]
    assert ours["o"]["state"][0]["exp_avg"].tolist() == theirs["o"]["state"][0]["exp_avg"].tolist()
    assert ours["r"].tolist() == theirs["r"].tolist()


def test_what_pytorch_calls_damaged_is_damaged() -> None:
    file = io.BytesIO()
    torch.save({"w": torch.arange(100.0)}, file)
    data = file.getvalue()
    for cut in range(0, len(data) - 1, 37):
        with pytest.raises(ad.serialization.LoadError):
            ad.load(io.BytesIO(data[:cut]))


UNKNOWN = {
    "module": (torch.nn.Linear(2, 2), r"Weights only load failed: .* weights_only=False"),
    "function": (torch.nn.functional.relu, r"add_safe_globals\(\[relu\]\)"),
}


@pytest.mark.parametrize("name", UNKNOWN)
def test_what_is_not_data_is_refused_with_advice(name: str) -> None:
    obj, advice = UNKNOWN[name]
    file = io.BytesIO()
    torch.save({"x": [obj]}, file)
    file.seek(0)
    with pytest.raises(ad.serialization.LoadError, match=re.compile(advice, re.DOTALL)):
        ad.load(file)
