"""Programs in files: `Compiled.save`, and `load`, which gives them to the same function elsewhere.

A file holds data: op names, numbers, tensors. Of the function and of all that it reads it holds
fingerprints, by which `load` knows that they are what they were. What is compared before each
replay is found anew, by a walk over the names of the code that had run (`_walk`), without running
it. Read next: _exchange.py, for the programs; _fingerprints.py.
"""

from __future__ import annotations

import builtins
import hashlib
import json
import sys
import types
import warnings
from collections.abc import Callable, Sequence
from os import PathLike
from typing import Any

import adjoint as ad
from adjoint import _core, _tree
from adjoint._core import Tensor

from ._call_kinds import key_of
from ._compile import Compiled, CompileWarning, level_of_user
from ._exchange import program_from, to_data
from ._fingerprints import code_print, guards_print, own_codes
from ._recorded import Recorded
from ._visible import FOLLOWED, OWN
from ._walk import Walk

__all__ = ["load", "save"]

_FORMAT = "adjoint.compiled/1"
_PLAIN = (type(None), bool, int, float, str)


class _Unfit(Exception):
    """A recording of a file is for another function than this."""


# -- to a file -------------------------------------------------------------------------------------


def save(compiled: Compiled, path: str | PathLike[str]) -> None:
    """Write the programs of a compiled function to a file; see `Compiled.save`."""
    constants: list[Tensor] = []
    calls = [
        _call_data(kind, one, constants)
        for kind, recordings in compiled._kinds.items()
        for one in recordings
        if not one.is_lost()
    ]
    if not calls:
        raise ValueError(f"save(): {compiled!r} has no programs yet; fix: call it first")
    text = json.dumps({"calls": calls, **_surroundings()})
    digest = _digest(text, constants)
    ad.save({"format": _FORMAT, "programs": text, "constants": constants, "digest": digest}, path)


def _digest(text: str, constants: list[Tensor]) -> str:
    """What tells a file that was damaged."""
    found = hashlib.sha256(text.encode())
    for t in constants:
        found.update(f"{t.dtype} {list(t.shape)} {list(t.stride())}".encode())
        found.update(t.detach().contiguous().numpy().tobytes())
    return found.hexdigest()


def _surroundings() -> dict[str, Any]:
    return {
        "version": ad.__version__,
        "instruction_set": _core.instruction_set(),
        "python": ".".join(map(str, sys.version_info[:3])),
    }


def _call_data(kind: Any, one: Recorded, constants: list[Tensor]) -> dict[str, Any]:
    def refuse(why: str) -> ValueError:
        return ValueError(f"save(): a program cannot be written to a file: {why}")

    if not isinstance(kind[0], int):
        raise refuse("its arguments are nested; fix: pass tensors and numbers one by one")
    values = kind[2] if len(kind) > 2 else (None,) * kind[0]
    arguments = [None if v is None else getattr(v[1], "value", v[1]) for v in values]
    if not all(isinstance(v, _PLAIN) for v in arguments) or any(
        v is not None and v[0] not in _PLAIN for v in values
    ):
        raise refuse("an argument is neither a tensor nor a number nor a text")
    one.finish()
    if one.reached:
        raise refuse(
            "it reads tensors that are not arguments (by a closure, a global, a module); fix: pass "
            "them as arguments"
        )
    guards = one.guards
    if guards.later or guards.memory or guards.steps or guards.arguments or one.calls_python:
        raise refuse("it calls Python, has hooks, or reads arrays or optimisers")
    try:
        programs = [to_data(one.program, constants)]
        backward = None if one.backward is None else to_data(one.backward, constants)
        partial = [
            [list(mask), to_data(program, constants), places]
            for mask, (program, places) in one.partial.items()
        ]
    except ValueError as error:
        raise refuse(str(error)) from None
    return {
        "modes": kind[1],
        "tensors": [v is None for v in values],
        "arguments": [v.hex() if type(v) is float else v for v in arguments],
        "floats": [type(v) is float for v in arguments],
        "result": _template(one),
        "values": one.values,
        "from_outputs": one.from_outputs,
        "from_inputs": one.from_inputs,
        "single": one.single,
        "count": one.count,
        "differentiable": one.differentiable,
        "intermediate": one.inner,
        "no_backward": one.no_backward,
        "forward": programs[0],
        "backward": backward,
        "partial": partial,
        "codes": [[how, code_print(code), module] for code, how, module in one.codes],
        "guards": guards_print(guards),
    }


