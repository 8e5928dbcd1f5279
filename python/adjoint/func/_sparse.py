"""Sparse Jacobians and Hessians by colouring: `jacobian`, the sparse form of `hessian`, `sparsity`.

Elements that have no row (or column) in common are one colour and are differentiated together, so
there are as many passes as colours (`adjoint._colouring`). The passes run as one batch, together
with one more along a random direction, which tells whether the pattern left something out. Read
next: ``_dependencies.py``, which finds patterns.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from adjoint import _core
from adjoint._colouring import Pattern
from adjoint._core import Tensor
from adjoint._tensor.creation import from_numpy
from adjoint._tensor.typeinfo import finfo
from adjoint._transforming import differentiating
from adjoint.autograd.grad_mode import enable_grad
from adjoint.numeric._difference_tally import difference_tally

from ._arguments import (
    Argnums,
    Variables,
    lent_by_name,
    named,
    replaced,
    tensor_args,
    tensor_primals,
)
from ._dependencies import dependencies
from ._forward import jvp
from ._reverse import gradient_of, vjp
from ._tensor_leaves import tensor_outputs
from ._vmap import mapped

__all__ = ["SparseDerivative", "jacobian", "sparse_hessian", "sparsity"]

_AT_ONCE = 1 << 21  # numbers in a batch of directions, unless chunk_size= says otherwise


def scipy_sparse() -> Any:
    """``scipy.sparse``, which holds the results."""
    try:
        from scipy import sparse
    except ImportError:
        raise ImportError(
            "sparse Jacobians and Hessians are SciPy matrices, and SciPy is not installed.\n"
            "  fix: pip install scipy"
        ) from None
    return sparse


class _Call:
    """A function at a point, as one of flat tensors; coordinates number their elements."""

    def __init__(
        self, func: Callable[..., Any], argnums: Argnums, args: Any, kwargs: Any, name: str
    ) -> None:
        self.func, self.argnums, self.args, self.kwargs = func, argnums, args, kwargs
        self.name = name
        self.difference_error = 0.0  # of derivatives by differences that took part
        self.selected = tensor_args(args, argnums, f"{name}(f)(*args)", "input")
        self.input_paths = self.selected.paths()
        for x, path in zip(self.selected.tensors, self.input_paths, strict=True):
            if not x.is_floating_point():
                raise TypeError(
                    f"{name}: {path} has dtype {x.dtype}; it must be a real float.\n"
                    "  fix: convert it first, or differentiate by its view_as_real()"
                )
        self.inputs: list[Tensor] = [x.detach() for x in self.selected.tensors]
        self.sizes = [x.numel() for x in self.inputs]
        self.n = sum(self.sizes)
        dtypes = {x.dtype for x in self.inputs}
        self.coarsest = max(dtypes, key=lambda d: finfo(d).eps, default=_core.float64)
        self.output_paths: list[str] = []
        self.output_shapes: list[tuple[int, ...]] = []
        self.m = -1  # known once the function ran

    def __call__(self, *inputs: Tensor) -> tuple[Tensor, ...]:
        picked = self.selected.filled(inputs)
        output = self.func(*replaced(self.args, self.argnums, picked), **lent_by_name(self.kwargs))
        selected = tensor_outputs(output, f"{self.name}(f)(*args)")
        tensors: list[Tensor] = selected.tensors
        self.output_paths = selected.paths()
        self.output_shapes = [tuple(y.shape) for y in tensors]
        self.m = sum(y.numel() for y in tensors)
        for y, path in zip(tensors, self.output_paths, strict=True):
            if y.is_complex():
                raise TypeError(f"{self.name}: {path} has dtype {y.dtype}; it must be real")
        return tuple(tensors)

    def detect(self) -> Pattern:
        """The pattern, from the graph of the function at this point."""
        variables = Variables(tensor_primals(tuple(self.inputs), self.name))
        with enable_grad():
            with differentiating():
                outputs = self(*variables.tensors)
            matrix = dependencies(outputs, variables.tensors)
        return Pattern(matrix.indptr, matrix.indices, (self.m, self.n))

    def directions(self, flat: Any) -> list[Tensor]:
        """Rows of input coordinates as a batch of tangents."""
        return _unravelled(
            flat, [tuple(x.shape) for x in self.inputs], [x.dtype for x in self.inputs]
        )

    def push(self, flat: Any, chunk: int) -> Any:
        """The products J v for all rows v, by forward mode."""

        def along(*directions: Tensor) -> tuple[Tensor, ...]:
            moved: tuple[Tensor, ...] = jvp(self, tuple(self.inputs), directions)[1]
            return moved

        run = mapped(along, 0, 0, "error", chunk, directions=True)
        return _flat(run(*self.directions(flat)), len(flat))

    def pull(self, flat: Any, chunk: int) -> Any:
        """The products u J for all rows u, by reverse mode: the function runs once."""
        outputs, back = vjp(self, *self.inputs)
        self._check_rows(flat)
        cotangents = _unravelled(
            flat, [tuple(y.shape) for y in outputs], [y.dtype for y in outputs]
        )
        run = mapped(lambda *us: back(us), 0, 0, "error", chunk)
        return _flat(run(*cotangents), len(flat))

    def _check_rows(self, flat: Any) -> None:
        if flat.shape[1] != self.m:
            raise ValueError(_misfit(self.name, (flat.shape[1], self.n), (self.m, self.n)))

    def row(self, k: int) -> str:
        """What a row stands for."""
        return _place(k, self.output_paths, self.output_shapes)

    def column(self, k: int) -> str:
        """What a column stands for."""
        return _place(k, self.input_paths, [tuple(x.shape) for x in self.inputs])


def _place(k: int, paths: Sequence[str], shapes: Sequence[tuple[int, ...]]) -> str:
    for path, shape in zip(paths, shapes, strict=True):
        size = int(np.prod(shape, dtype=np.int64))
        if k < size:
            index = ", ".join(map(str, np.unravel_index(k, shape))) if shape else ""
            return f"{path}[{index}]" if index else path
        k -= size
    return f"coordinate {k}"


def _unravelled(flat: Any, shapes: Any, dtypes: Any) -> list[Tensor]:
    found, start = [], 0
    for shape, dtype in zip(shapes, dtypes, strict=True):
        size = int(np.prod(shape, dtype=np.int64))
        part = np.ascontiguousarray(flat[:, start : start + size])
        found.append(from_numpy(part).to(dtype).reshape((len(flat), *shape)))
        start += size
    return found


def _flat(tensors: Sequence[Tensor], count: int) -> Any:
    """A batch of tensors as rows of numbers, in a dtype that NumPy has."""
    parts = []
    for t in tensors:
        wide = _core.float32 if t.dtype in (_core.float16, _core.bfloat16) else t.dtype
        parts.append(t.detach().to(wide).reshape((count, -1)).numpy())
    return np.concatenate(parts, axis=1) if len(parts) != 1 else parts[0]


def _misfit(name: str, given: tuple[int, int], wanted: tuple[int, int]) -> str:
    return (
        f"{name}: sparsity= has shape {list(given)}; the matrix has {list(wanted)} (elements of "
        "the outputs by elements of the inputs)"
    )


def _seeds(colours: Any, count: int, verify: bool) -> Any:
    """A row per colour with ones in its places, and to verify a last row of random numbers."""
    rows = np.zeros((count + verify, len(colours)))
    there = np.flatnonzero(colours >= 0)
    rows[colours[there], there] = 1
    if not verify:
        return rows
    random = np.random.default_rng(20)
    rows[count] = random.choice([-1.0, 1.0], len(colours)) * random.uniform(0.5, 1, len(colours))
    return rows


class SparseDerivative:
    """A function that computes a sparse matrix of derivatives; made by `jacobian` and `hessian`.

    Attributes
    ----------
    pattern : scipy.sparse.csr_array or None
        The entries that may be nonzero, at the last call.
    passes : int
        How many directions the last call took: one per colour.
    mode : str
        ``"forward"`` or ``"reverse"``: what the last call chose.
    """

    def __init__(
        self,
        func: Callable[..., Any],
        argnums: Argnums,
        sparsity: Any,
        mode: str,
        chunk_size: int | None,
        verify: bool,
        symmetric: bool,
    ) -> None:
        self._name = "hessian" if symmetric else "jacobian"
        if isinstance(sparsity, str) and sparsity != "detect":
            raise ValueError(f"{self._name}: sparsity= is a matrix or 'detect', got {sparsity!r}")
        if mode not in ("auto", "forward", "reverse"):
            raise ValueError(f"{self._name}: mode= is 'auto', 'forward' or 'reverse', got {mode!r}")
        if chunk_size is not None and chunk_size < 1:
            raise ValueError(f"{self._name}: `chunk_size` should be greater than 0.")
        self._func, self._argnums, self._asked = func, argnums, mode
        self._chunk, self._verify, self._symmetric = chunk_size, verify, symmetric
        self._given = None if isinstance(sparsity, str) else Pattern.of(sparsity)
        self._found: Pattern | None = None  # the pattern of the last call, as it came
        self._pattern: Pattern | None = None
        self.passes = 0
        self.mode = "forward" if symmetric else mode

    @property
    def pattern(self) -> Any:
        """The entries that may be nonzero, at the last call."""
        return None if self._pattern is None else _boolean(self._pattern)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The matrix at these arguments."""
        sparse = scipy_sparse()
        func = _gradient(self._func, self._argnums) if self._symmetric else self._func
        call = _Call(func, self._argnums, args, kwargs, self._name)
        pattern = self._pattern_at(call)
        if self._symmetric:
            values = self._by_symmetry(call, pattern)
        else:
            values = self._by_lines(call, pattern)
        index = np.int32 if max(*pattern.shape, len(values)) < 2**31 else np.int64
        return sparse.csr_array(
            (values, pattern.columns.astype(index), pattern.row_start.astype(index)),
            shape=pattern.shape,
        )

    def _pattern_at(self, call: _Call) -> Pattern:
        found = self._given if self._given is not None else call.detect()
        if found.shape[1] != call.n or (self._symmetric and found.shape[0] != call.n):
            if not self._symmetric:
                call(*call.inputs)  # to say how many rows there are
            wanted = (call.n if self._symmetric else call.m, call.n)
            raise ValueError(_misfit(self._name, found.shape, wanted))
        if self._found is None or self._found != found:  # else keep its colours
            self._found, self._pattern = found, found.symmetric if self._symmetric else found
        assert self._pattern is not None
        return self._pattern

    def _chunk_of(self, size: int) -> int:
        return self._chunk or max(1, _AT_ONCE // max(size, 1))

    # --- Jacobians ------------------------------------------------------------------------------

    def _by_lines(self, call: _Call, pattern: Pattern) -> Any:
        """The entries, each from the sum of the columns (or rows) of its colour."""
        self.mode = self._asked if self._asked != "auto" else _cheaper(pattern)
        try:
            return self._by_mode(call, pattern)
        except NotImplementedError:  # something in the function has no tangents
            if self._asked != "auto" or self.mode != "forward":
                raise
        self.mode = "reverse"
        return self._by_mode(call, pattern)

    def _by_mode(self, call: _Call, pattern: Pattern) -> Any:
        forward = self.mode == "forward"
        lines = pattern if forward else pattern.transposed
        colours = lines.column_colours
        self.passes = int(colours.max(initial=-1)) + 1
        apply = call.push if forward else call.pull
        seeds, products = self._products(call, apply, colours, lines.shape[1])
        if call.m != pattern.shape[0]:
            raise ValueError(_misfit(self._name, pattern.shape, (call.m, call.n)))
        across, along = (
            (pattern.columns, pattern.rows) if forward else (pattern.rows, pattern.columns)
        )
        values = products[colours[across], along]
        if self._verify:
            chunk = self._chunk_of(lines.shape[1])
            _check(call, pattern, values, apply, seeds[-1], products[-1], forward, chunk)
        return values

    def _products(
        self, call: _Call, apply: Callable[..., Any], colours: Any, size: int
    ) -> tuple[Any, Any]:
        """The directions that were taken, and what came of them."""
        seeds = _seeds(colours, self.passes, self._verify)
        if self._verify:  # numbers that the inputs can hold, so that both sides see the same
            rounded = from_numpy(seeds[-1]).to(call.coarsest)
            seeds[-1] = rounded.to(_core.float64).numpy()
        with difference_tally() as tally:
            products = apply(seeds, self._chunk_of(size))
        call.difference_error = max(call.difference_error, tally.error)
        return seeds, products

    # --- Hessians -------------------------------------------------------------------------------

    def _by_symmetry(self, call: _Call, pattern: Pattern) -> Any:
        """The entries, each from its own row or from that of its mirror image."""
        colours = pattern.star_colours
        self.passes = int(colours.max(initial=-1)) + 1
        apply, self.mode = call.push, "forward"
        try:
            seeds, products = self._products(call, apply, colours, call.n)
        except NotImplementedError:  # no tangents: the other order of the same derivatives
            apply, self.mode = call.pull, "reverse"
            seeds, products = self._products(call, apply, colours, call.n)
        rows, columns = pattern.rows, pattern.columns
        own = colours[columns]
        keys = own * pattern.shape[0] + rows  # a sum of entries of one colour in one row
        alone = np.bincount(keys, minlength=1)[keys] == 1
        values = np.where(alone, products[own, rows], products[colours[rows], columns])
        if self._verify:
            chunk = self._chunk_of(call.n)
            _check(call, pattern, values, apply, seeds[-1], products[-1], True, chunk)
        return values


def _gradient(func: Callable[..., Any], argnums: Argnums) -> Callable[..., Any]:
    both = gradient_of(func, argnums, False, "hessian(f)(*args)")
    return lambda *args, **kwargs: both(*args, **kwargs)[0]


def _cheaper(pattern: Pattern) -> str:
    """The mode with fewer colours; the fullest row is a bound, so often one colouring is enough."""
    if pattern.longest_row <= pattern.transposed.longest_row:
        count = int(pattern.column_colours.max(initial=-1)) + 1
        if count <= pattern.transposed.longest_row:
            return "forward"
    other = int(pattern.transposed.column_colours.max(initial=-1)) + 1
    if other < pattern.longest_row:
        return "reverse"
    return "forward" if int(pattern.column_colours.max(initial=-1)) < other else "reverse"


def _boolean(pattern: Pattern) -> Any:
    ones = np.ones(len(pattern.columns), dtype=bool)
    return scipy_sparse().csr_array((ones, pattern.columns, pattern.row_start), shape=pattern.shape)


# --- patterns that are wrong --------------------------------------------------------------------


def _check(
    call: _Call,
    pattern: Pattern,
    values: Any,
    apply: Callable[..., Any],
    seed: Any,
    truth: Any,
    forward: bool,
    chunk: int,
) -> None:
    """Compare the product of the matrix with a random vector with what differentiation says."""
    across, along, size = (
        (pattern.columns, pattern.rows, pattern.shape[0])
        if forward
        else (pattern.rows, pattern.columns, pattern.shape[1])
    )
    wide = values.astype(np.float64)
    with np.errstate(invalid="ignore"):
        ours = np.bincount(along, wide * seed[across], size)
        scale = np.bincount(along, np.abs(wide * seed[across]), size) + np.abs(truth)
        eps = max(float(np.finfo(values.dtype).eps), float(finfo(call.coarsest).eps))
        # Derivatives by differences are known less well; a missing entry is still far from that.
        precision = max(eps**0.5, min(call.difference_error**0.5, 0.01))
        gap = np.abs(ours - truth)
        # NaN and infinity on both sides are what the function has there, not a missing entry.
        whole = np.max(scale, initial=0.0, where=np.isfinite(scale))
        allowed = precision * scale + 1e3 * call.difference_error * whole
        wrong = ~(gap <= allowed) & ~(~np.isfinite(ours) & ~np.isfinite(truth))
        wrong &= np.bincount(along, minlength=size) < len(seed)  # a full line misses nothing
    if not wrong.any():
        return
    # Where large terms cancel, rounding alone may make such a gap. How much of it there is shows
    # in J (v + w) - J v - J w, which would be zero.
    others = np.random.default_rng(21).uniform(-1, 1, (3, len(seed)))
    found = apply(np.concatenate([others, others + seed]), chunk).astype(np.float64)
    noise = np.abs(found[3:] - found[:3] - truth).max(axis=0)
    wrong &= ~(gap <= 100 * noise)
    if wrong.any():
        _refuse(call, pattern, np.flatnonzero(wrong), ours, truth, forward)


def _refuse(
    call: _Call, pattern: Pattern, wrong: Any, ours: Any, truth: Any, forward: bool
) -> None:
    k = int(wrong[0])
    unit = np.zeros((1, pattern.shape[0] if forward else pattern.shape[1]))
    unit[0, k] = 1
    full = (call.pull if forward else call.push)(unit, 1)[0]
    lines = pattern if forward else pattern.transposed
    known = lines.columns[lines.row_start[k] : lines.row_start[k + 1]]
    missing = np.setdiff1d(np.flatnonzero(full), known)
    line, cross = ("row", "column") if forward else ("column", "row")
    label, other = (call.row, call.column) if forward else (call.column, call.row)
    place = f"{line} {k} ({label(k)})"
    if len(missing):
        listed = ", ".join(f"{j} ({other(int(j))})" for j in missing[:5])
        more = f" and {len(missing) - 5} more" if len(missing) > 5 else ""
        plural = "s" if len(missing) > 1 else ""
        what = f"{place} also has entries in {cross}{plural} {listed}{more}"
    else:
        what = f"along a random direction {place} gives {truth[k]:.6g}, its entries {ours[k]:.6g}"
    count = (
        f"; {len(wrong)} {line}s from {wrong[0]} to {wrong[-1]} are wrong" if len(wrong) > 1 else ""
    )
    raise ValueError(
        f"{call.name}: sparsity= misses entries: {what}{count}.\n"
        "  fix: mark every entry that may be nonzero, or use sparsity='detect'"
    )


# --- what people call ---------------------------------------------------------------------------


def jacobian(
    func: Callable[..., Any],
    argnums: Argnums = 0,
    *,
    sparsity: Any = "detect",
    mode: str = "auto",
    chunk_size: int | None = None,
    verify: bool = True,
) -> SparseDerivative:
    """Return a function that computes the Jacobian of ``func`` as a sparse matrix.

    Columns (or rows) that have no entries in common are computed together: there are as many passes
    as there are colours, three for a tridiagonal Jacobian of any size. For dense Jacobians use
    `jacfwd` or `jacrev`.

    Parameters
    ----------
    func
        A function of tensors, or of structures of them.
    argnums
        Which arguments to differentiate by: a position, or a tuple of them.
    sparsity
        Which entries may be nonzero: a matrix of scipy.sparse (what it stores counts), or an array
        or tensor. ``"detect"`` follows the dependencies through the graph of ``func``, at each
        call; see `sparsity`, which finds a pattern once.
    mode
        ``"forward"`` colours columns and pushes tangents, ``"reverse"`` colours rows and pulls
        cotangents, ``"auto"`` takes the one with fewer colours, and reverse where something in
        ``func`` has no derivative of forward mode (a custom function without ``jvp``).
    chunk_size
        How many passes run as one batch; by default as many as give batches of moderate size.
    verify
        Whether to compare the result with one more pass, along a random direction.

    Returns
    -------
    callable
        Of the same arguments; returns a ``scipy.sparse.csr_array`` with a row for each element of
        the output and a column for each of the chosen arguments, in the order of `adjoint.flatten`.
        It has the attributes ``pattern``, ``passes`` and ``mode``.

    Raises
    ------
    ValueError
        The pattern misses entries; the message names them. Or ``sparsity`` is no pattern.

    Notes
    -----
    The result has no history. A missing entry is noticed unless it is smaller than the square root
    of the machine precision, relative to its row.

    Examples
    --------
    >>> import adjoint as ad
    >>> x = ad.tensor([1.0, 2.0, 3.0, 4.0])
    >>> differences = ad.func.jacobian(lambda x: x[1:] ** 2 - x[:-1])
    >>> differences(x).toarray()
    array([[-1.,  4.,  0.,  0.],
           [ 0., -1.,  6.,  0.],
           [ 0.,  0., -1.,  8.]], dtype=float32)
    >>> differences.passes
    2
    """
    if sparsity is None:
        raise ValueError(
            "jacobian: sparsity= is a matrix or 'detect', got None; the result is always sparse.\n"
            "  fix: func.jacrev or func.jacfwd for a dense Jacobian"
        )
    return SparseDerivative(func, argnums, sparsity, mode, chunk_size, verify, symmetric=False)


def sparse_hessian(
    func: Callable[..., Any],
    argnums: Argnums,
    sparsity: Any,
    chunk_size: int | None,
    verify: bool,
) -> SparseDerivative:
    """The sparse form of `hessian`."""
    return SparseDerivative(func, argnums, sparsity, "auto", chunk_size, verify, symmetric=True)


def sparsity(func: Callable[..., Any], argnums: Argnums = 0) -> Callable[..., Any]:
    """Return a function that finds which elements of the result depend on which of the input.

    Dependencies are followed through the recorded graph. They do not depend on values: ``0 * x``
    depends on ``x``. What is not known about an operation is taken to be dense (custom functions,
    and externals without ``sparsity=`` or ``elementwise=``), so the pattern may have too many
    entries, never too few. Where ``func`` branches on
    values, or indexes with computed numbers, the pattern is that of this branch.

    Parameters
    ----------
    func, argnums
        As for `jacobian`.

    Returns
    -------
    callable
        Of the same arguments; returns a ``scipy.sparse.csr_array`` of bools, for the
        ``sparsity=`` of `jacobian`. ``sparsity(grad(f))`` is the pattern for `hessian`.

    Examples
    --------
    >>> import adjoint as ad
    >>> ad.func.sparsity(lambda x: x.view(2, 2).sum(1) * x[0])(ad.ones(4)).toarray().astype(int)
    array([[1, 1, 0, 0],
           [1, 0, 1, 1]])
    """

    def wrapper(*args: Any, **kwargs: Any) -> Any:
        scipy_sparse()
        return _boolean(_Call(func, argnums, args, kwargs, "sparsity").detect())

    return named(wrapper, func)
