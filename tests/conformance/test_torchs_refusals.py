"""What torch's own tests say must be refused (`error_inputs` of `op_db`) is refused here, with the
same class or one derived from it; and every argument may be anything at all.
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Iterator
from typing import Any

import pytest

import adjoint as ad
from tests.conformance.opinfo import database
from tests.conformance.refusals import error_of, replay_refusals

torch = pytest.importorskip("torch")


@pytest.mark.parametrize("name", [n for n, op in database().items() if op.error_inputs_func])
def test_what_torch_refuses_is_refused(name: str) -> None:
    differences = replay_refusals(name).differences
    assert not differences, "\n".join(map(str, differences))


# --- arguments of any kind ------------------------------------------------------------------------
JUNK = [None, "a", 1.5, [1.0], object(), {}, 3]
SETTINGS = {
    "save", "load", "compile", "manual_seed", "seed", "set_rng_state", "set_printoptions",
    "set_num_threads", "set_default_device", "set_default_dtype", "set_default_tensor_type",
    "set_float32_matmul_precision", "use_deterministic_algorithms", "share_memory_", "backward",
    "set_warn_always", "set_deterministic_debug_mode", "set_num_interop_threads",
}  # fmt: skip


def functions() -> Iterator[tuple[str, str]]:
    for room in ("", "nn.functional", "special", "Tensor"):
        for name in dir(place(ad, room)):
            if not hasattr(place(ad, room), name):
                continue  # named as absent
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of names that PyTorch is about to drop
                theirs = getattr(place(torch, room), name, None)
            private = name.startswith("_") or name in SETTINGS
            if callable(theirs) and not inspect.isclass(theirs) and not private:
                yield room, name


def place(library: Any, room: str) -> Any:
    for part in room.split(".") if room else ():
        library = getattr(library, part)
    return library


def wanted(function: Any) -> int:
    """How many arguments a function needs at least, as far as it tells."""
    try:
        given = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return 1
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return sum(p.default is p.empty and p.kind in kinds for p in given)


@pytest.mark.parametrize(("room", "name"), list(functions()))
def test_what_is_not_a_tensor_is_never_an_attribute_error(room: str, name: str) -> None:
    x = ad.ones(2, 2)
    method = room == "Tensor"
    function = getattr(x if method else place(ad, room), name)
    for count in range(1, min(max(wanted(function), 1), 4) + 1):
        for at in range(count):
            for junk in JUNK:
                args = [junk if i == at else ad.ones(2, 2) for i in range(count)]
                error = error_of(lambda a=args: function(*a))
                assert not isinstance(error, AttributeError), f"{args}: {error}"
