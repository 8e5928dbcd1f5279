"""Programs as data for files, and back.

A program is built from data by calling its ops, by name and through the checks of the functions
that people call, on stand-ins of the right form, while a recording takes them down: what does not
fit raises. The body of a loop is built once, whatever its
length. Read next: src/bindings/program/exchange.cpp; _saved.py, which writes the files.
"""

from __future__ import annotations

from typing import Any

from adjoint import _core
from adjoint._core import Tensor, default_generator
from adjoint.autograd import no_grad

__all__ = ["program_from", "to_data"]

_DEEPEST = 8  # loops in loops
_MOST = 1 << 31  # elements of a tensor


def to_data(program: Any, constants: list[Tensor]) -> Any:
    """What a program is, as numbers, texts, lists and dicts; its tensors go to ``constants``.

    Raises
    ------
    ValueError
        It holds what is not data.
    """
    return _encode(_core._program_data(program), constants)


def _encode(value: Any, constants: list[Tensor]) -> Any:
    if value is None or type(value) in (bool, int, str):
        return value
    if type(value) is float:
        return {"float": value.hex()}
    if type(value) is complex:
        return {"imaginary": [value.real.hex(), value.imag.hex()]}
    if isinstance(value, _core.dtype):
        return {"dtype": str(value).rpartition(".")[2]}
    if isinstance(value, Tensor):
        constants.append(value)
        return {"tensor": len(constants) - 1}
    if isinstance(value, dict):
        return {"dict": {key: _encode(part, constants) for key, part in value.items()}}
    if isinstance(value, list | tuple):
        return [_encode(part, constants) for part in value]
    raise ValueError(f"a {type(value).__name__} is not data")


def _decode(value: Any, constants: list[Tensor]) -> Any:
    if isinstance(value, list):
        return [_decode(part, constants) for part in value]
    if not isinstance(value, dict):
        return value
    ((kind, inside),) = value.items()
    if kind == "float":
        return float.fromhex(inside)
    if kind == "imaginary":
        return complex(*map(float.fromhex, inside))
    if kind == "dtype":
        found = getattr(_core, inside, None)
        if not isinstance(found, _core.dtype):
            raise ValueError(f"there is no dtype {inside!r}")
        return found
    if kind == "tensor":
        return constants[_index(inside, len(constants))]
    if kind == "dict":
        return {key: _decode(part, constants) for key, part in inside.items()}
    raise ValueError(f"{kind!r} is no kind of data")


def program_from(data: Any, constants: list[Tensor]) -> Any:
    """The program that `to_data` has described, with all its inputs given.

    Raises
    ------
    Exception
        Of whatever kind: there is none.
    """
    state = default_generator.get_state()
    try:
        with no_grad():
            whole = _decode(data, constants)
            program = _Builder(whole).program(True)
            facts = [whole[name] for name in ("requires_grad", "leaf", "views")]
            _core._program_inputs(program, *facts)
            return program
    finally:
        default_generator.set_state(state)


def _index(value: Any, count: int) -> int:
    if type(value) is not int or not 0 <= value < count:
        raise ValueError(f"{value!r} is not one of {count}")
    return value


def _numbers(value: Any) -> list[int]:
    if not isinstance(value, list) or not all(type(n) is int for n in value):
        raise ValueError("a list of ints is expected")
    return value


def _stand_in(form: Any) -> Tensor:
    shape, strides, dtype = form
    elements = 1
    for size in _numbers(shape):
        elements *= size
    reach = 1 + sum((size - 1) * step for size, step in zip(shape, _numbers(strides), strict=True))
    if not (0 <= elements < _MOST and 0 <= reach < _MOST and min(strides, default=0) >= 0):
        raise ValueError(f"a tensor of {shape} with the strides {strides}")
    number = 0.5 if dtype.is_floating_point or dtype.is_complex else 0
    if any(step == 0 and size > 1 for size, step in zip(shape, strides, strict=True)):
        repeated: Tensor = _core.full([max(reach, 0)], number, dtype=dtype)
        return repeated.as_strided(shape, strides)
    made: Tensor = _core.empty_strided(shape, strides, dtype=dtype)
    return made.fill_(number)


def _changes(code: Any) -> bool:
    return any(
        one["kind"] == "change" or (one["kind"] == "loop" and _changes(one["loop"]["body"]["code"]))
        for one in code
    )


