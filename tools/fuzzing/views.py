"""Draws views: everything that puts another geometry on the same memory.

Read next: memory.py, which draws what moves a tensor to other memory.
"""

from __future__ import annotations

from tools.fuzzing.draw import DTYPES, HUGE, SMALL, Draw, text, texts
from tools.fuzzing.world import Step

Call = tuple[str, str]  # a method call, and its model


class Views(Draw):
    """Draws views."""

    def get(self) -> Step:
        """An indexed tensor."""
        name = self.any()
        index, basic = self.index(name)
        return Step(f"{self.new()} = {name}[{index}]", (), f"{name}[{index}]" if basic else "")

    def view(self) -> Step:
        """A view by one of the methods that make one."""
        name = self.any()
        call, model = self.one_of(
            self._turned, self._permuted, self._expanded, self._expanded, self._unfolded,
            self._diagonal, self._narrow, self._squeezed, self._reshaped, self._reshaped,
            self._strided, self._strided, self._flat, self._seen, self._alike, self._signed,
        )(name)  # fmt: skip
        return Step(f"{self.new()} = {name}.{call}", (), model)

    def _signed(self, name: str) -> Call:
        call = self.rng.choice(("conj", "_neg_view", "mH", "imag", "real"))
        if call in ("conj", "_neg_view"):
            model = f"np.conj({name})" if call == "conj" else f"np.negative({name})"
            return f"{call}()", model
        return call, "" if call == "mH" else f"np.{call}({name})"

    def _turned(self, name: str) -> Call:
        call = self.rng.choice(("transpose", "swapaxes", "movedim"))
        return f"{call}({text(self.axis(name))}, {text(self.axis(name))})", ""

    def _permuted(self, name: str) -> Call:
        order = list(range(len(self.at(name).shape)))
        self.rng.shuffle(order)
        if self.chance(0.1):
            order.append(self.extreme())
        return f"permute({texts(order)})", f"np.transpose({name}, {texts(order)})"

    def _expanded(self, name: str) -> Call:
        rng, shape = self.rng, self.at(name).shape
        sizes = [size if size != 1 else rng.choice((1, 3, 4)) for size in shape]
        extra = [rng.choice((1, 2, 3)) for _ in range(rng.choice((0, 0, 1, 2)))]
        if self.chance(0.15):
            sizes = [size if size != 1 else self.extreme() for size in shape]
        if self.chance(0.1):
            extra = [self.extreme() for _ in range(rng.choice((1, 2, 3)))]
        if self.chance(0.02):
            extra = [1] * rng.choice((60, 64, 250, 256))
        return f"expand({texts(extra + sizes)})", ""

    def _unfolded(self, name: str) -> Call:
        axis = self.axis(name)
        size = self.number(0, self.size_along(name, axis))
        return f"unfold({text(axis)}, {text(size)}, {text(self.number(1, 4))})", ""

    def _diagonal(self, name: str) -> Call:
        numbers = (self.number(-3, 3), self.axis(name), self.axis(name))
        arguments = ", ".join(map(text, numbers))
        # NumPy cuts the offset to 32 bits.
        model = f"np.diagonal({name}, {arguments})" if abs(numbers[0]) < 2**31 else ""
        return f"diagonal({arguments})", model

    def _narrow(self, name: str) -> Call:
        axis = self.axis(name)
        size = self.size_along(name, axis)
        start = self.number(-size, size - 1)
        if self.chance(0.4):
            return f"select({text(axis)}, {text(start)})", ""
        length = self.number(0, size - start % size if size else 0)
        return f"narrow({text(axis)}, {text(start)}, {text(length)})", ""

    def _squeezed(self, name: str) -> Call:
        ndim = len(self.at(name).shape)
        if self.chance(0.5):
            return f"unsqueeze({text(self.number(-ndim - 1, ndim))})", ""
        return self.rng.choice(("squeeze()", f"squeeze({text(self.axis(name))})")), ""

    def _reshaped(self, name: str) -> Call:
        numel = self.at(name).numel
        sizes = texts(self.shape(numel))
        call = "view" if SMALL < numel < HUGE else self.rng.choice(("view", "reshape"))
        return f"{call}({sizes})", f"{name}.reshape({sizes})" if "*[" not in sizes else ""

    def _strided(self, name: str) -> Call:
        return f"as_strided({self.strided(name)})", ""

    def _flat(self, name: str) -> Call:
        first, last = text(self.axis(name)), text(self.axis(name))
        if SMALL < self.at(name).numel < HUGE:
            return f"unflatten({first}, {texts(self.sizes())})", ""
        size = self.size_along(name, self.axis(name))
        return self.rng.choice((f"flatten({first}, {last})", "ravel()",
                                f"unflatten({first}, {texts(self.shape(size))})")), ""  # fmt: skip

    def _seen(self, name: str) -> Call:
        if self.chance(0.3):
            return f"view(ad.{self.rng.choice(DTYPES)})", ""
        return self.rng.choice(("T", "mT", "real", "imag", "data", "H", "mH", "t()", "conj()",
                                "adjoint()", "detach()")), ""  # fmt: skip

    def _alike(self, name: str) -> Call:
        other = self.any()
        call = self.rng.choice(("view_as", "expand_as", "reshape_as"))
        if call == "reshape_as" and SMALL < self.at(name).numel < HUGE:
            call = "view_as"
        return f"{call}({other})", ""

    def complex_view(self) -> Step:
        """A view of complex numbers as pairs, or of pairs as complex numbers."""
        call = self.rng.choice(("view_as_real", "view_as_complex"))
        return Step(f"{self.new()} = ad.{call}({self.any()})")

    # --- many at once -----------------------------------------------------------------------------
    def parts(self) -> Step:
        """Many views at once, of which later steps take some."""
        rng, name = self.rng, self.small()
        axis = self.axis(name)
        size = self.size_along(name, axis)
        along, few = text(axis), text(self.number(1, 5))
        places = texts(self.number(-size, size) for _ in range(rng.choice((0, 1, 2, 3))))
        call = rng.choice((
            f"split({self._sections(size)}, {along})",
            f"unsafe_split({self._sections(size)}, {along})",
            f"split_with_sizes({self._sections(size)}, {along})",
            f"split({few}, {along})",
            f"chunk({few}, {along})",
            f"unsafe_chunk({few}, {along})",
            f"tensor_split({few}, {along})",
            f"tensor_split({places}, {along})",
            f"{rng.choice(('hsplit', 'vsplit', 'dsplit'))}({rng.choice((few, places))})",
            f"unbind({along})",
        ))  # fmt: skip
        return Step(f"t = tuple({name}.{call})")

    def _sections(self, size: int) -> str:
        rng, sizes, left = self.rng, list[int](), size
        if self.chance(0.1):
            return texts([rng.choice((2**61, 2**62, 2**63 - 1))] * rng.choice((2, 4, 8)) + [size])
        while left > 0 and len(sizes) < 6:
            sizes.append(rng.randint(0, left))
            left -= sizes[-1]
        sizes.append(left)
        if self.chance(0.2):
            sizes[rng.randrange(len(sizes))] = self.extreme()
        return texts(sizes)

    def part(self) -> Step:
        """One of the parts."""
        parts = self.world.names.get("t")
        if not parts:
            return self.parts()
        return Step(f"{self.new()} = t[{self.rng.choice((0, -1, len(parts) // 2))}]")
