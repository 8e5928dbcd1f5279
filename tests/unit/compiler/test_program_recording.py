"""What ends a recording, with which words.

Programs that are easy to get wrong: test_program_memory.py and its neighbours.
"""

from __future__ import annotations

import copy
import pickle
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint import _core

F = ad.nn.functional


def refused(f: Callable[..., Any], *inputs: ad.Tensor) -> str | None:
    """Why `f` cannot be recorded; None if it can."""
    recording = _core._Recording(list(inputs))
    recording.start()
    try:
        f(*inputs)
    finally:
        recording.stop()
    assert not _core._is_recording()
    why = recording.refused()
    return None if why is None else why[0]


# --- values and memory that leave or enter
# -------------------------------------------------------------------------------------------------
WEIGHT = ad.ones(3, requires_grad=True)
ENDS: dict[str, tuple[str, Callable[[ad.Tensor], Any]]] = {
    "item": ("item", lambda x: x.sum().item()),
    "if": ("where", lambda x: x if x.sum() > 0 else -x),
    "float": ("number", lambda x: float(x[0])),
    "int": ("number", lambda x: int(x[0])),
    "complex": ("item", lambda x: complex(x[0])),
    "index": ("number", lambda x: [1, 2, 3][x.argmax()]),
    "tolist": ("tolist", lambda x: x.tolist()),
    "numpy": ("external", lambda x: x.numpy()),
    "asarray": ("external", lambda x: np.asarray(x)),
    "ufunc": ("external", lambda x: np.sin(x)),
    "memoryview": ("external", lambda x: memoryview(x)),
    "dlpack": ("DLPack", lambda x: np.from_dlpack(x)),
    "data_ptr": ("memory", lambda x: x.data_ptr()),
    "storage": ("memory", lambda x: x.untyped_storage()),
    "repr": ("printed", repr),
    "str": ("printed", str),
    "f-string": ("printed", lambda x: f"{x}"),
    "format": ("item", lambda x: f"{x[0]:.2f}"),
    "pickle": ("memory", pickle.dumps),
    "deepcopy": ("clone", copy.deepcopy),
    "in": ("any", lambda x: 2.0 in x),
    "equal": ("depends on data", lambda x: x.equal(x)),
    "allclose": ("depends on data", lambda x: x.allclose(x)),
    "mask": ("depends on data", lambda x: x[x > 1]),
    "nonzero": ("depends on data", lambda x: x.nonzero()),
    "position": ("index_select", lambda x: x[x.argmax()]),
    "a tensor for a number": ("number", lambda x: ad.full((3,), x[0])),
    "a tensor for an int": ("int", lambda x: x.narrow(0, ad.tensor(1), 1)),
    "a list of tensors": ("stack", lambda x: ad.tensor([x[0], x[1]])),
    "data": ("copy_", lambda x: setattr(x, "data", ad.zeros(3))),
    "set_": ("copy_", lambda x: x.set_(ad.zeros(3))),
    "resize_": ("resize_", lambda x: x.resize_(2)),
    "unsqueeze_": ("in place", lambda x: x.clone().unsqueeze_(0)),
    "out": ("out=", lambda x: ad.add(x, x, out=ad.empty(3))),
    "requires_grad_": ("requires_grad", lambda x: x.requires_grad_()),
    "register_hook": ("hook", lambda x: WEIGHT.register_hook(print).remove()),
    "version": ("_version", lambda x: x._version),
    "base": ("_base", lambda x: x._base),
    "offset": ("storage_offset", lambda x: x.storage_offset()),
    "from_numpy": ("before the call", lambda x: ad.from_numpy(np.ones(3))),
    "tensor of an array": ("before the call", lambda x: ad.tensor(np.ones(3))),
    "as_tensor of an array": ("before the call", lambda x: ad.as_tensor(np.ones(3))),
    "asarray of an array": ("before the call", lambda x: ad.asarray(np.ones(3))),
    "frombuffer": ("before the call", lambda x: ad.frombuffer(bytearray(8), dtype=ad.float32)),
    "from_dlpack": ("before the call", lambda x: ad.from_dlpack(np.ones(3))),
    "an array": ("before the call", lambda x: x * np.ones(3)),
    "manual_seed": ("seeded", lambda x: ad.default_generator.manual_seed(1)),
    "rng state": ("generator", lambda x: ad.random.get_rng_state()),
    "Generator": ("generator", lambda x: ad.randn(3, generator=ad.Generator())),
    "apply_": ("tolist", lambda x: x.apply_(lambda v: v + 1)),
    "is_nonzero": ("where", lambda x: x[0].is_nonzero()),
}


