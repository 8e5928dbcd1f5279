"""What runs where a member is evaluated: the call, its backward pass, and the graphs kept between.

A job names everything it needs: what all members share travels once to each place (`Parcel`), the
member with each job. A graph is kept under a token; if it is not there when its gradient is asked
for (another place, or too many were kept since), the call is repeated with the same random numbers.
"""

from __future__ import annotations

import contextlib
import pickle
import threading
import traceback
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import adjoint as ad
from adjoint import _tree
from adjoint._core import Tensor
from adjoint.autograd._hidden_read_names import describe as names_of

__all__ = [
    "Answer",
    "AsItIs",
    "Job",
    "Packed",
    "Parcel",
    "ParcelMissing",
    "is_variable",
    "pickled",
    "pickled_with_main",
    "pull_back",
    "release",
    "run",
    "unpack",
]

_MOST_GRAPHS = 256  # kept in one process; older ones are computed again
_MOST_PARCELS = 8


class ParcelMissing(Exception):
    """The job came without what all members share, and this process does not have it (any more)."""


@dataclass(frozen=True)
class AsItIs:
    """What stays in this process is not pickled."""

    value: Any


Packed = bytes | AsItIs


def unpack(packed: Packed) -> Any:
    """What was packed."""
    return pickle.loads(packed) if isinstance(packed, bytes) else packed.value


def pickled(thing: Any, what: str) -> bytes:
    """What travels between processes; `what` is for the error."""
    try:
        return pickle.dumps(thing, protocol=5)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        return _by_value(thing, what, str(error))


def pickled_with_main(thing: Any, what: str) -> bytes:
    """The same for a process that has another main program: what this one defines goes along."""
    plain = pickled(thing, what)
    if b"__main__" not in plain:
        return plain
    return _by_value(thing, what, "it is defined in the program that runs here")


def _by_value(thing: Any, what: str, why: str) -> bytes:
    try:
        import cloudpickle
    except ImportError as error:
        raise TypeError(
            f"parallel.map: {what} cannot be sent to another process: {why}.\n"
            "  fix: define functions and classes at the top of a module that can be imported "
            "there, or pip install cloudpickle"
        ) from error
    return bytes(cloudpickle.dumps(thing, protocol=5))


@dataclass(frozen=True)
class Parcel:
    """The function and the shared arguments; without content if the place has it already."""

    name: str
    content: Packed | None


@dataclass(frozen=True)
class Job:
    """One member: its packed argument; ``token`` names the evaluation, ``seed`` its numbers."""

    parcel: Parcel
    args: Packed
    token: str
    seed: int


@dataclass(frozen=True)
class Answer:
    """Results: their structure with plain tensors, and which of the tensors have a gradient."""

    result: Packed
    differentiable: tuple[bool, ...]


_lock = threading.RLock()  # a finalizer, which calls release(), may run where it is held
_parcels: OrderedDict[str, tuple[Any, Any]] = OrderedDict()
_graphs: OrderedDict[str, tuple[list[Tensor], list[Tensor]]] = OrderedDict()


def is_variable(leaf: Any) -> bool:
    """Whether a leaf of the arguments may have a gradient."""
    return isinstance(leaf, Tensor) and (leaf.is_floating_point() or leaf.is_complex())


def run(job: Job, wants_gradient: bool, keep: bool, records: bool) -> Answer:
    """Evaluate a member; keep its graph if a gradient will be asked for.

    Gradients may be on (``records``) where no argument wants one.
    """
    with _errors_that_travel(job):
        return _run(job, wants_gradient, keep, records)


def _run(job: Job, wants_gradient: bool, keep: bool, records: bool) -> Answer:
    inputs, result = _evaluate(job, wants_gradient, records)
    leaves, spec = _tree.flatten(result)
    tensors = [leaf for leaf in leaves if isinstance(leaf, Tensor)]
    plain = [leaf.detach() if isinstance(leaf, Tensor) else leaf for leaf in leaves]
    if wants_gradient and keep:
        _keep(job.token, inputs, tensors)
    answer = _packed_like(job.args, _tree.unflatten(spec, plain))
    return Answer(answer, tuple(wants_gradient and t.requires_grad for t in tensors))


def _packed_like(other: Packed, thing: Any) -> Packed:
    return pickled(thing, "a result") if isinstance(other, bytes) else AsItIs(thing)


def pull_back(job: Job, cotangents: Packed) -> Packed:
    """The gradients of a member's variables and of the shared ones, from those of its results."""
    with _errors_that_travel(job):
        return _pull_back(job, cotangents)


