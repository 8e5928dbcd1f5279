"""Recordings of a file: programs that wait for a function, and for what it reads.

A file holds no objects. Which tensors a program reads besides its arguments is found by the walk
over the names of the code (`_walk`) that found them when it was saved, without running it: they are
where they were. All else that the walk finds has to have the fingerprint that it had.
 Read next: _saved.py, which writes and reads the files.
"""

from __future__ import annotations

import builtins
import os
import types
import warnings
from collections.abc import Callable, Sequence
from typing import Any

from adjoint import _core, _tree
from adjoint._autocast import in_modes
from adjoint._core import Tensor

from ._call_kinds import key_of, outline
from ._compile import Compiled, CompileWarning, level_of_user
from ._exchange import Described, Tables
from ._fingerprints import code_print, guards_print, kind_print, own_codes
from ._guards import Guards, Kind
from ._recorded import Recorded
from ._visible import FOLLOWED, OWN, OWNED
from ._walk import Walk

__all__ = ["PLAIN", "LoadedCall", "LoadedCalls", "Unfit", "read_tensors", "walked"]

PLAIN = (type(None), bool, int, float, str)
Arguments = tuple[tuple[Any, ...], dict[str, Any]]


class Unfit(Exception):
    """A recording of a file is for another function, or for other surroundings, than these."""


