"""Programs as data for files, and back.

Nothing of a file is believed. A program is built from data by calling its ops, by name, on
stand-ins of the right form, while a recording takes them down. A public op checks what it is given;
one that only adjoint itself calls has a rule for it (src/program/operand_rules.h). What a result is
like is what the op gives, and has to be what the file says. The passes then run as they do for a
function. The body of a loop is built once, whatever its length; loops that run as an instruction
(`scan`, ...) say themselves what they are (_host_data.py), and are not run.

Stand-ins hold numbers that most ops take. An op that raises for them (a matrix that is singular, a
divisor that is zero) is called with others, once: see `_Builder._suit`.
Read next: src/bindings/program/exchange.cpp; _saved.py, which writes the files.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Sequence
from typing import Any

from adjoint import _core
from adjoint._core import Tensor, default_generator
from adjoint.autograd import no_grad

from ._host_data import host_data, host_from

__all__ = ["Described", "Tables", "to_data"]

_DEEPEST = 8  # loops in loops
_MOST = 1 << 31  # elements of a tensor
_SUITED = 256  # ops of a program that did not take the first numbers
_ROOM = 1 << 20  # elements that any op may make
_AS_THEY_ARE = {int, bool, str, type(None)}


class Tables:
    """What programs of a file refer to by number.

    Attributes
    ----------
    constants : list of Tensor
        Tensors that stand in functions.
    steps : list
        Those of loops, each after the loops inside it: as data where a file is written, as
        `loops._loaded_step.LoadedStep` where it is read.
    folders : list of str
        Where loops of a file that is read keep states.
    numbers, alive
        Where a file is written, the number of a step by its address, and what keeps that its own.
    """

    def __init__(self, constants: list[Tensor]) -> None:
        self.constants = constants
        self.steps: list[Any] = []
        self.folders: list[str] = []
        self.numbers: dict[int, int] = {}
        self.alive: list[Any] = []

    @staticmethod
    def read(steps: Any, constants: list[Tensor]) -> Tables:
        """Those of a file."""
        from adjoint.loops._loop_files import step_from

        tables = Tables(constants)
        for data in steps:
            tables.steps.append(step_from(data, tables))
        return tables


def to_data(program: Any, tables: Tables) -> Any:
    """What a program is, as numbers, texts, lists and dicts; all else goes to tables.

    Raises
    ------
    ValueError
        It holds what is not data.
    """
    return _encode(_core._program_data(program), tables)


@dataclasses.dataclass
class _Called:
    """What an instruction calls, as data."""

    data: Any


def _encode(value: Any, tables: Tables) -> Any:
    if value is None or type(value) in (bool, int, str):
        return value
    if type(value) is float:
        return {"float": value.hex()}
    if type(value) is complex:
        return {"imaginary": [value.real.hex(), value.imag.hex()]}
    if isinstance(value, _core.dtype):
        return {"dtype": str(value).rpartition(".")[2]}
    if isinstance(value, Tensor):
        tables.constants.append(value)
        return {"tensor": len(tables.constants) - 1}
    if isinstance(value, _Called):
        return {"host": value.data}
    if isinstance(value, dict):
        if "registers" in value:
            value = _with_forms(value)
        if "host" in value:
            value = {**value, "host": _Called(host_data(value["host"], tables))}
        return {"dict": {key: _encode(part, tables) for key, part in value.items()}}
    if isinstance(value, list | tuple):
        return [_encode(part, tables) for part in value]
    raise ValueError(f"a {type(value).__name__} is not data")


def _with_forms(code: Any) -> Any:
    """The same, with what many registers have in common stated once."""
    forms: dict[Any, int] = {}
    registers: list[int] = []
    for (shape, strides, dtype), offset, root in code["registers"]:
        form = tuple(shape), tuple(strides), dtype
        registers += [forms.setdefault(form, len(forms)), offset, root]
    return {**code, "forms": list(forms), "registers": registers}


def _decode(value: Any, constants: list[Tensor]) -> Any:
    if isinstance(value, list):
        if set(map(type, value)) <= _AS_THEY_ARE:
            return value
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
    if kind == "host":
        return _Called(inside)
    if kind == "tensor":
        return constants[_index(inside, len(constants))]
    if kind == "dict":
        return {key: _decode(part, constants) for key, part in inside.items()}
    raise ValueError(f"{kind!r} is no kind of data")


class Described:
    """A program that `to_data` has described.

    Attributes
    ----------
    inputs, outputs : list
        What they are like: shape, strides and dtype; None for no output.
    repeats : list of int
        By input: the first one that is the same.
    """

    def __init__(self, data: Any, tables: Tables) -> None:
        self._tables = tables
        self._whole = whole = _decode(data, tables.constants)
        forms = [form for form, _, _ in _registers(whole)]
        self.inputs = [forms[_index(r, len(forms))] for r in whole["inputs"]]
        self.repeats = [whole["inputs"].index(r) for r in whole["inputs"]]
        self.outputs = [None if r == -1 else forms[_index(r, len(forms))] for r in whole["outputs"]]

    def build(self, own: int = 0, differentiable: Sequence[int] = ()) -> Any:
        """The program, with all its inputs given.

        Parameters
        ----------
        own : int
            So many of the outputs are no inputs; those ``differentiable`` share no memory with any.

        Raises
        ------
        Exception
            Of whatever kind: there is none.
        """
        state, dtype = default_generator.get_state(), _core.get_default_dtype()
        modes, suited = _core._autocast_modes(), set[tuple[int, ...]]()
        try:
            # A program is for the default dtype that it was recorded with; its casts are ops.
            _core.set_default_dtype(self._whole["default_dtype"])
            _core._set_autocast_modes(0)
            with no_grad():
                while True:
                    try:
                        builder = _Builder(self._whole, (), suited, self._tables)
                        program = builder.program(own, differentiable)
                        break
                    except _OtherNumbers as again:
                        if again.place in suited or len(suited) >= _SUITED:
                            raise again.error from None
                        suited.add(again.place)
                facts = [self._whole[name] for name in ("requires_grad", "leaf", "views")]
                _core._program_inputs(program, *facts)
                return program
        finally:
            _core._set_autocast_modes(modes)
            _core.set_default_dtype(dtype)
            default_generator.set_state(state)


def _registers(data: Any) -> list[tuple[Any, int, int]]:
    """By register: its form, where it lies on its memory, and which memory it is."""
    forms = [(shape, strides, dtype) for shape, strides, dtype in data["forms"]]
    n = _numbers(data["registers"])
    rows = zip(n[::3], n[1::3], n[2::3], strict=True)
    return [(forms[_index(form, len(forms))], offset, root) for form, offset, root in rows]


class _OtherNumbers(Exception):
    """An op does not take the numbers of its stand-ins."""

    def __init__(self, place: tuple[int, ...], error: Exception) -> None:
        super().__init__(place)
        self.place, self.error = place, error


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
    good = min(shape, default=0) >= 0 and min(strides, default=0) >= 0 and elements < _MOST
    if not good or (elements and reach >= _MOST):
        raise ValueError(f"a tensor of {shape} with the strides {strides}")
    number = 0.5 if dtype.is_floating_point or dtype.is_complex else 0
    if elements and any(step == 0 and size > 1 for size, step in zip(shape, strides, strict=True)):
        repeated: Tensor = _core.full([reach], number, dtype=dtype)
        return repeated.as_strided(shape, strides)
    made: Tensor = _core.empty_strided(shape, strides, dtype=dtype)
    return made.fill_(number)


def _other_numbers(t: Tensor) -> None:
    """Give a stand-in numbers none of which is zero or twice there; matrices are regular."""
    if t.numel() == 0 or any(s == 0 and n > 1 for n, s in zip(t.shape, t.stride(), strict=True)):
        return
    if not (t.dtype.is_floating_point or t.dtype.is_complex):
        t.fill_(1)
        return
    rows, columns = (1, 1, *t.shape)[-2:]
    count = rows * columns
    values = _core.arange(count, dtype=_core.float64).add_(count) / (20 * count * columns)
    values = values.reshape(rows, columns)
    if t.dim() >= 2:
        values.diagonal().add_(_core.linspace(1, 2, min(rows, columns), dtype=_core.float64))
    t.copy_(values.to(t.dtype).reshape(t.shape[-2:]).expand(t.shape))


def _in_order(shape: list[int]) -> list[int]:
    """The strides of a tensor without gaps."""
    strides = [1]
    for size in reversed(shape[1:]):
        strides.insert(0, strides[0] * max(size, 1))
    return strides[: len(shape)]


def _elements(form: Any) -> int:
    return math.prod(_numbers(form[0]))


def _changes(code: Any) -> bool:
    return any(
        one["kind"] == "change" or (one["kind"] == "loop" and _changes(one["loop"]["body"]["code"]))
        for one in code
    )


class _Builder:
    """Calls the ops of one list of instructions, on stand-ins.

    Parameters
    ----------
    data
        What is in the file.
    place : tuple of int
        Which instructions of which loops this is the body of.
    suited : set
        The places of ops that get other numbers.
    tables : Tables
        What instructions refer to.
    """

    def __init__(
        self, data: Any, place: tuple[int, ...], suited: set[tuple[int, ...]], tables: Tables
    ) -> None:
        if len(place) > _DEEPEST:
            raise ValueError("loops are nested too deep")
        self.place, self.suited, self.tables = place, suited, tables
        self.forms = _registers(data)
        self.code = data["code"]
        self.inputs = [_index(r, len(self.forms)) for r in _numbers(data["inputs"])]
        self.outputs = [-1 if r == -1 else _index(r, len(self.forms)) for r in data["outputs"]]
        self.given = {*self.inputs}
        roots = {self.forms[r][2] for r in self.inputs}
        if len(roots) < len(self.given) and _changes(self.code):
            raise ValueError("inputs share memory, and some is changed in place")
        self.values: dict[int, Tensor] = {r: _stand_in(self.forms[r][0]) for r in self.inputs}
        self.made: set[int] = set(self.inputs)
        self.reads: dict[int, int] = {}
        for one in self.code:
            for r in _numbers(one["reads"])[::3]:
                self.reads[r] = self.reads.get(r, 0) + 1
        for r in self.outputs:
            self.reads[r] = self.reads.get(r, 0) + 1
        self.left = dict(self.reads)  # reads that are still to come

    def program(self, own: int = 0, differentiable: Sequence[int] = ()) -> Any:
        given = [self.values[r] for r in self.inputs]
        recording = _core._Recording(given)
        recording.start()
        try:
            for at, one in enumerate(self.code):
                self._step(recording, one, (*self.place, at))
        finally:
            recording.stop()
        results = [None if r < 0 else self.values[r] for r in self.outputs]
        if not self.place:
            kinds = recording.outside([t for t in results if t is not None])
            if 2 in kinds[:own] or any(kinds[k] for k in differentiable):
                raise ValueError("a result is an input, or shares memory with one")
        refused = recording.refused()
        if refused is not None:
            raise ValueError(refused[0])
        program = recording.program(0, recording.size(), given, results)
        if program.held():
            raise ValueError("a program reads what is not given to it")
        return program

    def _step(self, recording: Any, one: Any, place: tuple[int, ...]) -> None:
        numbers, kind = _numbers(one["reads"]), one["kind"]
        places = [*zip(numbers[::3], numbers[1::3], numbers[2::3], strict=True)]
        reads = [self.values[r] for r, _, _ in places]
        writes = [w if w == -1 else _index(w, len(self.forms)) for w in _numbers(one["writes"])]
        kept = {w for w in writes if w != -1}  # there may be thousands
        if len(kept) < len(writes) - writes.count(-1) or not self.made.isdisjoint(kept):
            raise ValueError("a value is made twice")
        if len(writes) != 1 and kind in ("header", "constant", "rows"):
            raise ValueError(f"an instruction ({kind}) gives one value")
        if kind in ("apply", "change"):
            if place in self.suited:
                self._suit(reads)
            try:
                made = self._call(recording, one, places, reads, writes)
            except Exception as error:
                raise _OtherNumbers(place, error) from None
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
            self._loop(recording, one["loop"], [r for r, _, _ in places], reads, made, place)
        elif kind == "host":
            made = self._host(recording, one["host"], reads, writes)
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
            self.made.add(w)
        del reads, made
        for r in (*(r for r, _, _ in places), *kept):
            self.left[r] = self.left.get(r, 0) - (r not in kept)
            if self.left[r] <= 0 and r not in self.given:
                self.values.pop(r, None)

    @staticmethod
    def _suit(reads: list[Tensor]) -> None:
        """Give operands of an op numbers that it takes, where it did not take the first ones."""

        def give() -> None:
            for t in reads:
                _other_numbers(t)

        _core._unrecorded(give)

    def _made(self, register: int) -> Tensor:
        """A stand-in that no op has made."""
        found: Tensor = _core._unrecorded(
            lambda: _stand_in(self.forms[_index(register, len(self.forms))][0])
        )
        return found

    def _call(
        self, recording: Any, one: Any, places: Any, reads: list[Tensor], writes: list[int]
    ) -> list[Any]:
        args, in_place = list(one["args"]), one["kind"] == "change"
        self._check_room(args, reads, writes)
        if in_place:
            places, reads = [(0, 0, -1), *places[1:]], reads
        copied: dict[int, list[Any]] = {}  # there may be thousands of items
        for (_, at, item), value in zip(places, reads, strict=True):
            if item == -1:
                args[_index(at, len(args))] = value
                continue
            if at not in copied:
                copied[at] = args[at] = list(args[_index(at, len(args))])
            copied[at][_index(item, len(copied[at]))] = value
        before = recording.size()
        _core._call_op(one["op"], in_place, args)
        if recording.size() != before + 1:
            raise ValueError(f"`{one['op']}` is no single instruction")
        found: list[Any] = _core._recording_last(recording)
        return found

    def _check_room(self, args: list[Any], reads: list[Tensor], writes: list[int]) -> None:
        """Refuse sizes far beyond those of operands and results, before memory is asked for."""
        room = _ROOM + 64 * sum(t.numel() for t in reads)
        for w in writes:
            if w != -1:
                room += 64 * _elements(self.forms[w][0])
        for sizes in args:
            numbers = isinstance(sizes, list) and all(type(n) is int for n in sizes)
            if numbers and math.prod(n for n in sizes if n > 0) > room:
                raise ValueError(f"{sizes} is more than any operand or result has")

    def _alias(self, recording: Any, register: int, base: int, value: Tensor) -> Any:
        (shape, strides, dtype), offset, _ = self.forms[_index(register, len(self.forms))]
        return _core._recording_alias(
            recording, value, shape, strides, dtype, offset - self.forms[base][1]
        )

    def _constant(self, value: Any) -> Tensor:
        if type(value) is not Tensor:
            raise ValueError("a constant is no tensor")
        own: Tensor = _core._unrecorded(value.clone)
        _core._record_constant(own)
        return own

    def _host(
        self, recording: Any, called: Any, reads: list[Tensor], writes: list[int]
    ) -> list[Tensor]:
        """A call of Python, which is not made now; what it gives is compared when it is."""
        if type(called) is not _Called:
            raise ValueError("an instruction does not say what it calls")
        run, forms = host_from(called.data, self.tables, reads)
        if len(forms) != len(writes):
            raise ValueError("a call has another number of results")
        made = []
        for w, (shape, dtype) in zip(writes, forms, strict=True):
            form = self.forms[w][0] if w != -1 else (shape, _in_order(shape), dtype)
            if (list(form[0]), form[2]) != (shape, dtype):
                raise ValueError("a call gives a result of another form")
            made.append(_core._unrecorded(functools.partial(_stand_in, form)))
        _core._recording_host(recording, run, reads, made)
        return made

    def _check_taken(self, registers: list[int]) -> None:
        """Memory that is taken has no other reader."""
        if any(self.reads[r] != 1 or r in self.given for r in registers):
            raise ValueError("a stack that is taken has other readers")

    def _loop(
        self,
        recording: Any,
        data: Any,
        registers: list[int],
        reads: list[Tensor],
        made: list[Tensor],
        place: tuple[int, ...],
    ) -> None:
        body = _core._unrecorded(
            lambda: _Builder(data["body"], place, self.suited, self.tables).program()
        )
        self._check_taken(
            [registers[_index(at, len(registers))] for at in data["stacks"][1::2] if at != -1]
        )
        _core._recording_loop(recording, body, data, reads, made)
