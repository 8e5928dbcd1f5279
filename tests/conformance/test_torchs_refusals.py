"""What torch's own tests say must be refused (`error_inputs` of `op_db`) is refused here, with the
same class or one derived from it; and every argument may be anything at all.
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import adjoint as ad
from tests.conformance.opinfo import Unsupported, call_of, database, ours

torch = pytest.importorskip("torch")

# Parts of torch's messages that we do not share, and why.
LEFT = {
    # Where both sides overlap, the right one is read as it was before (docs/guides/in-place.md).
    "some elements of the input tensor and the written-to tensor refer to a single memory": "*",
    # A TypeError here: numbers are wanted, of which a tensor without axes is one.
    "only supports 0-dimensional start and end tensors": "linspace logspace",
    # torch's sample is for a wrapper with other arguments.
    "normal expects std >= 0.0": "normal",
}


def error_of(call: Callable[[], Any]) -> Exception | None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            call()
        except Exception as error:
            return error
    return None


def is_left(name: str, theirs: Exception) -> bool:
    return any(
        part in str(theirs) and (names == "*" or name in names.split())
        for part, names in LEFT.items()
    )


@pytest.mark.parametrize("name", [n for n, op in database().items() if op.error_inputs_func])
def test_what_torch_refuses_is_refused(name: str) -> None:
    op = database()[name]
    function = ours(op.name)
    assert function is not None
    for number, wrong in enumerate(op.error_inputs("cpu")):
        sample = wrong.sample_input
        theirs = error_of(lambda s=sample: op.op(s.input, *s.args, **s.kwargs))
        if theirs is None or is_left(op.name, theirs):
            continue
        try:
            args, kwargs = call_of(sample)
        except Unsupported:
            continue
        except (RuntimeError, ValueError):
            continue  # more axes than 64, or memory that torch took away: refused already
        found = error_of(lambda a=args, k=kwargs: function(*a, **k))
        assert isinstance(found, type(theirs)), f"{number}: {found!r} where torch has {theirs!r}"


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
