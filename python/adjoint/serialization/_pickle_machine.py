"""A machine for pickles that makes data and nothing else.

The standard library's would call what a pickle names, set attributes of whatever stands on the
stack, and allocate what a length claims. Here a name is looked up in a table of builders, a length
is compared with what is left of the pickle, and containers change only while they are built: every
list, dict and set on the stack was made by this load, and so was every object that gets a state.
Instructions that build objects in other ways (INST, OBJ, NEWOBJ_EX, the extension registry,
out-of-band buffers) are refused.

The table at the end has one line per instruction. Read next: `_torch_names`, the names.
"""

from __future__ import annotations

import codecs
import struct
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Collection
from typing import Any

from adjoint.serialization._errors import LoadError, as_damage, shown
from adjoint.serialization._keys import check_key

__all__ = ["Machine", "Name", "Opaque", "Wrapped", "arguments_of"]

_MAPPINGS = (dict, OrderedDict, defaultdict, Counter)
_LONGEST_LINE = 4300  # of a number in decimal digits: Python's own limit


class Opaque:
    """Something that a pickle needs on the way, and that is not data itself."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name


class Name(Opaque):
    """Something that a pickle may call, with data as arguments.

    ``build`` is what REDUCE does with it and ``new`` what NEWOBJ does; None: that is refused.
    """

    __slots__ = ("build", "new")

    def __init__(
        self, name: str, build: Callable[..., Any] | None, new: Callable[..., Any] | None = None
    ) -> None:
        super().__init__(name)
        self.build, self.new = build, new


class Wrapped(Name):
    """Something to call, or still to be completed, that is data as well: its value."""

    __slots__ = ("value",)

    def __init__(
        self,
        name: str,
        value: Any,
        build: Callable[..., Any] | None = None,
        new: Callable[..., Any] | None = None,
    ) -> None:
        super().__init__(name, build, new)
        self.value = value


class _Arguments(Opaque):
    """A tuple with something in it that is not data: fit for a call, and for nothing else."""

    __slots__ = ("items",)

    def __init__(self, items: tuple[Any, ...]) -> None:
        super().__init__("a tuple of " + next(i.name for i in items if isinstance(i, Opaque)))
        self.items = items


def arguments_of(value: Any) -> tuple[Any, ...] | None:
    """The items of a tuple, of which some may be opaque; None if it is not a tuple."""
    if type(value) is _Arguments:
        return value.items
    return value if type(value) is tuple else None


class Machine:
    """Runs one pickle.

    Parameters
    ----------
    data
        The pickle, and perhaps more behind it.
    find
        Makes of a module and a name, which the pickle has, a `Name` or a value, or raises
        LoadError.
    persistent
        Makes an object of a persistent id.
    set_state
        Gives an object that has no setter the state of a BUILD instruction, or raises LoadError.
    classes
        Those whose methods may be run to hash and compare keys.
    start
        Where the pickle begins in ``data``.

    Attributes
    ----------
    at
        The byte that is read next; after `run`, the first one behind the pickle.
    classes
        As given.
    """

    def __init__(
        self,
        data: bytes,
        find: Callable[[str, str], Any],
        persistent: Callable[[Any], Any],
        set_state: Callable[[Any, Any], None],
        classes: Collection[type] = (),
        start: int = 0,
    ) -> None:
        self._data, self.at = data, start
        self._find, self._persistent, self._set_state = find, persistent, set_state
        self.classes = classes
        self._setters: dict[int, tuple[Any, Callable[[Any], None]]] = {}
        self._stack: list[Any] = []
        self._marked: list[list[Any]] = []  # the stacks below the marks
        self._memo: dict[int, Any] = {}
        # A pickle can name one long string and copy it with every five bytes.
        self._to_copy = 64 * 1024 + 16 * len(data)

    def run(self) -> Any:
        """The object of the pickle.

        Raises
        ------
        LoadError
            The pickle is damaged, or wants more than to make data.
        """
        with as_damage(lambda error: f"its pickle is damaged at byte {self.at}: {error}"):
            return self._run()

    def _run(self) -> Any:
        while True:
            code = self._take(1)[0]
            if code == ord("."):
                return self._result()
            instruction = _INSTRUCTIONS.get(code)
            if instruction is None:
                raise LoadError(
                    f"its pickle has the instruction {bytes([code])!r} at byte {self.at - 1}, "
                    "which files of tensors and plain containers do not need; save the "
                    "state_dict() instead of the object"
                )
            instruction(self)

    def made(self, obj: Any, setter: Callable[[Any], None]) -> Any:
        """``obj``, which this load made, and how it gets its state."""
        self._setters[id(obj)] = (obj, setter)
        return obj

    def charge(self, size: int) -> None:
        """Count what a builder copies."""
        self._to_copy -= size
        if self._to_copy < 0:
            raise LoadError("its pickle makes far more data than it has")

    def _result(self) -> Any:
        if self._marked or len(self._stack) != 1:
            raise LoadError("its pickle ends in the middle of something")
        return self._value(self._stack[0])

    # --- bytes ------------------------------------------------------------------------------------
    def _take(self, size: int) -> bytes:
        start, end = self.at, self.at + size
        if size < 0 or end > len(self._data):
            raise LoadError(
                f"its pickle wants {size} bytes at byte {start} and has {len(self._data) - start}"
            )
        self.at = end
        return self._data[start:end]

    def _number(self, layout: str) -> int:
        found: int = struct.unpack(layout, self._take(struct.calcsize(layout)))[0]
        return found

    def _line(self) -> bytes:
        end = self._data.find(b"\n", self.at)
        if end < 0:
            raise LoadError(f"its pickle has a line without an end at byte {self.at}")
        line = self._take(end - self.at)
        self.at += 1
        return line

    def _decimal(self) -> int:
        line = self._line().removesuffix(b"L")
        if len(line) > _LONGEST_LINE or not line.lstrip(b"-").isdigit():
            raise LoadError(f"its pickle has the number {line[:40]!r}")
        return int(line)

    # --- the stack --------------------------------------------------------------------------------
    def push(self, value: Any) -> None:
        """Put a value on the stack."""
        self._stack.append(value)

    def _pop(self) -> Any:
        if not self._stack:
            raise LoadError(f"its pickle takes from an empty stack at byte {self.at}")
        return self._stack.pop()

    def _top(self, kinds: tuple[type, ...], doing: str) -> Any:
        top = type(self._stack[-1]) if self._stack else type(None)
        if top not in kinds and not (top in self.classes and issubclass(top, kinds)):
            found = type(self._stack[-1]).__name__ if self._stack else "nothing"
            raise LoadError(f"its pickle wants to {doing} {found} at byte {self.at}")
        return self._stack[-1]

    def _pop_mark(self) -> list[Any]:
        if not self._marked:
            raise LoadError(f"its pickle has no mark at byte {self.at}")
        items, self._stack = self._stack, self._marked.pop()
        return items

    def _value(self, value: Any) -> Any:
        if isinstance(value, Wrapped):
            return value.value
        if isinstance(value, Opaque):
            raise LoadError(f"its pickle holds {value.name}, which is not data")
        return value

    # --- instructions -----------------------------------------------------------------------------
    def mark(self) -> None:
        """Begin a run of items."""
        self._marked.append(self._stack)
        self._stack = []

    def pop(self) -> None:
        """Drop an item, or a mark if there is none above it."""
        if self._stack:
            self._stack.pop()
        else:
            self._pop_mark()

    def duplicate(self) -> None:
        """Push the top once more."""
        self.push(self._pop())
        self.push(self._stack[-1])

    def protocol(self) -> None:
        """The version at the beginning."""
        version = self._take(1)[0]
        if version > 5:
            raise LoadError(f"its pickle is of protocol {version}; up to 5 are known")

    def frame(self) -> None:
        """How far to read ahead, which does not matter here."""
        self._number("<Q")

    def drop_marked(self) -> None:
        """Drop the items above the mark, and the mark."""
        self._pop_mark()

    def integer(self) -> None:
        """A decimal number, or a bool as protocol 0 has it."""
        if self._data[self.at : self.at + 3] in (b"00\n", b"01\n"):
            self.push(self._line() == b"01")
        else:
            self.push(self._decimal())

    def decimal_float(self) -> None:
        """A float in decimal digits."""
        line = self._line()
        try:
            self.push(float(line))
        except ValueError:
            raise LoadError(f"its pickle has the number {line[:40]!r}") from None

    def long(self, layout: str) -> None:
        """An int of any length."""
        self.push(int.from_bytes(self._take(self._number(layout)), "little", signed=True))

    def text(self, data: bytes) -> None:
        """A string."""
        try:
            self.push(data.decode("utf-8", "surrogatepass"))
        except UnicodeDecodeError as error:
            raise LoadError(f"its pickle has a damaged string ({error})") from None

    def escaped(self) -> None:
        """A string of protocol 0."""
        try:
            self.push(codecs.raw_unicode_escape_decode(self._line())[0])
        except UnicodeDecodeError as error:
            raise LoadError(f"its pickle has a damaged string ({error})") from None

    def append(self, items: list[Any]) -> None:
        """Add to the list below."""
        target = self._top((list, deque), "append to")
        target.extend(self._value(item) for item in items)

    def set_items(self, items: list[Any]) -> None:
        """Add to the dict below."""
        self._fill(self._top(_MAPPINGS, "set items of"), items)

    def _fill(self, target: Any, items: list[Any]) -> None:
        if len(items) % 2:
            raise LoadError(f"its pickle has a key without a value at byte {self.at}")
        for i in range(0, len(items), 2):
            target[self._key(items[i])] = self._value(items[i + 1])

    def _key(self, key: Any) -> Any:
        if isinstance(key, list | dict | set | bytearray):
            raise LoadError(f"its pickle has a key of type {type(key).__name__}")
        return check_key(self._value(key), self.classes)

    def new_dict(self) -> None:
        """A dict of the marked items."""
        made: dict[Any, Any] = {}
        self._fill(made, self._pop_mark())
        self.push(made)

    def add_items(self) -> None:
        """Add to the set below."""
        items = self._pop_mark()
        target = self._top((set,), "add to")
        target.update(self._key(item) for item in items)

    def frozen(self) -> None:
        """A frozenset of the marked items."""
        self.push(frozenset(self._key(item) for item in self._pop_mark()))

    def tuple_of(self, items: list[Any]) -> None:
        """A tuple."""
        made = tuple(item.value if isinstance(item, Wrapped) else item for item in items)
        self.push(_Arguments(made) if any(isinstance(item, Opaque) for item in made) else made)

    def put(self, index: int) -> None:
        """Remember the top."""
        if not self._stack:
            raise LoadError(f"its pickle remembers nothing at byte {self.at}")
        self._memo[index] = self._stack[-1]

    def get(self, index: int) -> None:
        """Push what was remembered."""
        if index not in self._memo:
            raise LoadError(f"its pickle asks for number {index}, which it did not make")
        self.push(self._memo[index])

    def find(self, module: Any, name: Any) -> None:
        """Push what a name stands for."""
        if not isinstance(module, str) or not isinstance(name, str):
            raise LoadError(f"its pickle names {shown(module)} and {shown(name)}")
        self.push(self._find(module, name))

    def global_(self) -> None:
        """A name in two lines."""
        module, name = self._line(), self._line()
        self.find(module.decode("utf-8", "replace"), name.decode("utf-8", "replace"))

    def global_of_stack(self) -> None:
        """A name in two strings."""
        name, module = self._pop(), self._pop()
        self.find(module, name)

    def call(self, new: bool) -> None:
        """Build an object of a name and arguments."""
        arguments, what = arguments_of(self._pop()), self._pop()
        build = (what.new if new else what.build) if isinstance(what, Name) else None
        if build is None or arguments is None:
            named = what.name if isinstance(what, Opaque) else shown(what)
            raise LoadError(f"its pickle wants to call {named} at byte {self.at}")
        try:
            self.push(build(self, *arguments))
        except LoadError:
            raise
        except (TypeError, ValueError, RuntimeError, OverflowError) as error:
            raise LoadError(f"it has a bad {what.name}: {error}") from None

    def persistent(self) -> None:
        """An object from beside the pickle."""
        pid = self._pop()
        self.push(self._persistent(arguments_of(pid) or pid))

    def build(self) -> None:
        """Give the object below its attributes."""
        state = self._pop()
        if not self._stack:
            raise LoadError(f"its pickle gives nothing a state at byte {self.at}")
        target = self._stack[-1]
        known = self._setters.get(id(target))
        if known is None:
            self._set_state(target, state)
        else:
            known[1](state)


def _last(m: Machine, count: int) -> list[Any]:
    return [m._pop() for _ in range(count)][::-1]


_INSTRUCTIONS: dict[int, Callable[[Machine], None]] = {
    code[0]: instruction
    for code, instruction in {
        b"\x80": Machine.protocol,
        b"\x95": Machine.frame,
        b"(": Machine.mark,
        b"0": Machine.pop,
        b"1": Machine.drop_marked,
        b"2": Machine.duplicate,
        # numbers
        b"N": lambda m: m.push(None),
        b"\x88": lambda m: m.push(True),
        b"\x89": lambda m: m.push(False),
        b"I": Machine.integer,
        b"L": lambda m: m.push(m._decimal()),
        b"J": lambda m: m.push(m._number("<i")),
        b"K": lambda m: m.push(m._number("<B")),
        b"M": lambda m: m.push(m._number("<H")),
        b"\x8a": lambda m: m.long("<B"),
        b"\x8b": lambda m: m.long("<i"),
        b"F": Machine.decimal_float,
        b"G": lambda m: m.push(m._number(">d")),
        # strings
        b"V": Machine.escaped,
        b"U": lambda m: m.text(m._take(m._number("<B"))),
        b"T": lambda m: m.text(m._take(m._number("<i"))),
        b"\x8c": lambda m: m.text(m._take(m._number("<B"))),
        b"X": lambda m: m.text(m._take(m._number("<I"))),
        b"\x8d": lambda m: m.text(m._take(m._number("<Q"))),
        b"C": lambda m: m.push(m._take(m._number("<B"))),
        b"B": lambda m: m.push(m._take(m._number("<I"))),
        b"\x8e": lambda m: m.push(m._take(m._number("<Q"))),
        b"\x96": lambda m: m.push(bytearray(m._take(m._number("<Q")))),
        # containers
        b")": lambda m: m.push(()),
        b"\x85": lambda m: m.tuple_of(_last(m, 1)),
        b"\x86": lambda m: m.tuple_of(_last(m, 2)),
        b"\x87": lambda m: m.tuple_of(_last(m, 3)),
        b"t": lambda m: m.tuple_of(m._pop_mark()),
        b"]": lambda m: m.push([]),
        b"l": lambda m: m.push([m._value(item) for item in m._pop_mark()]),
        b"a": lambda m: m.append(_last(m, 1)),
        b"e": lambda m: m.append(m._pop_mark()),
        b"}": lambda m: m.push({}),
        b"d": Machine.new_dict,
        b"s": lambda m: m.set_items(_last(m, 2)),
        b"u": lambda m: m.set_items(m._pop_mark()),
        b"\x8f": lambda m: m.push(set()),
        b"\x90": Machine.add_items,
        b"\x91": Machine.frozen,
        # what was made before
        b"p": lambda m: m.put(m._decimal()),
        b"q": lambda m: m.put(m._number("<B")),
        b"r": lambda m: m.put(m._number("<I")),
        b"\x94": lambda m: m.put(len(m._memo)),
        b"g": lambda m: m.get(m._decimal()),
        b"h": lambda m: m.get(m._number("<B")),
        b"j": lambda m: m.get(m._number("<I")),
        # names and objects
        b"c": Machine.global_,
        b"\x93": Machine.global_of_stack,
        b"R": lambda m: m.call(new=False),
        b"\x81": lambda m: m.call(new=True),
        b"Q": Machine.persistent,
        b"b": Machine.build,
    }.items()
}
