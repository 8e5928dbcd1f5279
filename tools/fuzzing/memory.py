"""Draws what makes, moves, shares, writes and frees memory.

Read next: ops.py, which draws calls of every op.
"""

from __future__ import annotations

from tools.fuzzing.draw import DTYPES, HUGE, SMALL, Draw, text, texts
from tools.fuzzing.world import Step

_ARRAYS = ("float32", "float64", "int64", "uint8", "bool", "float16", "complex64", "int32")
_FORMATS = ("contiguous_format", "channels_last", "preserve_format", "channels_last_3d")


class Memory(Draw):
    """Draws steps about memory."""

    # --- from outside -----------------------------------------------------------------------------
    def array(self) -> Step:
        """An array with guards, or a tensor on one."""
        rng, names = self.rng, [name for name in self.world.names if name[0] == "b"]
        if len(names) < 2 or (len(names) < 4 and self.chance(0.05)):
            count = rng.choice((4, 6, 12, 12, 24, 24, 36, 40, 60, 64, 0, 1))
            if self.chance(0.03):
                count = 1200  # more than the elements that kernels take at once
            return Step(f"b{len(names)} = guarded({rng.choice(_ARRAYS)!r}, {count})")
        name = rng.choice(names)
        part = rng.choice(("", "", "[1:]", "[2:-1]", "[::2]", "[1::3]", "[:4]", "[:0]", "[-3:]",
                           "[::-1]", "[1:1]", "[None]", "[:, None]"))  # fmt: skip
        if part == "" and self.chance(0.5):
            part = f".reshape({texts(self.shape(len(self.world.names[name])))})"
            part += rng.choice(("", "", ".T", ".view(np.uint8)"))
        how = rng.choice(("from_numpy", "from_numpy", "from_dlpack", "as_tensor", "asarray"))
        return Step(f"{self.new()} = ad.{how}({name}{part})")

    def made(self) -> Step:
        """A tensor of the library's own."""
        return Step(f"{self.new()} = ad.arange(12.0).reshape({texts(self.shape(12))})")

    def to_array(self) -> Step:
        """An array on a tensor, or a tensor from one by another protocol."""
        rng, name, array = self.rng, self.small(), f"a{self.rng.randrange(3)}"
        buffer = f"bytearray({rng.randrange(65)}), dtype=ad.{rng.choice(DTYPES)}"
        numbers = f"count={text(self.number(-1, 5))}, offset={text(self.number(0, 9))}"
        return Step(rng.choice((
            f"{array} = {name}.detach().numpy()",
            f"{array} = np.asarray({name}.detach())",
            f"{array} = np.from_dlpack({name}.detach())",
            f"{self.new()} = ad.from_dlpack({name}.detach())",
            f"{self.new()} = ad.from_numpy({name}.detach().numpy())",
            f"{self.new()} = ad.tensor({name}.tolist())",
            f"{self.new()} = ad.frombuffer({buffer}, {numbers})",
        )))  # fmt: skip

    # --- another place ----------------------------------------------------------------------------
    def resize(self) -> Step:
        """A tensor with other sizes, or on other memory."""
        rng, name = self.rng, self.any()
        seen = self.at(name)
        room = seen.storage[1] // seen.dtype.itemsize
        sizes = self.sizes() if self.chance(0.5) else self.shape(rng.randint(0, room + 2))
        end = rng.choice(("", "", "[1:]", ".data", ".detach()"))
        line = rng.choice((
            f"{name}.resize_({texts(sizes)})",
            f"{name}.resize_({texts(sizes)})",
            f"{name}.resize_({texts(self.sizes())}, memory_format=ad.{rng.choice(_FORMATS)})",
            f"{name}.resize_as_({self.any()})",
            f"{name}.set_({self._source()})",
            f"{name}.set_({self._source()})",
            f"{name}.data = {self.any()}{end}",
        ))  # fmt: skip
        return Step(line, (name,))

    def _source(self) -> str:
        """Arguments of set_."""
        other = self.any()
        kind = self.rng.randrange(4)
        if kind == 0:
            return other
        if kind == 1:
            return f"{other}.{self.rng.choice(('untyped_storage', 'storage'))}()"
        if kind == 2:
            return f"{other}, {text(self.number(0, 6))}, {texts(self.sizes())}"
        sizes, strides, *start = self.strided(other).split("], ")
        offset = start[0] if start else "0"
        return f"{other}.untyped_storage(), {offset}, {sizes}], {strides.rstrip(']')}]"

    def restride(self) -> Step:
        """A tensor with another geometry on its memory, in place."""
        name = self.any()
        axis = text(self.axis(name))
        call = self.rng.choice((
            f"as_strided_({self.strided(name)})",
            f"as_strided_({self.strided(name)})",
            f"transpose_({axis}, 0)", f"squeeze_({axis})", f"unsqueeze_({axis})", "t_()",
            f"swapaxes_({axis}, -1)", "squeeze_()", "detach_()", "requires_grad_(False)",
        ))  # fmt: skip
        return Step(f"{name}.{call}", (name,))

    def lifetime(self) -> Step:
        """Something ends, or moves."""
        lines = (f"del {self.any()}", f"del {self.any()}", f"del {self.any()}",
                 f"a{self.rng.randrange(3)} = None", "gc.collect(0)", "ad.release_memory()",
                 f"{self.small()}.share_memory_()")  # fmt: skip
        return Step(self.rng.choice(lines))

    # --- writes -----------------------------------------------------------------------------------
    def write(self) -> Step:
        """An in-place op, mostly one with a model."""
        name, other = self.any(), self.small()
        if SMALL < self.at(name).numel < HUGE:
            name = self.small()
        alike = self.at(other).dtype == self.at(name).dtype
        step: Step = self.one_of(self._filled, self._copied, self._added, self._put, self._put)(
            name, other, alike
        )
        return step

    def _filled(self, name: str, other: str, alike: bool) -> Step:
        if self.chance(0.5):
            return Step(f"{name}.zero_()", (name,), f"np.zeros_like({name})")
        value = self.scalar()
        return Step(f"{name}.fill_({value})", (name,), f"np.full_like({name}, {value})")

    def _copied(self, name: str, other: str, alike: bool) -> Step:
        model = f"np.broadcast_to({other}, {name}.shape)" if alike else ""
        return Step(f"{name}.copy_({other})", (name,), model, f"{other}.expand({name}.shape)")

    def _added(self, name: str, other: str, alike: bool) -> Step:
        op = self.rng.choice(("add", "subtract", "multiply"))
        exact = alike and not self.at(name).dtype.is_complex
        model = f"np.{op}({name}, {other})" if exact else ""
        return Step(f"{name}.{op}_({other})", (name,), model, f"ad.{op}({name}, {other})")

    def _put(self, name: str, other: str, alike: bool) -> Step:
        index, basic = self.index(name)
        if self.chance(0.3):
            model = f"put({name}, np.s_[{index}], {other})" if basic and alike else ""
            return Step(f"{name}[{index}] = {other}", (name,), model)
        part = f"{name}[{index}]"
        line, value = self.rng.choice((("= 0", "0"), ("= 3", "3"), ("+= 1", f"{part} + 1")))
        # NumPy leaves open which of equal indices wins.
        model = f"put({name}, np.s_[{index}], {value})" if basic else ""
        return Step(f"{part} {line}", (name,), model)

    def out(self) -> Step:
        """A result into a given tensor."""
        rng, name, other, out = self.rng, self.small(), self.small(), self.any()
        if self.chance(0.4):
            op = rng.choice(("add", "subtract", "multiply"))
            alike = len({self.at(n).dtype for n in (name, other, out)}) == 1
            model = alike and not self.at(out).dtype.is_complex
            return Step(
                f"ad.{op}({name}, {other}, out={out})",
                (out,),
                f"np.{op}({name}, {other})" if model else "",
                f"ad.{op}({name}, {other})",
            )
        call = rng.choice((
            f"{rng.choice(('neg', 'sin', 'abs', 'square', 'maximum'))}({name}",
            f"sin(ad.ones({texts(self.sizes())})",
            f"{rng.choice(('zeros', 'ones', 'rand'))}({texts(self.sizes())}",
            f"sum({name}, {text(self.axis(name))}",
        ))  # fmt: skip
        same = (
            ""
            if call.startswith(("rand", "sum", "prod", "cumsum", "cumprod", "mean"))
            else f"ad.{call})"
        )
        return Step(f"ad.{call}, out={out})", (out,), "", same)

    # --- copies -----------------------------------------------------------------------------------
    def copies(self) -> Step:
        """A tensor that has been somewhere else."""
        rng, name, other = self.rng, self.small(), self.small()
        made = rng.choice((f"{name}.clone()", f"{name}.contiguous()", f"copy.copy({name})",
                           f"copy.deepcopy({name}.detach())", f"loaded({name}.detach())",
                           f"pickle.loads(pickle.dumps({name}.detach()))", "", ""))  # fmt: skip
        if made:
            return Step(f"{self.new()} = {made}", (), name)
        return Step(rng.choice((
            f"t = tuple(loaded([{name}.detach(), {other}.detach()]))",
            f"t = tuple(copy.deepcopy([{name}.detach(), {other}.detach()]))",
            f"{self.new()} = {name}.to(ad.{rng.choice(DTYPES)})",
        )))  # fmt: skip
