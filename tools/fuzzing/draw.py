"""The names, numbers and shapes that steps are drawn from: mostly valid ones, some extreme.

Read next: views.py, memory.py, ops.py and steps.py, which draw steps with them.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from typing import Any

from tools.fuzzing.world import Seen, Step, World

EXTREME = (0, 1, -1, 2, -2, 63, 64, 65, 255, 256, 257, 2**15, 2**31 - 1, 2**31, 2**32, 2**32 + 1,
           2**40, 2**61, 2**62, 2**62 + 1, 2**63 - 1, -(2**31), -(2**62), -(2**63), -(2**63) + 1,
           2**63, 2**64, -(2**64))  # fmt: skip
_TEXT = {2**n + d: f"2**{n}" + (f"{d:+d}" if d else "") for n in range(15, 65) for d in (-1, 0, 1)}
_TEXT |= {-number: f"-({text})" for number, text in _TEXT.items()}
SLOTS = tuple(f"v{i}" for i in range(9))
DTYPES = ("float32", "float64", "int64", "int32", "uint8", "bool", "float16", "bfloat16",
          "complex64", "int8", "int16", "complex128", "uint16", "uint32", "uint64")  # fmt: skip
# Elements: up to this, anything is computed. Far more must be refused by whoever would allocate.
SMALL = 2048
HUGE = 1 << 32


def text(number: int) -> str:
    """An int as it is best read."""
    return _TEXT.get(number) or str(number)


def texts(numbers: Iterable[int]) -> str:
    """A list of ints."""
    numbers = list(numbers)
    if len(numbers) > 16 and len(set(numbers[:-1])) == 1:
        return f"[*[{text(numbers[0])}] * {len(numbers) - 1}, {text(numbers[-1])}]"
    return "[" + ", ".join(map(text, numbers)) + "]"


class Draw:
    """Draws parts of steps for a world."""

    def __init__(self, rng: random.Random, world: World) -> None:
        self.rng, self.world = rng, world
        self.kin: list[str] = []  # names on one piece of memory, which the next steps prefer

    def one_of(self, *ways: Callable[..., Any]) -> Callable[..., Any]:
        """One of the functions."""
        return self.rng.choice(ways)

    def chance(self, p: float) -> bool:
        """True with this probability."""
        return self.rng.random() < p

    # --- names ------------------------------------------------------------------------------------
    def any(self) -> str:
        """A tensor of any size."""
        if self.kin and self.rng.random() < 0.8:
            name = self.rng.choice(self.kin)
            if name in self.world.seen:
                return name
        return self.rng.choice(list(self.world.seen))

    def small(self) -> str:
        """A tensor that is cheap to read."""
        for _ in range(4):
            name = self.any()
            if self.at(name).numel <= SMALL:
                return name
        return next((n for n, seen in self.world.seen.items() if seen.numel <= SMALL), name)

    def computed(self) -> str:
        """A tensor for an op: a cheap one, or one that no result can be allocated for."""
        name = self.any()
        return name if self.at(name).numel >= HUGE else self.small()

    def new(self) -> str:
        """A name for a result."""
        return self.rng.choice(SLOTS)

    def at(self, name: str) -> Seen:
        """The tensor of a name."""
        return self.world.seen[name]

    # --- numbers ----------------------------------------------------------------------------------
    def extreme(self) -> int:
        """A number that is likely to be refused."""
        return self.rng.choice(EXTREME)

    def number(self, low: int, high: int, p: float = 0.85) -> int:
        """One between the two, or an extreme one."""
        if high >= low and self.rng.random() < p:
            return self.rng.randint(low, high)
        return self.extreme()

    def axis(self, name: str) -> int:
        """An axis of a tensor."""
        ndim = len(self.at(name).shape)
        return self.number(-ndim, ndim - 1, 0.93)

    def size_along(self, name: str, axis: int) -> int:
        """The size of an axis; 1 if there is no such axis."""
        shape = self.at(name).shape
        return shape[axis] if -len(shape) <= axis < len(shape) else 1

    def scalar(self) -> str:
        """A number for elements."""
        return self.rng.choice(("0", "1", "2", "-1", "0.5", "3", "True", "1e30", "2**40", "-2.5"))

    def shape(self, count: int) -> list[int]:
        """Sizes that have ``count`` elements, or extreme ones."""
        rng = self.rng
        if self.chance(0.1):
            return [self.extreme() for _ in range(rng.choice((1, 2, 3, 4, 8)))]
        if self.chance(0.04):
            return [1] * rng.choice((62, 63, 64, 65, 66, 128, 255, 256, 257, 300)) + [count]
        made = []
        for divisor in (2, 3, 5):
            if count % divisor == 0 and count > divisor and rng.random() < 0.6:
                made.append(divisor)
                count //= divisor
        made.append(count)
        if rng.random() < 0.2:
            made.insert(rng.randrange(len(made) + 1), 1)
        rng.shuffle(made)
        if rng.random() < 0.15:
            made[rng.randrange(len(made))] = -1
        return made

    def sizes(self) -> list[int]:
        """Any small shape, sometimes an extreme one."""
        rng = self.rng
        if self.chance(0.08):
            return self.shape(rng.randrange(64))
        return [rng.choice((0, 1, 2, 3, 4, 5, 7)) for _ in range(rng.choice((0, 1, 1, 2, 2, 3)))]

    def strided(self, name: str) -> str:
        """Arguments of as_strided, which mostly fit."""
        rng, seen = self.rng, self.at(name)
        room = seen.storage[1] // seen.dtype.itemsize
        if self.chance(0.2):
            count = rng.choice((0, 1, 2, 3))
            sizes = [self.number(0, 4, 0.5) for _ in range(count)]
            strides = [self.number(0, 4, 0.5) for _ in range(count)]
            return f"{texts(sizes)}, {texts(strides)}, {text(self.number(0, room, 0.5))}"
        offset = rng.randrange(room + 1)
        sizes, strides, left = [], [], room - offset - 1
        for _ in range(rng.choice((0, 1, 1, 2, 2, 3))):
            stride = rng.choice((0, 1, 1, 2, 3, 5))
            size = rng.randint(0, max(1, min(6, left // stride + 1 if stride else 3)))
            left -= max(0, size - 1) * stride
            sizes.append(size)
            strides.append(stride)
        if left < 0 and self.chance(0.8):
            sizes.append(0)
            strides.append(1)
        start = f", {offset}" if self.chance(0.85) else ""
        return f"{texts(sizes)}, {texts(strides)}{start}"

    # --- indices ----------------------------------------------------------------------------------
    def index(self, name: str) -> tuple[str, bool]:
        """The text of an index, and whether it is a basic one of few axes."""
        rng, shape = self.rng, self.at(name).shape
        parts, basic, axis = list[str](), True, 0
        for _ in range(max(1, rng.choice((1, 1, 1, 2, 2, len(shape), len(shape))))):
            if axis >= len(shape) and rng.random() < 0.9:
                break
            size = shape[axis] if axis < len(shape) else 1
            axis += 1
            kind = rng.random()
            if kind < 0.22:
                parts.append(text(self.number(-size, size - 1, 0.95)))
            elif kind < 0.8:
                parts.append(self.slice(size))
            elif kind < 0.86:
                parts.append("None")
                axis -= 1
            elif kind < 0.9:
                parts.append(":" if "..." in parts else "...")
            elif kind < 0.92:
                parts.append(f"*[None] * {rng.choice((60, 63, 64, 70, 255, 256))}")
                basic, axis = False, axis - 1
            else:
                count, basic = rng.choice((0, 1, 2, 3, 5)), False
                parts.append(texts(self.number(-size, size - 1, 0.97) for _ in range(count)))
        if not basic and self.at(name).numel > SMALL:
            return "0", True
        return ", ".join(parts) or "...", basic

    def slice(self, size: int) -> str:
        """One slice of an axis."""
        rng = self.rng
        start = "" if rng.random() < 0.3 else text(self.number(-size, size, 0.93))
        stop = "" if rng.random() < 0.4 else text(self.number(-size - 1, size + 1, 0.93))
        if rng.random() < 0.5:
            return f"{start}:{stop}"
        step = rng.choice((1, 2, 2, 3, 40, 7)) if rng.random() < 0.95 else self.extreme()
        return f"{start}:{stop}:{text(step)}"


__all__ = ["DTYPES", "EXTREME", "HUGE", "SLOTS", "SMALL", "Draw", "Step", "text", "texts"]