@contextlib.contextmanager
def _errors_that_travel(job: Job) -> Iterator[None]:
    """Put another error in the place of one that cannot be sent: a pool would break by it."""
    try:
        yield
    except Exception as error:
        if isinstance(job.args, bytes) and not _is_sendable(error):
            told = "".join(traceback.format_exception(error))
            raise RuntimeError(
                f"{type(error).__qualname__}: {error}\nin another process, from where this error "
                f"cannot be sent, since it cannot be unpickled:\n{told}"
            ) from None
        raise


def _is_sendable(error: Exception) -> bool:
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:  # whatever its class does when it is made anew
        return False
    return True


def _pull_back(job: Job, cotangents: Packed) -> Packed:
    with _lock:
        found = _graphs.get(job.token)
    if found is None:
        inputs, result = _evaluate(job, True, True)
        outputs = [leaf for leaf in _tree.flatten(result)[0] if isinstance(leaf, Tensor)]
    else:
        inputs, outputs = found
    given = unpack(cotangents)
    pairs = [(y, g) for y, g in zip(outputs, given, strict=True) if g is not None]
    ys, gs = [y for y, _ in pairs], [g for _, g in pairs]
    found_gradients: Any = [None] * len(inputs)
    if ys and inputs:
        found_gradients = ad.autograd.grad(ys, inputs, gs, retain_graph=True, allow_unused=True)
    return _packed_like(cotangents, list(found_gradients))


def release(tokens: list[str]) -> None:
    """Forget graphs that nobody can ask for any more."""
    with _lock:
        for token in tokens:
            _graphs.pop(token, None)


def _evaluate(job: Job, wants_gradient: bool, records: bool) -> tuple[list[Tensor], Any]:
    """Call the function on fresh leaves: the variables, and the result."""
    function, shared = _unpacked(job.parcel)
    leaves, spec = _tree.flatten((unpack(job.args), shared))
    inputs: list[Tensor] = []
    for k, leaf in enumerate(leaves):
        if isinstance(leaf, Tensor):
            leaves[k] = leaf.detach()
            if is_variable(leaf) and wants_gradient:
                leaves[k].requires_grad_()
                inputs.append(leaves[k])
    member, rest = _tree.unflatten(spec, leaves)
    with ad.random._own_stream(job.seed), ad.set_grad_enabled(records):
        result = function(member, *rest)
    if records:
        _refuse_hidden(function, (member, rest), result, inputs)
    return inputs, result


def _refuse_hidden(function: Any, args: Any, result: Any, inputs: list[Tensor]) -> None:
    """Raise if the result depends on a leaf that is not an argument: its gradient would be lost.

    What the function makes for itself (a model that it trains) is nobody else's, and may go where
    no gradient is wanted. Where one is, it cannot be told from a copy for sure.
    """
    known = {id(leaf) for leaf in inputs}
    outputs = [t for t in _tree.flatten(result)[0] if isinstance(t, Tensor) and t.requires_grad]
    found = [leaf.variable for leaf in ad.graph(outputs).leaves] if outputs else []
    hidden = [t for t in found if t is not None and id(t) not in known]
    if not hidden:
        return
    name = getattr(function, "__qualname__", type(function).__qualname__)
    inner = getattr(function, "function", function)  # `_modules._OfParameters`
    said = names_of([("args", args)], inner, hidden, name)
    for text, variable in zip(said, hidden, strict=True):
        if not inputs and text.startswith("a tensor ("):
            continue
        raise RuntimeError(
            f"parallel.map: `{name}` reads a tensor of shape {list(variable.shape)} that "
            "requires a gradient and is not one of its arguments; a copy of it was read where "
            "the member ran, so its gradient would be lost.\n"
            "  fix: pass it with shared=(...), or detach it"
        )


def _unpacked(parcel: Parcel) -> tuple[Any, Any]:
    with _lock:
        found = _parcels.get(parcel.name)
    if found is None:
        if parcel.content is None:
            raise ParcelMissing(parcel.name)
        found = unpack(parcel.content)
        with _lock:
            _parcels[parcel.name] = found
            while len(_parcels) > _MOST_PARCELS:
                _parcels.popitem(last=False)
    return found


def _keep(token: str, inputs: list[Tensor], outputs: list[Tensor]) -> None:
    with _lock:
        _graphs[token] = (inputs, outputs)
        while len(_graphs) > _MOST_GRAPHS:
            _graphs.popitem(last=False)
