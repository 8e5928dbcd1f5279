"""What torch's own tests say must be refused (`error_inputs` of `op_db`), asked of us."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

from tests.conformance.opinfo import Unsupported, call_of, entries, ours
from tests.conformance.replay import Difference, Result, same_class, shown


def error_of(call: Callable[[], Any]) -> Any:
    """Return the exception of a call, or its result."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return call()
        except Exception as error:
            return error


def replay_refusals(entry: str) -> Result:
    """Ask for everything that torch refuses."""
    result = Result()
    op = entries()[entry]
    function = ours(op)
    if function is None or op.error_inputs_func is None:
        return result
    for number, wrong in enumerate(op.error_inputs("cpu")):
        sample = wrong.sample_input
        theirs = error_of(lambda s=sample: op.op(s.input, *s.args, **s.kwargs))
        if not isinstance(theirs, Exception):
            result.skipped += 1
            continue
        try:
            args, kwargs = call_of(sample)
        except Unsupported:
            result.skipped += 1
            continue
        except (RuntimeError, ValueError):
            continue  # more axes than 64, or memory that torch took away: refused already
        result.samples += 1
        found = error_of(lambda a=args, k=kwargs: function(*a, **k))
        if not same_class(found, theirs):
            message = f"{shown(found)} where torch has {shown(theirs)}"
            result.differences.append(Difference(entry, "-", number, "refusal", message))
    return result
