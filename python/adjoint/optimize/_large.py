"""Solving with the derivative of a residual that is too large to be written down.

The matrix is known by its products (forward and reverse mode) and solved with by Krylov's methods,
or it is sparse, found by colours, and factored. Read _linear.py and _implicit.py first.

Note [Transposed answers]: where gradients are differentiated again, the transposed solve is itself
an answer: of the linear equation ``Aᵀ u = g``, whose residual is made of recorded operations. So
one solver serves derivatives of every order.

Note [Frozen steps]: where the answer has to be made of ordinary operations (Note [Answers in
ordinary operations]), Newton's steps are taken with the matrix as it is at the answer, a constant.
Each of them is exact to one more order of the derivative; three are taken.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import adjoint as ad
from adjoint import _core
from adjoint._colouring import Pattern
from adjoint._core import Tensor
from adjoint._samples import is_batched
from adjoint._transforming import outside_transforms
from adjoint.autograd import Function
from adjoint.func import jacobian, jvp, vjp, vmap

from ._inside import is_inside, program_of
from ._linear import Dense, Linear, Residual, linalg_error

__all__ = ["ByFactors", "ByPart", "ByProducts", "Large", "product_with", "transposed_product_with"]

_DENSE_SAMPLES = 2000  # unknowns up to which the samples of a vmap have whole matrices

Map = Callable[[Tensor], Tensor]


def product_with(residual: Residual, x: Tensor) -> Map:
    """Products with the derivative of a residual at ``x``."""
    return lambda v: jvp(residual, (x,), (v,))[1]


def transposed_product_with(residual: Residual, x: Tensor) -> Map:
    """Products with its transpose: one evaluation serves them all."""
    with ad.enable_grad():
        _, pull = vjp(residual, x)

    def product(u: Tensor) -> Tensor:
        with ad.enable_grad():
            found: Tensor = pull(u)[0]
        return found

    return product


class Part(NamedTuple):
    """A function of tensors, and tensors like its arguments."""

    function: Callable[..., Tensor]
    like: list[Tensor]


class Large(Linear):
    """A matrix that is solved with, but not written down."""

    def raw(self, residual: Residual, x: Tensor, b: Tensor, transposed: bool) -> Tensor:
        """``A⁻¹ b`` or ``A⁻ᵀ b``, without history; ``x`` and ``b`` are vectors."""
        if is_inside():
            found = self._on_host(residual, x, b, transposed)
            if found is not None:
                return found
        return self.raw_now(residual, x, b, transposed)

    def raw_now(self, residual: Residual, x: Tensor, b: Tensor, transposed: bool) -> Tensor:
        """The same by values that are there."""
        raise NotImplementedError

    def part(self, residual: Residual, x: Tensor, transposed: bool) -> Part | None:
        """What a program computes in each of its runs to solve with; None where that is unknown."""
        return None

    def by_part(self, part: Any, x: Tensor, b: Tensor, transposed: bool) -> Tensor:
        """``A⁻¹ b`` or ``A⁻ᵀ b``, where ``part`` is that function."""
        raise NotImplementedError

    def _on_host(self, residual: Residual, x: Tensor, b: Tensor, transposed: bool) -> Tensor | None:
        """``raw`` as an instruction of the program that is recorded."""
        from adjoint.sparse.linalg._solution import run_on_host

        part = self.part(residual, x, transposed)
        program = None if part is None else program_of(part.function, *part.like)
        if program is None:
            return None

        def run(tensors: Sequence[Tensor]) -> list[Tensor]:
            x, b, *reached = tensors
            with ad.no_grad():
                found = self.by_part(program.on(reached), x, b, transposed).detach()
            made: list[Tensor] = _core._own_memory([found], [x, b])
            return made

        given = [x.detach().contiguous(), b.detach().contiguous(), *program.reached]
        (found,) = run_on_host(run, given, [], [b.detach()])
        return found

    def solve(self, residual: Residual, x: Tensor, b: Tensor) -> Tensor:
        with ad.no_grad():
            solved: Tensor = _Frozen.apply(self, residual, x.detach(), False, b.detach())
        return solved

    def newton_step(self, residual: Residual, x: Tensor, r: Tensor) -> tuple[Tensor, Tensor]:
        try:
            return self.solve(residual, x, r), ad.tensor(True)
        except linalg_error:
            return ad.zeros_like(x), ad.tensor(False)

    def solve_transposed(self, residual: Residual, x: Tensor, b: Tensor) -> Tensor:
        with ad.no_grad():
            u: Tensor = _Frozen.apply(self, residual, x.detach(), True, b.detach())
        if not ad.is_grad_enabled():
            return u
        from ._implicit import answer  # Note [Transposed answers]

        def equation(w: Tensor) -> Tensor:
            return transposed_product_with(residual, x)(w) - b

        return answer(equation, u, _Turned(self, residual, x.detach()))

    def by_steps(self, residual: Residual, x: Tensor, r: Tensor, steps: int) -> Tensor:
        if is_batched(r):
            if x.numel() > _DENSE_SAMPLES:
                raise NotImplementedError(
                    f"the derivative of an answer with {x.numel()} unknowns by the samples of vmap "
                    f"needs whole matrices, which are refused beyond {_DENSE_SAMPLES}.\n"
                    "  fix: put the derivative and the solver into a loop over the samples"
                )
            return Dense().by_steps(residual, x, r, steps)
        return self._by_frozen_steps(residual, x, r)

    def _by_frozen_steps(self, residual: Residual, x: Tensor, r: Tensor) -> Tensor:
        at = x
        for k in range(3):  # Note [Frozen steps]
            x = x - _Frozen.apply(self, residual, at, False, r if k == 0 else residual(x))
        return x


class _Turned(Large):
    """The transpose of another."""

    def __init__(self, of: Large, residual: Residual, x: Tensor) -> None:
        self._of, self._residual, self._x = of, residual, x

    def raw(self, residual: Residual, x: Tensor, b: Tensor, transposed: bool) -> Tensor:
        return self._of.raw(self._residual, self._x, b, not transposed)

    def by_steps(self, residual: Residual, x: Tensor, r: Tensor, steps: int) -> Tensor:
        # Samples are those of gradients: a node stands for an equation without any.
        return self._by_frozen_steps(residual, x, r)


class ByPart(Large):
    """Another one inside of a program, by a function that is one itself."""

    def __init__(self, of: Large, part: Any) -> None:
        self._of, self._part = of, part

    def raw_now(self, residual: Residual, x: Tensor, b: Tensor, transposed: bool) -> Tensor:
        return self._of.by_part(self._part, x.contiguous(), b.contiguous(), transposed)


class _Frozen(Function):
    """``A⁻¹ r`` or ``A⁻ᵀ r`` as a function of ``r`` alone."""

    allow_hidden_tensors = True  # the matrix is a constant: Note [Frozen steps]
    generate_vmap_rule = True  # of directions: the matrix is the same for all

    @staticmethod
    def forward(
        ctx: Any, large: Large, residual: Residual, x: Tensor, transposed: bool, r: Tensor
    ) -> Tensor:
        ctx.what = large, residual, x, transposed
        # Transforms around this one are not meant for the solver's own derivatives.
        with outside_transforms:
            solved: Tensor = _core._call_apart(large.raw, (residual, x, r, transposed), None)
        return solved

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Any:
        large, residual, x, transposed = ctx.what
        return None, None, None, None, _Frozen.apply(large, residual, x, not transposed, g)

    @staticmethod
    def jvp(ctx: Any, *tangents: Any) -> Any:
        return _Frozen.apply(*ctx.what, tangents[-1])


class ByProducts(Large):
    """By a method that needs products only.

    Parameters
    ----------
    method
        ``method(product, b)`` gives ``A⁻¹ b``, or raises.
    transposed_method
        The same with products of the transpose; ``method`` if it is not given.
    """

    def __init__(
        self,
        method: Callable[[Map, Tensor], Tensor],
        transposed_method: Callable[[Map, Tensor], Tensor] | None = None,
    ) -> None:
        self._methods = method, transposed_method or method

    def raw_now(self, residual: Residual, x: Tensor, b: Tensor, transposed: bool) -> Tensor:
        make = transposed_product_with if transposed else product_with
        if is_inside():  # a program of products has all of the residual in it
            return self._methods[transposed](lambda v: make(residual, x)(v).detach(), b)
        product = make(residual, x)
        return self._methods[transposed](lambda v: product(v).detach(), b)

    def part(self, residual: Residual, x: Tensor, transposed: bool) -> Part | None:
        make = transposed_product_with if transposed else product_with
        return Part(lambda x, v: make(residual, x)(v).detach(), [x, x])

    def by_part(self, part: Any, x: Tensor, b: Tensor, transposed: bool) -> Tensor:
        return self._methods[transposed](lambda v: part(x, v.contiguous()), b)


class ByFactors(Large):
    """By the factors of a sparse matrix, which is found by colours."""

    def __init__(self) -> None:
        self._known: tuple[Tensor, Any] | None = None
        self._derivative: Any = None
        self._pattern: Any = None
        self._values: tuple[Tensor, Any] | None = None

    def anew(self) -> ByFactors:
        return ByFactors()

    def matrix_at(self, residual: Residual, x: Tensor) -> Any:
        """The matrix, with what belongs to its places."""
        from adjoint.sparse import matrix

        if self._known is None or self._known[0] is not x:
            if self._derivative is None:
                self._derivative = jacobian(residual)
            self._known = x, matrix(self._derivative(x))
        return self._known[1]

    def raw_now(self, residual: Residual, x: Tensor, b: Tensor, transposed: bool) -> Tensor:
        from adjoint.sparse.linalg import splu

        factored = splu(self.matrix_at(residual, x))
        return factored.solve(b, "T" if transposed else "N")

    def part(self, residual: Residual, x: Tensor, transposed: bool) -> Part | None:
        def pattern() -> tuple[Any, Any]:
            with ad.no_grad():
                found = ByFactors().matrix_at(residual, x.detach())
            return found, Pattern.of(found.to_scipy(), "the derivative").column_colours

        # The pattern is that of the graph, the same for all values.
        self._pattern, colours = _core._unrecorded(pattern)
        places = self._pattern.places
        entries = _entries(residual, places.rows_array, places.columns_array, colours)
        return Part(entries, [x])

    def by_part(self, part: Any, x: Tensor, b: Tensor, transposed: bool) -> Tensor:
        from adjoint.sparse.linalg import splu

        if self._values is None or self._values[0] is not x:
            self._values = x, splu(self._pattern.with_values(part(x)))
        solved: Tensor = self._values[1].solve(b, "T" if transposed else "N")
        return solved


def _entries(
    residual: Residual, rows: Any, columns: Any, colours: Any
) -> Callable[[Tensor], Tensor]:
    """The entries of a sparse derivative, by one direction for each colour of its columns."""
    of_column = ad.tensor(colours.clip(min=0).tolist())
    places = ad.tensor((colours[columns] * len(colours) + rows).tolist())
    seeds = of_column == ad.arange(int(colours.max()) + 1)[:, None]

    def entries(x: Tensor) -> Tensor:
        def along(v: Tensor) -> Tensor:
            moved: Tensor = jvp(residual, (x,), (v,))[1]
            return moved

        columns: Tensor = vmap(along)(seeds.to(x.dtype))
        return columns.flatten().index_select(0, places).detach()

    return entries