def _template(one: Recorded) -> Any:
    """The structure of the result, with a number for each leaf."""

    def shape(thing: Any) -> Any:
        if type(thing) is int:
            return thing
        if type(thing) in (list, tuple):
            return {type(thing).__name__: [shape(part) for part in thing]}
        if type(thing) is dict and all(type(key) is str for key in thing):
            return {"dict": [[key, shape(part)] for key, part in thing.items()]}
        raise ValueError(f"save(): the result holds a {type(thing).__name__}, which is not data")

    if not all(isinstance(value, _PLAIN) for value in one.values):
        raise ValueError(
            "save(): the result holds what is neither a tensor nor a number nor a text"
        )
    return shape(_tree.unflatten(one.spec, list(range(len(one.values)))))


def _structure(template: Any) -> Any:
    if type(template) is int:
        return template
    ((kind, parts),) = template.items()
    if kind == "dict":
        return {str(key): _structure(part) for key, part in parts}
    made = [_structure(part) for part in parts]
    return tuple(made) if kind == "tuple" else made


# -- from a file -----------------------------------------------------------------------------------


def load(path: str | PathLike[str], function: Callable[..., Any], **options: Any) -> Compiled:
    """Compile a function, with the programs that `Compiled.save` has written to a file.

    A file holds data, and no Python of it is executed; but its operations run, and those that are
    adjoint's own trust their operands: load programs from where you would load code. A recording
    whose function, or what it reads, is not what it was is left out, with a `CompileWarning`: the
    first such call is recorded anew.

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
        if found["digest"] != _digest(found["programs"], constants):
            raise ValueError("it is damaged: its digest is that of another content")
        surroundings = {name: data[name] for name in _surroundings()}
        calls = list(data["calls"])
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise LoadError(f"{path}: this is no file of compiled programs ({error})") from None
    for name, here in _surroundings().items():
        if surroundings[name] != here:
            raise LoadError(
                f"{path}: the programs were written with {name.replace('_', ' ')} "
                f"{surroundings[name]!r}, and this is {here!r}; fix: record and save them here"
            )
    compiled = Compiled(function, **options)
    for call in calls:
        try:
            kind, one = _recording(compiled, call, constants)
        except _Unfit as error:
            message = f"a program of {path} is not used, and recorded anew: {error}"
            warnings.warn(message, CompileWarning, stacklevel=level_of_user())
        except Exception as error:
            first = str(error).partition("\n")[0]
            raise LoadError(
                f"{path}: a program is damaged ({type(error).__name__}: {first})"
            ) from None
        else:
            compiled._kinds.setdefault(kind, []).append(one)
    return compiled


def _recording(compiled: Compiled, call: Any, constants: list[Tensor]) -> tuple[Any, Recorded]:
    places, floats = call["tensors"], call["floats"]
    arguments = [
        float.fromhex(v) if is_float else v
        for v, is_float in zip(call["arguments"], floats, strict=True)
    ]
    if not all(isinstance(v, _PLAIN) for v in arguments) or type(call["modes"]) is not int:
        raise ValueError("an argument is neither a number nor a text")
    keys = tuple(None if tensor else key_of(v) for v, tensor in zip(arguments, places, strict=True))
    kind: Any = (len(keys), call["modes"])
    if any(key is not None for key in keys):
        kind = (*kind, keys)

    def rebuild(others: Sequence[Tensor]) -> Any:
        given = iter(others)
        filled = [next(given) if t else v for v, t in zip(arguments, places, strict=True)]
        return compiled.function(*filled)

    one = Recorded(rebuild)
    program = program_from(call["forward"], constants)
    inputs, outputs = program.counts()
    if inputs != sum(map(bool, places)):
        raise ValueError("a program takes other tensors than its function")
    _take_result(one, call, inputs, outputs)
    backward = None
    if call["backward"] is not None:
        backward = _backward(
            call["backward"], constants, len(one.differentiable), outputs - one.count, inputs
        )
    for mask, data, kept in call["partial"]:
        arrived = tuple(map(bool, mask))
        part = _backward(data, constants, sum(arrived), len(kept), inputs)
        if (
            len(arrived) != len(one.differentiable)
            or part.counts()[0] != sum(arrived) + len(kept)
            or not all(type(k) is int and 0 <= k < outputs - one.count for k in kept)
        ):
            raise ValueError("a backward program reads what is not kept")
        one.partial[arrived] = part, kept
    if one.differentiable and backward is None and not one.no_backward:
        raise ValueError("a backward program is missing")
    stand_ins = [_core.empty(0) for _ in range(inputs)]
    filled = iter(stand_ins)
    args = tuple(next(filled) if t else v for v, t in zip(arguments, places, strict=True))
    walk = _walked(compiled.function, args, call["codes"])
    guards = walk.guards()
    if guards_print(guards) != call["guards"] or guards.later or guards.arguments:
        raise _Unfit("what the function reads is not what it was")
    one.guard_by(guards, stand_ins, [])
    one.codes = walk.ran()
    one.take(program, backward, stand_ins)
    return kind, one


def _backward(data: Any, constants: list[Tensor], grads: int, kept: int, known: int) -> Any:
    """A backward program: gradients and kept values in, gradients of the arguments out."""
    program = program_from(data, constants)
    inputs, outputs = program.counts()
    if outputs != known or not grads <= inputs <= grads + kept:
        raise ValueError("a backward program takes or gives other tensors than its function")
    return program


def _take_result(one: Recorded, call: Any, inputs: int, outputs: int) -> None:
    leaves, one.spec = _tree.flatten(_structure(call["result"]))
    one.values = list(call["values"])
    if leaves != list(range(len(one.values))) or not all(isinstance(v, _PLAIN) for v in one.values):
        raise ValueError("the result has another structure")
    one.count, one.single = call["count"], bool(call["single"])
    one.from_outputs = [(at, k) for at, k in call["from_outputs"]]
    one.from_inputs = [(at, k) for at, k in call["from_inputs"]]
    one.differentiable, one.inner = list(call["differentiable"]), list(call["intermediate"])
    one.no_backward = str(call["no_backward"])
    good = (
        type(one.count) is int
        and 0 <= one.count <= outputs
        and all(0 <= at < len(leaves) and 0 <= k < one.count for at, k in one.from_outputs)
        and all(0 <= at < len(leaves) and 0 <= k < inputs for at, k in one.from_inputs)
        and all(type(k) is int and 0 <= k < one.count for k in (*one.differentiable, *one.inner))
        and len({*one.differentiable}) == len(one.differentiable)
        and (not one.single or one.from_outputs == [(0, 0)])
    )
    if not good:
        raise ValueError("the result is not what the program gives")


def _walked(function: Callable[..., Any], args: tuple[Any, ...], codes: Any) -> Walk:
    """What the function reads, found by the names in the code that had run."""
    walk = Walk(function, (args, {}))
    walk._guarded(walk._begin)
    spaces: dict[types.CodeType, Any] = {}  # code -> the globals that it runs in
    for treated, print_, module in codes:
        how = {FOLLOWED: FOLLOWED, OWN: OWN}.get(treated, "")  # which are known by identity
        code, table = _found(walk, how, print_, module, spaces)
        for one in code.co_consts:
            if isinstance(one, types.CodeType):
                spaces[one] = table
        frame = types.SimpleNamespace(
            f_globals=table, f_builtins=vars(builtins), f_back=None, f_code=code
        )
        walk._codes[code], walk._starting = how, code
        walk._code_modules[code] = module
        walk._guarded(walk._enter, code, frame, how)
    if walk.refusals:
        raise _Unfit(walk.refusals[0].reason)
    return walk


def _found(walk: Walk, how: Any, print_: Any, module: Any, spaces: Any) -> tuple[Any, Any]:
    if how == FOLLOWED:
        for code, held in [*walk._waiting.items()]:
            if code_print(code) == print_:
                one = held[0][0]
                return code, getattr(one, "__func__", one).__globals__
        for code, table in spaces.items():
            if code_print(code) == print_:
                return code, table
        raise _Unfit("its code, or that of a function it calls, is not what it was")
    if how == OWN and isinstance(module, str) and module.partition(".")[0] == "adjoint":
        found = own_codes(module).get(print_)
        if found is not None:
            return found
    raise _Unfit("it runs code that cannot be found here")
