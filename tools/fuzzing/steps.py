"""Draws the steps of a sequence, each for the tensors that a world has at that moment.

Read next: draw.py, the numbers; views.py, memory.py and ops.py, the steps.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable

from tools.fuzzing.draw import DTYPES, SLOTS, text, texts
from tools.fuzzing.memory import Memory
from tools.fuzzing.ops import Ops
from tools.fuzzing.views import Views
from tools.fuzzing.world import Step, World

# What is drawn, and how often.
KINDS = {"array": 4, "to_array": 1, "get": 12, "view": 16, "complex_view": 1, "parts": 3, "part": 3,
         "resize": 6, "restride": 3, "write": 16, "lifetime": 2, "copies": 3, "joined": 3, "out": 6,
         "gradient": 4, "batch": 2, "op": 14, "layer": 2, "shifted": 6}  # fmt: skip
# In a function that is compiled: no files, no memory from outside.
COMPILED = {"get": 10, "view": 12, "complex_view": 1, "parts": 2, "part": 3, "restride": 1,
            "write": 16, "joined": 2, "out": 4, "op": 12, "gradient": 1, "batch": 1}  # fmt: skip


class Steps(Views, Memory, Ops):
    """Draws steps for a world."""

    def __init__(
        self, rng: random.Random, world: World, kinds: dict[str, int] | None = None
    ) -> None:
        super().__init__(rng, world)
        kinds = kinds or KINDS
        self.defined = kinds is COMPILED
        self._first = self.array if "array" in kinds else self.made
        self._ways: list[Callable[[], Step]] = [getattr(self, name) for name in kinds]
        self._weights = list(itertools.accumulate(kinds.values()))

    def draw(self) -> Step:
        """The next step."""
        if len(self.world.seen) < 2:
            return self._first()
        ways, weights = self._ways, self._weights
        if self.kin:  # what writes, mostly to memory that is read
            if self.chance(0.25):
                self.kin = []
            else:
                ways, weights = [self.write, self.out, self.op], [1, 2, 4]
        (way,) = self.rng.choices(ways, cum_weights=weights)
        return way()

    def shifted(self) -> Step:
        """Tensors of one shape, each at another place of one piece of memory."""
        name, rng = self.small(), self.rng
        seen = self.at(name)
        room = min(seen.storage[1] // seen.dtype.itemsize, 1200)
        if room < 4:
            return self.view()
        rows, columns = rng.choice(((1, 2), (1, room // 2), (2, 2), (2, room // 4), (room // 4, 2)))
        base, lines, self.kin = f"{name}.detach()", [], []
        if self.chance(0.1):
            base += f".view(ad.{rng.choice(DTYPES)})"
        for slot in rng.sample([slot for slot in SLOTS if slot != name], rng.choice((2, 2, 3))):
            strides = rng.choice(((columns, 1), (columns, 1), (1, rows), (1, 1), (2, 1)))
            reach = (rows - 1) * strides[0] + (columns - 1) * strides[1]
            offset = rng.randint(0, min(3, room - 1 - reach)) if reach < room else 0
            lines.append(f"{slot} = {base}.as_strided({[rows, columns]}, {[*strides]}, {offset})")
            self.kin.append(slot)
        return Step("; ".join(lines))

    def joined(self) -> Step:
        """Tensors put together, of extreme sizes too."""
        rng = self.rng
        names = [self.computed() for _ in range(rng.choice((1, 2, 2, 3, 4)))]
        if self.chance(0.3):
            names = [names[0]] * len(names)
        if self.chance(0.05):
            sizes = texts([self.extreme(), *self.at(names[0]).shape])
            names = [f"{names[0]}.expand({sizes})"] * rng.choice((1, 2, 4))
        group, axis = "[" + ", ".join(names) + "]", text(self.number(-2, 1))
        call = rng.choice((f"cat({group}, {axis})", f"stack({group}, {axis})", f"hstack({group})",
                           f"vstack({group})", f"dstack({group})", f"column_stack({group})",
                           f"block_diag(*{group})"))  # fmt: skip
        if self.chance(0.25):
            out = self.small()
            return Step(f"ad.{call[:-1]}, out={out})", (out,), "", f"ad.{call}")
        return Step(f"{self.new()} = ad.{call}")

    def gradient(self) -> Step:
        """A derivative, or something that leads to one."""
        name, other, new = self.small(), self.small(), self.new()
        x = self.of_x()
        return self.rng.choice((
            Step(f"{name}.requires_grad_()", (name,)),
            Step(f"{new} = {name}.detach().clone().requires_grad_()", (), name),
            Step(f"{new} = {name}.detach().clone().requires_grad_()", (), name),
            Step(f"{name}.sum().backward()", ("grad",)),
            Step(f"{name}.sum().backward(retain_graph=True)", ("grad",)),
            Step(f"{name}.backward(ad.ones_like({name}))", ("grad",)),
            Step(f"{new} = {other}.grad"),
            Step(f"t = ad.autograd.grad({name}.sum(), {other}, allow_unused=True)"),
            Step(f"with ad.no_grad(): {name}.add_({other})", (name,), "", f"{name} + {other}"),
            Step(f"{new} = ad.func.grad(lambda x: ({x}).sum())({name})"),
            Step(f"t = ad.func.jvp(lambda x: {x}, ({name},), ({name},))"),
        ))  # fmt: skip

    def batch(self) -> Step:
        """A function over an axis."""
        name = self.small()
        axes = f"{text(self.axis(name))}, {text(self.number(-1, 1))}"
        return Step(f"{self.new()} = ad.func.vmap(lambda x: {self.of_x()}, {axes})({name})")
