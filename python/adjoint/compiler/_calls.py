"""`Calls`: what the watch does when user code calls something that is not watched itself.

Functions of the user's are not looked at: their frames are. Others are judged by name (`_effects`);
those that stand for an instruction (`getattr`, `setattr`) are taken for it; and objects that are
handed to them may be read there as a whole. Read next: `_steps`.
"""

from __future__ import annotations

import contextvars
import functools
from types import (
    BuiltinFunctionType,
    FrameType,
    FunctionType,
    MethodType,
    MethodWrapperType,
    ModuleType,
    WrapperDescriptorType,
)
from typing import Any

from adjoint import Tensor
from adjoint.compiler import _effects
from adjoint.compiler._findings import REPEAT
from adjoint.compiler._libraries import is_library_class, is_watched
from adjoint.compiler._lookups import ABSENT, Place, own_dict
from adjoint.compiler._operands import (
    CALLEE_WITH_STARS,
    callee_of,
    harmless,
    is_made,
    operand,
)
from adjoint.compiler._snapshots import MOST_PARTS, is_array
from adjoint.compiler._steps import PLAIN, Steps, where
from adjoint.nn.modules.module import Module
from adjoint.nn.parameter import Parameter

__all__ = ["Calls"]

# Functions that stand for an instruction: what it does with an attribute.
_STANDING_FOR = {
    "getattr": "read",
    "hasattr": "read",
    "setattr": "store",
    "delattr": "delete",
    "vars": "vars",
    "__getattribute__": "read",
    "__setattr__": "store",
    "__delattr__": "delete",
}
_NUMBERS = (int, float, bool, complex, str, type(None))
_ALIKE = PLAIN | {Tensor, Parameter}  # objects of these classes are all the same to a method
_MOST_OBJECTS = 256  # in an object that is handed to code that is not watched
_CHANGES = "{} changes an object, " + REPEAT
# What is known to read nothing of an object that is handed to it, or is followed elsewhere.
_NOT_READ_AS_A_WHOLE = (
    Tensor,
    Module,
    type,
    ModuleType,
    FunctionType,
    BuiltinFunctionType,
    MethodType,
)