@pytest.mark.parametrize("name", ENDS)
def test_what_leaves_or_enters_unseen_ends_a_recording(name: str) -> None:
    words, f = ENDS[name]
    reason = refused(f, ad.tensor([1.0, 2.0, 3.0]))
    assert reason is not None and words in reason, reason


def test_modes_that_look_at_values_or_are_left_on_end_a_recording() -> None:
    def anomaly(x: ad.Tensor) -> None:
        with ad.autograd.detect_anomaly():
            x.sin()

    def inference(x: ad.Tensor) -> None:
        with ad.inference_mode():
            x.sin()

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert "anomaly" in str(refused(anomaly, ad.ones(2)))
    assert "inference_mode" in str(refused(inference, ad.ones(2)))
    before = ad.is_grad_enabled()
    try:
        assert "left switched" in str(refused(lambda x: ad.set_grad_enabled(False), ad.ones(2)))
    finally:
        ad.set_grad_enabled(before)


CONSTANTS: dict[str, Callable[[ad.Tensor], Any]] = {
    "tensor": lambda x: x * ad.tensor([1.0, 2.0, 3.0]),
    "number": lambda x: x + ad.tensor(2),
    "Tensor": lambda x: x * ad.Tensor([1, 2, 3]),
    "FloatTensor": lambda x: x * ad.FloatTensor([1, 2, 3]),
    "new_tensor": lambda x: x * x.new_tensor([1.0, 2.0, 3.0]),
    "range": lambda x: x * ad.tensor(range(3)),
    "Parameter": lambda x: x * ad.nn.Parameter(ad.zeros(3)),
    "scalar_tensor": lambda x: x * ad.scalar_tensor(3.0),
    "setitem": lambda x: x.clone().__setitem__(0, 5.0),
    "setitem by mask": lambda x: x.clone().__setitem__(x > 1, 0.0),
    "iteration": lambda x: sum(x),
    "True as an index": lambda x: x[True],
    "a list as an index": lambda x: x[[0, 1]],
    "detach": lambda x: x * WEIGHT.detach(),
    "data": lambda x: x * WEIGHT.data,
    "hash": hash,
    "copy": lambda x: copy.copy(x) * 2,
}


@pytest.mark.parametrize("name", CONSTANTS)
def test_constants_views_and_the_like_are_recorded(name: str) -> None:
    assert refused(CONSTANTS[name], ad.tensor([1.0, 2.0, 3.0])) is None


def test_a_refused_recording_leaves_nothing_switched_on() -> None:
    x = ad.ones(3, requires_grad=True)
    recording = _core._Recording([x])
    recording.start()
    y = (x * 2).sum()
    assert _core._is_recording()
    y.item()
    assert not _core._is_recording()
    y.backward()  # goes on as if nothing had been recorded
    recording.stop()
    assert not _core._is_recording() and not _core._is_unusual_mode()
    assert recording.refused() is not None and x.grad.tolist() == [2.0, 2.0, 2.0]
    with pytest.raises(RuntimeError, match="item"):
        recording.program(0, recording.size(), [x], [y])


def test_one_recording_at_a_time() -> None:
    first, second = _core._Recording([]), _core._Recording([])
    first.start()
    try:
        with pytest.raises(Exception, match="under way"):
            second.start()
    finally:
        first.stop()
    second.start()
    second.stop()
    assert not _core._is_recording()
