"""Programs in files: `Compiled.save`, and `load`, which gives them to the same function elsewhere.

A file holds data: op names, numbers, tensors that stand in the function. Of the function and of all
that it reads it holds fingerprints, by which `load` knows that they are what they were. What cannot
be found again in another process is refused when it is saved: `save` binds each recording as `load`
would. Read next: _loaded.py, for what becomes of a file; _exchange.py, for the programs.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from os import PathLike, fspath
from typing import Any

import adjoint as ad
from adjoint import _core, _tree
from adjoint._core import Tensor

from ._compile import Compiled
from ._exchange import Tables, to_data
from ._fingerprints import NAMED_TUPLES, code_print, content_print, guards_print, kind_print
from ._loaded import PLAIN, LoadedCall, LoadedCalls, Unfit, not_used, read_tensors, walked
from ._recorded import Recorded

__all__ = ["load", "save"]

_FORMAT = "adjoint.compiled/3"


# -- to a file -------------------------------------------------------------------------------------


def save(compiled: Compiled, path: str | PathLike[str]) -> None:
    """Write the programs of a compiled function to a file; see `Compiled.save`."""
    if not compiled.programs:
        raise ValueError(f"save(): {compiled!r} has no programs yet; fix: call it first")
    constants: list[Tensor] = []
    calls, changed = [], ""
    for kind, recordings in compiled._kinds.items():
        for one in recordings:
            if one.is_lost() or not one.finish():
                continue
            if one.guards.hold():
                calls.append(_call_data(compiled, kind, one, constants))
            else:  # no call would use it now
                changed = one.guards.failed() or ""
    if not calls:
        why = f"what they depend on has changed ({changed})" if changed else "none can be made"
        raise ValueError(f"save(): there are no programs to write: {why}; fix: call it again")
    text = json.dumps({"calls": calls, **_surroundings()})
    digest = content_print(text, constants)  # which tells a file that was damaged
    ad.save({"format": _FORMAT, "programs": text, "constants": constants, "digest": digest}, path)


def _surroundings() -> dict[str, Any]:
    return {
        "version": ad.__version__,
        "instruction_set": _core.instruction_set(),
        "python": ".".join(map(str, sys.version_info[:3])),
    }


def _refuse(why: str) -> ValueError:
    return ValueError(f"save(): a program cannot be written to a file: {why}")


def _call_data(
    compiled: Compiled, kind: Any, one: Recorded, constants: list[Tensor]
) -> dict[str, Any]:
    guards = one.guards
    if guards.steps:
        raise _refuse("it runs an optimiser; fix: compile the loss, and step outside")
    if guards.memory:
        raise _refuse("it reads arrays; fix: make them tensors")
    if guards.later or guards.arguments:
        raise _refuse(
            "it has hooks or custom functions (as checkpoints and `root` have), or asks what kind "
            "of tensor an argument is; fix: leave these outside of the function, and let loops "
            "keep less by memory= instead of a checkpoint"
        )
    codes = [
        [how, code_print(code), module, code.co_qualname]
        for code, how, module in one.codes
        if not module.startswith(NAMED_TUPLES)
    ]
    tensors, tables = _places_of_tensors(compiled, one, codes), Tables(constants)
    try:
        data = {
            "kind": kind_print(kind),
            "modes": kind[1],
            **_arguments(kind),
            "result": _template(one),
            "values": one.values,
            "from_outputs": one.from_outputs,
            "from_inputs": one.from_inputs,
            "single": one.single,
            "count": one.count,
            "differentiable": one.differentiable,
            "intermediate": one.inner,
            "no_backward": one.no_backward,
            "held": [tensors(t) for t in one.program.held()],
            "reached": [tensors(t) for t in one.reached],
            "forward": to_data(one.program, tables),
            "backward": None if one.backward is None else to_data(one.backward, tables),
            "partial": [
                [list(mask), to_data(program, tables), places]
                for mask, (program, places) in one.partial.items()
            ],
            "loops": tables.steps,
            "codes": codes,
            "guards": guards_print(guards),
        }
    except ValueError as error:
        raise _refuse(str(error)) from None
    # What another process would find is found here first.
    try:
        call = LoadedCall(json.loads(json.dumps(data)), constants)
        call.bind(compiled, _shown(one, call.repeats))
    except Exception as error:
        raise _refuse(str(error).partition("\n")[0]) from None
    return data


def _shown(one: Recorded, repeats: list[int] | None = None) -> Any:
    """The arguments of a call; tensors are stand-ins, those that are one tensor one of them."""
    spec, leaves = one.shown
    made = [_core.empty(0) for leaf in leaves if isinstance(leaf, Tensor)]
    given = iter([made[k] for k in repeats or range(len(made))])
    return _tree.unflatten(spec, [next(given) if isinstance(x, Tensor) else x for x in leaves])


def _arguments(kind: Any) -> dict[str, Any]:
    """The arguments that are not tensors, where they are plain: `load` need not wait for a call."""
    values = kind[2] if len(kind) > 2 else (None,) * (kind[0] if isinstance(kind[0], int) else 0)
    plain = [None if v is None else getattr(v[1], "value", v[1]) for v in values]
    plain_kind = isinstance(kind[0], int) and kind[1] in _modes_without_autocast()
    if not plain_kind or not all(isinstance(v, PLAIN) for v in plain):
        return {"arguments": None}
    return {
        "tensors": [v is None for v in values],
        "arguments": [v.hex() if type(v) is float else v for v in plain],
        "floats": [type(v) is float for v in plain],
    }


def _modes_without_autocast() -> set[int]:
    with ad.autocast("cpu", enabled=False):
        with ad.no_grad():
            without = _core._call_mode()
        with ad.enable_grad():
            return {without, _core._call_mode()}


def _places_of_tensors(
    compiled: Compiled, one: Recorded, codes: Any
) -> Callable[[Tensor], tuple[str, int]]:
    """Where a walk like that of `load` finds the tensors that the function reads."""
    try:
        walk = walked(compiled.function, _shown(one), codes)
    except Unfit as error:
        raise _refuse(str(error)) from None
    places = {id(t): where for where, t in read_tensors(walk.guards()).items()}
    if places and one.program.held():
        for thing in walk._reached.values():
            if isinstance(thing, set | frozenset) and not _is_plain(thing):
                raise _refuse("it reads a set of objects, whose order is another in each process")

    def place(t: Tensor) -> tuple[str, int]:
        if id(t) not in places:
            raise ValueError(
                f"it reads a tensor {list(t.shape)} that is not found by a name (it is made by a "
                "call, or given from elsewhere); fix: pass it as an argument"
            )
        return places[id(t)]

    return place


def _is_plain(things: Any) -> bool:
    return all(isinstance(one, (*PLAIN, bytes, complex, type)) for one in things)


def _template(one: Recorded) -> Any:
    """The structure of the result, with a number for each leaf."""

    def shape(thing: Any) -> Any:
        if type(thing) is int:
            return thing
        if type(thing) in (list, tuple):
            return {type(thing).__name__: [shape(part) for part in thing]}
        if type(thing) is dict and all(type(key) is str for key in thing):
            return {"dict": [[key, shape(part)] for key, part in thing.items()]}
        raise ValueError(f"the result holds a {type(thing).__name__}, which is not data")

    if not all(isinstance(value, PLAIN) for value in one.values):
        raise ValueError("the result holds what is neither a tensor nor a number nor a text")
    return shape(_tree.unflatten(one.spec, list(range(len(one.values)))))


# -- from a file -----------------------------------------------------------------------------------


def load(path: str | PathLike[str], function: Callable[..., Any], **options: Any) -> Compiled:
    """Compile a function, with the programs that `Compiled.save` has written to a file.

    A file holds data: no Python of it is executed, and nothing in it is believed. Its programs are
    put together by calling their operations, which check what they are given; what does not fit is
    an error. Tensors that the function reads by itself (closures, globals, parameters of a module)
    are those of this function here. A recording whose function, or what it reads, is not what it
    was is left out, with a `CompileWarning`: the first such call is recorded anew.

    Parameters
    ----------
    path : str or path
        The file.
    function : callable
        The function that was compiled.
    **options
        Those of `compile`.

    Returns
    -------
    Compiled
        The function, which replays from its first call on.

    Raises
    ------
    LoadError
        The file is damaged, or was written by another version of adjoint or Python, or for another
        instruction set.

    Warns
    -----
    CompileWarning
        A recording is not for this function, or it cannot be used here.

    Examples
    --------
    >>> import adjoint as ad, os, tempfile
    >>> def swing(x, k):
    ...     for _ in range(10):
    ...         x = x - 0.1 * k * ad.sin(x)
    ...     return x
    >>> fast = ad.compile(swing)
    >>> first = fast(ad.ones(3), ad.tensor(2.0))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     fast.save(os.path.join(folder, "swing.safetensors"))
    ...     again = ad.compiler.load(os.path.join(folder, "swing.safetensors"), swing)
    >>> len(again.programs), ad.equal(again(ad.ones(3), ad.tensor(2.0)), first)
    (1, True)
    """
    from adjoint.serialization import LoadError

    found = ad.load(path)
    try:
        if found["format"] != _FORMAT:
            raise ValueError(f"its format is {found['format']!r}")
        data, constants = json.loads(found["programs"]), list(found["constants"])
        if not all(type(t) is Tensor for t in constants):
            raise ValueError("its constants are no tensors")
        if found["digest"] != content_print(found["programs"], constants):
            raise ValueError("it is damaged: its digest is that of another content")
        surroundings = {name: data[name] for name in _surroundings()}
        calls = list(data["calls"])
    except (AttributeError, LookupError, TypeError, ValueError, RecursionError) as error:
        raise LoadError(f"{path}: this is no file of compiled programs ({error})") from None
    for name, here in _surroundings().items():
        if surroundings[name] != here:
            raise LoadError(
                f"{path}: the programs were written with {name.replace('_', ' ')} "
                f"{surroundings[name]!r}, and this is {here!r}; fix: record and save them here"
            )
    compiled = Compiled(function, **options)
    waiting = []
    for call in calls:
        try:
            one = LoadedCall(call, constants)
            kind, arguments = one.flat_call() if one.is_flat else (None, None)
        except Exception as error:
            first = str(error).partition("\n")[0]
            raise LoadError(
                f"{path}: a program is damaged ({type(error).__name__}: {first}); "
                "fix: save it again"
            ) from None
        if arguments is None:
            waiting.append(one)
            continue
        try:
            compiled._kinds.setdefault(kind, []).append(one.bind(compiled, arguments))
        except Unfit as error:
            not_used(fspath(path), error)
    if waiting:
        compiled._loaded = LoadedCalls(fspath(path), waiting)
    return compiled