class Calls:
    """The steps for calls.

    Parameters
    ----------
    steps : Steps
        The other steps of the same watch.
    """

    def __init__(self, steps: Steps) -> None:
        self._steps = steps
        self._harmless: dict[tuple[int, type], Any] = {}  # callees that were judged
        self._findings = steps.findings

    def called(self, frame: FrameType, given: tuple[int, int, tuple[str, ...]]) -> None:
        """A call with so many arguments, the last of them with these names."""
        count, above, names = given
        callee, target = callee_of(frame, count, above)
        if type(callee) is FunctionType and is_watched(callee.__code__):
            return
        if above:
            names = operand(frame, 0)
        arguments = [operand(frame, above + depth) for depth in range(count - 1, -1, -1)]
        if "out" in names:
            self._written_to(arguments[count - len(names) + names.index("out")], frame)
        self.call(frame, callee, target, arguments)

    def called_with_stars(self, frame: FrameType, flags: int) -> None:
        """``f(*args, **kwargs)``."""
        named = flags & 1
        callee, arguments = operand(frame, named + CALLEE_WITH_STARS), operand(frame, named)
        self._steps.advanced(arguments, frame)
        values = [*arguments] if type(arguments) is tuple else []
        if named and type(operand(frame, 0)) is dict:
            keywords = operand(frame, 0)
            values += keywords.values()
            self._written_to(keywords.get("out"), frame)
        target = None
        if isinstance(callee, MethodType):
            target, callee = callee.__self__, callee.__func__
        self.call(frame, callee, target, values)

    def call(self, frame: FrameType, callee: Any, target: Any, arguments: list[Any]) -> None:
        """Judge one call."""
        if type(callee) is FunctionType and is_watched(callee.__code__):
            return
        if target is not None and type(target) in PLAIN and is_made(target):
            self._hand_over(frame, callee, arguments)  # parts.append(x), of a list made inside
            return
        key = (id(callee), type(target))
        if key not in self._harmless:
            if not self._judge(frame, callee, target, arguments):
                return
            if _is_judged_for_all(callee, target):
                self._harmless[key] = callee
                harmless(callee, None if target is None else type(target))
        self._hand_over(frame, callee, [target, *arguments])

    def _judge(self, frame: FrameType, callee: Any, target: Any, arguments: list[Any]) -> bool:
        """Whether a call does nothing but read what is handed to it."""
        reason = _effects.refused(callee, target, len(arguments))
        if reason is not None:
            self._findings.refuse(reason, where(frame))
            return False
        state = _effects.state_of(callee, target)
        if state is not None:
            self._findings.change(state, "{} gives another value at each call", where(frame))
            return False
        if self._stands_for_an_instruction(frame, callee, target, arguments):
            return False
        if isinstance(callee, functools.partial):
            self.partial_called(callee, frame)
            self.call(frame, callee.func, None, [*callee.args, *arguments])
            return False
        changed = _effects.changed_by(callee, target, arguments[0] if arguments else None)
        if changed is not None and callee is not next and not isinstance(changed, Tensor):
            self._steps.changed(changed, _CHANGES, frame)
            self._hand_over(frame, callee, arguments)
            return False
        return True

    def _written_to(self, out: Any, frame: FrameType) -> None:
        for thing in out if type(out) is tuple else (out,):
            if is_array(thing):
                self._steps.changed(thing, _CHANGES, frame)

    def _stands_for_an_instruction(
        self, frame: FrameType, callee: Any, target: Any, arguments: list[Any]
    ) -> bool:
        if isinstance(target, contextvars.ContextVar):
            self._variable_used(frame, target, callee.__name__)
            return True
        does = _standing_for(callee)
        if not does:
            return False
        bound = callee.__self__ if isinstance(callee, MethodWrapperType) else target
        thing, *rest = arguments if bound is None else [bound, *arguments]
        if does == "vars":
            self._steps.attribute_of(thing, "__dict__", frame)
        elif not rest or not isinstance(rest[0], str):
            return True
        elif does == "read":
            self._steps.attribute_of(thing, rest[0], frame)
        elif does == "store" and len(rest) == 2:
            self._steps.attribute_set(thing, rest[0], rest[1], frame)
        else:
            self._findings.change(thing, _CHANGES, where(frame))
        return True

    def _variable_used(
        self, frame: FrameType, variable: contextvars.ContextVar[Any], name: str
    ) -> None:
        if name == "get":
            value = variable.get(ABSENT)
            self._findings.read(Place("context", variable, None, value, variable), where(frame))
        else:
            self._findings.change(variable, _CHANGES, where(frame))

    def partial_called(self, partial: functools.partial[Any], frame: FrameType | None) -> None:
        """The arguments that a partial brings along are guarded as a whole."""
        held = (partial.args, partial.keywords)
        place = Place("whole", partial, None, held, partial)
        self._findings.read(place, None if frame is None else where(frame))

    def _hand_over(self, frame: FrameType, callee: Any, things: list[Any]) -> None:
        dispatches = _only_dispatches(callee)
        for thing in things:
            if type(thing) in _ALIKE or is_made(thing):
                continue
            self._steps.advanced(thing, frame)
            if dispatches or isinstance(thing, _NOT_READ_AS_A_WHOLE):
                continue
            self._read_as_a_whole(frame, thing)

    def _read_as_a_whole(self, frame: FrameType, thing: Any) -> None:
        """Guard all attributes of an object, and those of the objects in it."""
        stack, seen = [thing], set()
        while stack:
            one = stack.pop()
            if id(one) in seen or isinstance(one, _NOT_READ_AS_A_WHOLE):
                continue
            if isinstance(one, list | tuple | dict) and len(one) <= MOST_PARTS:
                stack.extend(one.values() if isinstance(one, dict) else one)
            if type(one) not in _NUMBERS:
                seen.add(id(one))
            own = None if is_library_class(type(one)) else own_dict(one)
            if not own or self._steps.is_argument(one):
                continue
            self._findings.whole(own, one, where(frame))
            stack.extend(own.values())
            if len(seen) > _MOST_OBJECTS:
                reason = f"{{}} hands over more than {_MOST_OBJECTS} objects, too many to compare"
                self._findings.change(thing, reason, where(frame))
                return


def _is_judged_for_all(callee: Any, target: Any) -> bool:
    """Whether what holds for a call holds for all calls of this callee with such an object."""
    if target is None:
        return type(callee) in (FunctionType, BuiltinFunctionType) or (
            isinstance(callee, type) and not is_library_class(callee)
        )
    return type(target) in _ALIKE


def _standing_for(callee: Any) -> str:
    if isinstance(callee, BuiltinFunctionType) and callee.__module__ == "builtins":
        return _STANDING_FOR.get(callee.__name__, "")
    if isinstance(callee, WrapperDescriptorType | MethodWrapperType):
        return _STANDING_FOR.get(callee.__name__, "")
    return ""


def _only_dispatches(callee: Any) -> bool:
    """Whether a callee reads its arguments through their own methods only."""
    if isinstance(callee, type):
        return callee.__module__ == "builtins" or not is_library_class(callee)
    return isinstance(callee, BuiltinFunctionType) and callee.__module__ == "builtins"