class LoadedCall:
    """One recording of a file; its programs are built, and so compared with what their ops say.

    Raises
    ------
    Exception
        Of whatever kind: the file is damaged.
    """

    def __init__(self, call: Any, constants: list[Tensor]) -> None:
        self._call = call
        self.kind: str = call["kind"]
        for row, length in (
            *((one, 4) for one in call["codes"]),
            *((g, 2) for g in call["guards"]),
        ):
            if len(row) != length or not all(type(part) is str for part in row):
                raise ValueError("what is known of the function is not text")
        self._held, self._reached = _places(call["held"]), _places(call["reached"])
        self._tables = tables = Tables.read(call["loops"], constants)
        self._forward = Described(call["forward"], tables)
        backward = call["backward"]
        self._backward = None if backward is None else Described(backward, tables)
        self._partial = [
            ([*map(bool, mask)], Described(data, tables), places)
            for mask, data, places in call["partial"]
        ]
        self._given = len(self._forward.inputs) - len(self._held)
        self._check_flat()
        self._check_programs()
        self._built: Any = self._build()

    @property
    def is_flat(self) -> bool:
        """Whether the file says what the arguments are."""
        return self._call["arguments"] is not None

    @property
    def repeats(self) -> list[int]:
        """By tensor among the arguments: the first of them that is the same one."""
        return self._forward.repeats[: self._given]

    def _check_flat(self) -> None:
        if self.is_flat and self._given != sum(map(bool, self._call["tensors"])):
            raise ValueError("a program takes other tensors than its function")

    def _check_programs(self) -> None:
        """What one program gives is what the other takes."""
        call, forms = self._call, self._forward
        self._take_result(Recorded(_nothing))
        count, differentiable = call["count"], call["differentiable"]
        if None in forms.outputs:
            raise ValueError("a program has an output less")
        kept = forms.outputs[count:]
        every = (True,) * len(differentiable)
        parts = list(self._partial)
        if self._backward is not None:
            places = list(range(len(self._backward.inputs) - len(every)))
            parts.append(([*every], self._backward, places))
        elif differentiable and not call["no_backward"]:
            raise ValueError("a backward program is missing")
        wanted = len(self._forward.inputs) - len(self._held) + len(self._reached)
        for mask, back, places in parts:
            if len(mask) != len(every) or not all(
                type(k) is int and 0 <= k < len(kept) for k in places
            ):
                raise ValueError("a backward program reads what is not kept")
            arrived = [k for k, on in zip(differentiable, mask, strict=True) if on]
            taken = [*(_like(forms.outputs[k]) for k in arrived), *(kept[k] for k in places)]
            given = [_like(form) for form in back.inputs[: len(arrived)]]
            if [*given, *back.inputs[len(arrived) :]] != taken or len(back.outputs) != wanted:
                raise ValueError(
                    "a backward program takes or gives other tensors than its function"
                )

    def _build(self) -> Any:
        return (
            self._forward.build(self._call["count"], self._call["differentiable"]),
            None if self._backward is None else self._backward.build(),
            {tuple(mask): (part.build(), places) for mask, part, places in self._partial},
        )

    def _take_result(self, one: Recorded) -> None:
        call, inputs = self._call, self._given + len(self._reached)
        leaves, one.spec = _tree.flatten(_structure(call["result"]))
        one.values = list(call["values"])
        one.count, one.single = call["count"], bool(call["single"])
        one.from_outputs = [(at, k) for at, k in call["from_outputs"]]
        one.from_inputs = [(at, k) for at, k in call["from_inputs"]]
        one.differentiable, one.inner = list(call["differentiable"]), list(call["intermediate"])
        one.no_backward = str(call["no_backward"])
        places = (*one.from_outputs, *one.from_inputs, (0, one.count))
        good = (
            leaves == list(range(len(one.values)))
            and all(isinstance(v, PLAIN) for v in one.values)
            and all(type(n) is int for pair in places for n in pair)
            and 0 <= one.count <= len(self._forward.outputs)
            and all(0 <= at < len(leaves) and 0 <= k < one.count for at, k in one.from_outputs)
            and all(0 <= at < len(leaves) and 0 <= k < inputs for at, k in one.from_inputs)
            and all(
                type(k) is int and 0 <= k < one.count for k in (*one.differentiable, *one.inner)
            )
            and len({*one.differentiable}) == len(one.differentiable)
            and (not one.single or (one.from_outputs == [(0, 0)] and one.spec.is_leaf()))
        )
        if not good:
            raise ValueError("the result is not what the program gives")

    def flat_call(self) -> tuple[Any, Arguments]:
        """The kind of the call, and arguments for it whose tensors are stand-ins."""
        call = self._call
        values = [
            float.fromhex(v) if is_float else v
            for v, is_float in zip(call["arguments"], call["floats"], strict=True)
        ]
        if not all(isinstance(v, PLAIN) for v in values) or type(call["modes"]) is not int:
            raise ValueError("an argument is neither a number nor a text")
        places = call["tensors"]
        made = [_core.empty(0) for _ in range(self._given)]
        given = iter([made[k] for k in self.repeats])
        args = tuple(next(given) if t else v for v, t in zip(values, places, strict=True))
        keys = tuple(None if t else key_of(v) for v, t in zip(values, places, strict=True))
        kind: Any = (len(keys), call["modes"])
        return ((*kind, keys) if any(key is not None for key in keys) else kind), (args, {})

    def bind(self, compiled: Compiled, arguments: Arguments) -> Recorded:
        """The recording for a function with such arguments.

        Raises
        ------
        Unfit
            The function, or what it reads, is not what it was.
        """
        for folder in self._tables.folders:
            if not os.path.isdir(folder):
                raise Unfit(f"its loops keep states in {folder!r}, and there is no such folder")
        leaves, spec = _tree.flatten(arguments)
        tensors = [leaf for leaf in leaves if isinstance(leaf, Tensor)]
        stand_in = _core.empty(0)
        shown = [stand_in if isinstance(leaf, Tensor) else leaf for leaf in leaves]
        function, modes = compiled.function, _core._autocast_modes()

        def rebuild(others: Sequence[Tensor]) -> Any:
            given = iter(others)
            filled = [next(given) if isinstance(x, Tensor) else x for x in shown]
            args, kwargs = _tree.unflatten(spec, filled)
            with in_modes(modes):
                return function(*args, **kwargs)

        one = Recorded(rebuild)
        one.shown = spec, shown
        self._take_result(one)
        walk = walked(function, arguments, self._call["codes"])
        guards = walk.guards()
        _compare(guards, self._call["guards"])
        found = read_tensors(guards)
        for path, _ in {*self._held, *self._reached} - found.keys():
            raise Unfit(f"there is no tensor where it reads one ({path})")
        program, backward, one.partial = self._built or self._build()
        try:
            _core._program_bind(program, tensors, [found[k] for k in self._held])
        except ValueError as error:
            raise Unfit(str(error)) from None
        self._built = None
        one.reached = [found[k] for k in self._reached]
        one.guard_by(guards, tensors, outline(arguments)[1])
        one.codes = walk.ran()
        one.take(program, backward, tensors)
        return one