class _Builder:
    """Calls the ops of one list of instructions, on stand-ins."""

    def __init__(self, data: Any, depth: int = 0) -> None:
        if depth > _DEEPEST:
            raise ValueError("loops are nested too deep")
        self.depth = depth
        self.forms = [(form, offset, root) for form, offset, root in data["registers"]]
        self.code = data["code"]
        self.inputs = [_index(r, len(self.forms)) for r in _numbers(data["inputs"])]
        self.outputs = [-1 if r == -1 else _index(r, len(self.forms)) for r in data["outputs"]]
        shared = len({self.forms[r][2] for r in self.inputs}) < len(self.inputs)
        if shared and _changes(self.code):
            raise ValueError("inputs share memory, and some is changed in place")
        self.values: dict[int, Tensor] = {r: _stand_in(self.forms[r][0]) for r in self.inputs}
        self.reads: dict[int, int] = {}
        for one in self.code:
            for r in _numbers(one["reads"])[::3]:
                self.reads[r] = self.reads.get(r, 0) + 1
        for r in self.outputs:
            self.reads[r] = self.reads.get(r, 0) + 1

    def program(self, checked: bool) -> Any:
        given = [self.values[r] for r in self.inputs]
        recording = _core._Recording(given)
        recording.start()
        try:
            for one in self.code:
                self._step(recording, one)
        finally:
            recording.stop()
        results = [None if r < 0 else self.values[r] for r in self.outputs]
        if checked:
            recording.outside([t for t in results if t is not None])
        refused = recording.refused()
        if refused is not None:
            raise ValueError(refused[0])
        program = recording.program(0, recording.size(), given, results)
        if program.held():
            raise ValueError("a program reads what is not given to it")
        return program

    def _step(self, recording: Any, one: Any) -> None:
        numbers, kind = _numbers(one["reads"]), one["kind"]
        places = [*zip(numbers[::3], numbers[1::3], numbers[2::3], strict=True)]
        reads = [self.values[r] for r, _, _ in places]
        writes = [w if w == -1 else _index(w, len(self.forms)) for w in _numbers(one["writes"])]
        if any(w in self.values for w in writes):
            raise ValueError("a value is made twice")
        if kind in ("apply", "change"):
            made = self._call(recording, one, places, reads)
        elif kind == "header":
            made = [self._alias(recording, writes[0], places[0][0], reads[0])]
        elif kind == "constant":
            made = [self._constant(one["constant"])]
        elif kind == "rows":
            made = [self._made(writes[0])]
            self._check_taken(
                [r for (r, _, _), at in zip(places, one["places"], strict=True) if at == -1]
            )
            _core._recording_rows(recording, reads, one["places"], made[0])
        elif kind == "loop":
            made = [self._made(w) for w in writes]
            self._loop(recording, one["loop"], [r for r, _, _ in places], reads, made)
        else:
            raise ValueError(f"{kind!r} is no instruction")
        for w, value in zip(writes, made, strict=True):
            if w == -1:
                continue
            shape, strides, dtype = self.forms[w][0]
            same = (
                value is not None
                and list(value.shape) == shape
                and list(value.stride()) == strides
                and value.dtype is dtype
            )
            if not same:
                raise ValueError(
                    f"an instruction ({one.get('op', kind)}) gives a result of another form"
                )
            self.values[w] = value

    def _made(self, register: int) -> Tensor:
        """A stand-in that no op has made."""
        found: Tensor = _core._unrecorded(
            lambda: _stand_in(self.forms[_index(register, len(self.forms))][0])
        )
        return found

    def _call(self, recording: Any, one: Any, places: Any, reads: list[Tensor]) -> list[Any]:
        args, in_place = list(one["args"]), one["kind"] == "change"
        if in_place:
            places, reads = [(0, 0, -1), *places[1:]], reads
        for (_, at, item), value in zip(places, reads, strict=True):
            if item == -1:
                args[_index(at, len(args))] = value
            else:
                whole = args[_index(at, len(args))]
                whole[_index(item, len(whole))] = value
        before = recording.size()
        _core._call_op(one["op"], in_place, args)
        if recording.size() != before + 1:
            raise ValueError(f"`{one['op']}` is no single instruction")
        found: list[Any] = _core._recording_last(recording)
        return found

    def _alias(self, recording: Any, register: int, base: int, value: Tensor) -> Any:
        (shape, strides, dtype), offset, _ = self.forms[_index(register, len(self.forms))]
        if dtype is not value.dtype:
            raise ValueError("a part of a tensor has another dtype")
        return _core._recording_alias(
            recording, value, shape, strides, offset - self.forms[base][1]
        )

    def _constant(self, value: Any) -> Tensor:
        if type(value) is not Tensor:
            raise ValueError("a constant is no tensor")
        own: Tensor = _core._unrecorded(value.clone)
        _core._record_constant(own)
        return own

    def _check_taken(self, registers: list[int]) -> None:
        """Memory that is taken has no other reader."""
        if any(self.reads[r] != 1 or r in self.inputs for r in registers):
            raise ValueError("a stack that is taken has other readers")

    def _loop(
        self,
        recording: Any,
        data: Any,
        registers: list[int],
        reads: list[Tensor],
        made: list[Tensor],
    ) -> None:
        depth = self.depth + 1
        body = _core._unrecorded(lambda: _Builder(data["body"], depth).program(False))
        self._check_taken(
            [registers[_index(at, len(registers))] for at in data["stacks"][1::2] if at != -1]
        )
        _core._recording_loop(recording, body, data, reads, made)
