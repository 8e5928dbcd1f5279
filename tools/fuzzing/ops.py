"""Draws calls of the ops of the registry, and of some functions of `nn.functional`.

The arguments follow from the types in `op_table()`, so a new op is fuzzed without a word here.
Read next: steps.py, which puts all steps together.
"""

from __future__ import annotations

from typing import Any

import adjoint as ad
from tools.fuzzing.draw import DTYPES, SMALL, Draw, text, texts
from tools.fuzzing.world import Step

_TABLE = [
    op
    for op in ad.op_table()
    if not op["name"].startswith("_") and (op["function"] or op["method"] or op["inplace"])
]
# Whose results can be compared: new memory holds anything.
_DEFINED = [op for op in _TABLE if "empty" not in op["name"]]
_WORDS = {
    "reduction": ("mean", "sum", "none"),
    "interpolation": ("linear", "lower", "higher", "midpoint", "nearest"),
    "approximate": ("none", "tanh"),
    "rounding_mode": ("floor", "trunc"),
    "reduce": ("sum", "prod", "amax", "amin", "mean", "add", "multiply"),
}
_INDICES = ("index", "indices", "target", "repeats")
# Small functions of one tensor, for transforms.
_OF_X = (
    "x * 2", "x.sin()", "x[..., 0]", "x[..., 1:]", "x.cumsum(0)", "x.expand(3, *x.shape)",
    "x.sum(0)", "x.roll(1)", "x.tril()", "x.view(-1)", "x.repeat(2)",
    "x.unsqueeze(0)", "x.reshape(-1)", "x.diagonal()", "x.unfold(0, 2, 1)", "x.clone().mul_(3)",
    "x.T @ x", "x.narrow(0, 0, 1)", "x.as_strided((2,), (1,), 0)", "ad.cat([x, x])", "x.flip(0)",
    "x.sort().values", "x.index_select(0, ad.tensor([0, 0]))", "x.masked_fill(x > 0, 1)",
    "x.clone().fill_(2)", "x.squeeze()", "x.movedim(0, -1)", "x.softmax(0)", "x.double()",
    "x.split(1)[0]", "x.pow(2).prod()", "x.unsqueeze(1).expand(-1, 4)",
)  # fmt: skip
# Ops whose result is a tuple, though the table has no names for its parts.
_MANY = {"broadcast_tensors", "meshgrid", "chunk", "dsplit", "hsplit", "vsplit", "split",
         "split_with_sizes", "tensor_split", "unbind", "unravel_index", "std_mean",
         "var_mean"}  # fmt: skip

_IN_DTYPE_OF_OUT = {"sum", "prod", "nansum", "cumsum", "cumprod", "mean", "nanmean"}