class LoadedCalls:
    """Recordings of a file whose arguments are not in it: nested ones, and objects."""

    def __init__(self, path: str, calls: list[LoadedCall]) -> None:
        self._path, self._calls = path, calls
        self._tried: set[Any] = set()

    def bind(
        self, compiled: Compiled, kind: Any, arguments: Arguments, tensors: list[Tensor]
    ) -> bool:
        """Give a function the recordings for a kind of call; whether one stands for this call."""
        if kind in self._tried:
            return False
        self._tried.add(kind)
        print_, fits = kind_print(kind), False
        for call in self._calls:
            if call.kind != print_:
                continue
            try:
                one = call.bind(compiled, arguments)
            except Unfit as error:
                not_used(self._path, error)
                continue
            compiled._kinds.setdefault(kind, []).append(one)
            fits = fits or (one.accepts(tensors) and one.hold(tensors))
        return fits


def not_used(path: str, error: Unfit) -> None:
    """Say that a recording is made anew."""
    message = f"a program of {path} is not used, and recorded anew: {error}"
    warnings.warn(message, CompileWarning, stacklevel=level_of_user())


def _nothing(others: Sequence[Tensor]) -> Any:
    raise AssertionError("there is no function")


def _places(given: Any) -> list[tuple[str, int]]:
    if not all(type(path) is str and type(k) is int for path, k in given):
        raise ValueError("a tensor that the function reads has no place")
    return [(path, k) for path, k in given]


def _like(form: Any) -> Any:
    """What of a form a gradient shares."""
    return form[0], form[2]


def _structure(template: Any) -> Any:
    if type(template) is int:
        return template
    ((kind, parts),) = template.items()
    if kind == "dict":
        return {str(key): _structure(part) for key, part in parts}
    made = [_structure(part) for part in parts]
    return tuple(made) if kind == "tuple" else made


def _compare(guards: Guards, were: Any) -> None:
    """Raise `Unfit` where something that is read is not what it was."""
    if guards.later or guards.arguments or guards.steps or guards.memory:
        raise Unfit("what the function reads cannot be compared with what it was")
    rows = {tuple(row) for row in guards_print(guards)}
    changed = rows.symmetric_difference((path, print_) for path, print_ in were)
    if changed:
        named = sorted({path for path, _ in changed if path})
        shown = ", ".join(named[:3]) or "a global"
        raise Unfit(f"what the function reads is not what it was ({shown})")


def read_tensors(guards: Guards) -> dict[tuple[str, int], Tensor]:
    """The tensors that a function finds by itself: by path, and which of those it is."""
    found: dict[tuple[str, int], Tensor] = {}
    count: dict[str, int] = {}
    for row in guards.rows(Kind.TENSOR):
        count[row.path] = k = count.get(row.path, -1) + 1
        found[row.path, k] = row.holder
    return found


def walked(function: Callable[..., Any], arguments: Arguments, codes: Any) -> Walk:
    """What the function reads, found by the names in the code that had run.

    Raises
    ------
    Unfit
        Code that had run is not to be found.
    """
    walk = Walk(function, arguments)
    walk._guarded(walk._begin)
    spaces: dict[types.CodeType, Any] = {}  # code -> the globals that it runs in
    for treated, print_, module, name in codes:
        how = {FOLLOWED: FOLLOWED, OWN: OWN}.get(treated, "")  # which are known by identity
        code, table = _found(walk, how, (print_, module, name), spaces)
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
        raise Unfit(walk.refusals[0].reason)
    return walk


def _found(walk: Walk, how: Any, of: tuple[Any, Any, Any], spaces: Any) -> tuple[Any, Any]:
    print_, module, name = of
    if how == FOLLOWED:
        for code, held in [*walk._waiting.items()]:
            if code_print(code) == print_:
                one = held[0][0]
                return code, getattr(one, "__func__", one).__globals__
        for code, table in spaces.items():
            if code_print(code) == print_:
                return code, table
        raise Unfit(f"the code of `{name}` is not what it was, or not to be found by a name")
    if how == OWN and isinstance(module, str) and module.partition(".")[0] in OWNED:
        found = own_codes(module).get(print_)
        if found is not None:
            return found
    raise Unfit(f"it runs `{name}` of {module or 'a module'}, which cannot be found here")