class Ops(Draw):
    """Draws calls of ops; with ``defined`` none whose values may be anything."""

    defined = False

    def of_x(self) -> str:
        """An expression of `x`."""
        return self.rng.choice(_OF_X)

    def op(self) -> Step:
        """A call of an op: as a function, a method, in place, or with out=."""
        rng, op = self.rng, self.rng.choice(_DEFINED if self.defined else _TABLE)
        name: str = op["name"]
        first, arguments = self._arguments(op)
        ways = [way for way in ("function", "method", "inplace") if op[way]]
        way = rng.choice(ways + ["out"] * (op["out"] and op["function"]))
        # Two draws differ, and what new memory holds; without an operand the dtype is that of out=.
        fixed = first != "" and op["family"] != "random" and "empty" not in name
        if way in ("method", "inplace") and first and arguments[0] == first:
            call = f"{first}.{name}({', '.join(arguments[1:])})"
            if way == "inplace":
                same = call if op["method"] else f"ad.{name}({', '.join(arguments)})"
                same = same if fixed and (op["method"] or op["function"]) else ""
                return Step(call.replace("(", "_(", 1), (first,), "", same)
        elif way == "out":
            out, same = self.small(), f"ad.{name}({', '.join(arguments)})"
            # Sums and their like compute in the dtype of out=, as PyTorch's do: another result.
            fixed = fixed and name not in _IN_DTYPE_OF_OUT
            line = f"ad.{name}({', '.join([*arguments, f'out={out}'])})"
            return Step(line, (out,), "", same if fixed else "")
        else:
            call = f"ad.{name}({', '.join(arguments)})"
        if op["results"] or name in _MANY:
            return Step(f"t = tuple({call})")
        return Step(f"{self.new()} = {call}")

    def _arguments(self, op: dict[str, Any]) -> tuple[str, list[str]]:
        """The first tensor, and the texts of all arguments."""
        first, made, named = "", [], False
        for argument in op["arguments"]:
            given = argument["default"] is None and not argument["type"].endswith("?")
            if not given and (self.rng.random() < 0.6 or argument["type"] == "any?"):
                named = True  # what follows is given by name
                continue
            value = self._value(argument["type"].rstrip("?"), argument["name"], first)
            if not first and value in self.world.seen:
                first = value
            named = named or argument["keyword_only"]
            if named and argument["name"] in ("from", "to"):
                continue
            made.append(f"{argument['name']}={value}" if named else value)
        return first, made

    def _value(self, kind: str, name: str, first: str) -> str:
        rng = self.rng
        if kind == "Tensor":
            return self._tensor(name, first)
        if kind == "Operand":
            return self.computed() if rng.random() < 0.6 else self.scalar()
        if kind in ("Tensor[]", "Tensor[*]"):
            return "[" + ", ".join(self.small() for _ in range(rng.choice((1, 2, 2, 3)))) + "]"
        if kind == "Tensor?[]":
            return f"[{self._index(first)}]"
        if kind in ("Scalar", "float"):
            return self.scalar()
        if kind == "int":
            if name.startswith("dim") and first:
                return text(self.axis(first))
            return text(self.number(-1, 6))
        if kind == "bool":
            return rng.choice(("True", "False"))
        if kind == "str":
            return repr(rng.choice(_WORDS.get(name, ("none",))))
        if kind in ("int[]", "int[*]"):
            if name.startswith("dim") and first:
                return texts(self.axis(first) for _ in range(rng.choice((1, 2))))
            return texts(self.sizes())
        if kind == "dtype":
            return f"ad.{rng.choice(DTYPES)}"
        return "None"

    def _tensor(self, name: str, first: str) -> str:
        rng = self.rng
        if not first:
            return self.computed()
        if name in _INDICES:
            return self._index(first)
        if name in ("mask", "condition"):
            return f"({first} > 0)" if self.at(first).numel <= SMALL else "ad.tensor([True])"
        if rng.random() < 0.3 and self.at(first).numel <= SMALL:
            return first
        return self.small()

    def _index(self, first: str) -> str:
        rng = self.rng
        shape = self.at(first).shape if first in self.world.seen else (3,)
        size = rng.choice(shape) if shape else 1
        if rng.random() < 0.3 and first in self.world.seen and self.at(first).numel <= SMALL:
            value = text(self.number(-size, size - 1, 0.9))
            return f"ad.full_like({first}, {value}, dtype=ad.int64)"
        count = rng.choice((0, 1, 2, 3, size % 64))
        numbers = [self.number(-size, size - 1, 0.97) for _ in range(count)]
        numbers = [n if -(2**63) <= n < 2**63 else 0 for n in numbers]
        return f"ad.tensor({texts(numbers)}, dtype=ad.int64)"

    def layer(self) -> Step:
        """A function of nn.functional whose sizes are its arguments."""
        rng, name = self.rng, self.small()
        n = [text(self.number(0, 3, 0.9)) for _ in range(6)]
        d = rng.choice((1, 2))
        x = f"{name}.detach().float().reshape({', '.join(('1', '1', '-1', '1')[: d + 2])})"
        weight = f"ad.ones({texts([1] * (d + 2))}).expand({texts([2, 1] + [2] * d)})"
        mode = rng.choice(("constant", "reflect", "replicate", "circular"))
        call = rng.choice((
            f"conv{d}d({x}, {weight}, None, {n[0]}, {n[1]}, {n[2]}, {n[3]})",
            f"conv{d}d({x}, {self.small()}, {self.small()}, stride={n[0]}, padding={n[1]})",
            f"max_pool{d}d({x}, {n[0]}, {n[1]}, {n[2]}, {n[3]})",
            f"max_pool{d}d({x}, {n[0]}, {n[1]}, ceil_mode=True)",
            f"pad({name}, [{', '.join(n[: 2 * d])}], mode={mode!r})",
            f"one_hot({name}, {n[0]})",
            f"embedding({self._index(name)}, {name})",
            f"glu({name}, {text(self.axis(name))})",
            f"normalize({name}, dim={text(self.axis(name))})",
            f"group_norm({name}, {n[0]})",
            f"batch_norm({name}, None, None, training=True)",
            f"layer_norm({name}, {texts(self.at(name).shape[-d:])})",
        ))  # fmt: skip
        return Step(f"{self.new()} = F.{call}")
