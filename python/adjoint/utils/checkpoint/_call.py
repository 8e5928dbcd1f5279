"""`checkpoint` and `checkpoint_sequential`: arguments are made regular here."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from ._frame import METADATA_CHECKS, Frame
from ._reentrant import run_reentrant

ContextPair = tuple[AbstractContextManager[Any], AbstractContextManager[Any]]


def noop_context_fn() -> ContextPair:
    """Two contexts that do nothing."""
    return nullcontext(), nullcontext()


def checkpoint(
    function: Callable[..., Any],
    *args: Any,
    use_reentrant: bool | None = None,
    context_fn: Callable[[], ContextPair] = noop_context_fn,
    determinism_check: str = "default",
    debug: bool = False,
    early_stop: bool = True,
    preserve_rng_state: bool = True,
    **kwargs: Any,
) -> Any:
    """Call ``function`` without keeping its intermediate values; backward computes them again.

    Parameters
    ----------
    function
        What to call. It has to compute the same thing when called a second time.
    *args, **kwargs
        Its arguments, of any kind and structure.
    use_reentrant
        False (the default): values saved for backward are recomputed when the first of them is
        needed. True: the call is one node, whose backward runs a pass of its own; it does not
        support ``autograd.grad``, keyword arguments or nested structures, and is kept for old
        programs.
    context_fn
        Returns two context managers, one for the call and one for the recomputation; see
        `create_selective_checkpoint_contexts`.
    determinism_check
        ``"default"`` compares shape, dtype and device of what is recomputed with what was computed
        first, ``"none"`` compares nothing.
    debug
        Errors show the lines that saved each value in both runs.
    early_stop
        The recomputation ends as soon as it has produced the last value that is needed.
    preserve_rng_state
        The recomputation draws the same random numbers as the call.

    Returns
    -------
    Any
        What ``function`` returns.

    Raises
    ------
    CheckpointError
        In backward: the recomputation saved other values than the call.

    Examples
    --------
    >>> import adjoint as ad
    >>> from adjoint.utils.checkpoint import checkpoint
    >>> x = ad.tensor(0.5, requires_grad=True)
    >>> y = checkpoint(lambda t: t.sin().exp().sin(), x)
    >>> y.backward()
    >>> x.grad
    tensor(-0.0628)
    """
    if use_reentrant:
        if context_fn is not noop_context_fn or debug:
            raise ValueError(
                "Passing `context_fn` or `debug` is only supported when use_reentrant=False."
            )
        if kwargs:
            raise ValueError(
                "Unexpected keyword arguments: "
                + ", ".join(kwargs)
                + " (use_reentrant=True takes none; fix: pass use_reentrant=False)"
            )
        return run_reentrant(function, preserve_rng_state, args)
    if determinism_check not in METADATA_CHECKS:
        raise ValueError(
            f"determinism_check should be one of {list(METADATA_CHECKS)}, got {determinism_check}"
        )
    if not callable(context_fn):
        raise TypeError(
            "checkpoint(): context_fn must be a function that returns two contexts, got "
            f"{type(context_fn).__name__}: each call needs contexts of its own. fix: "
            "context_fn=functools.partial(create_selective_checkpoint_contexts, policy), without "
            "calling it"
        )
    forward_context, recompute_context = context_fn()
    frame = Frame(
        function,
        args,
        kwargs,
        recompute_context,
        preserve_rng_state=preserve_rng_state,
        early_stop=early_stop,
        metadata_of=METADATA_CHECKS[determinism_check],
        debug=debug,
    )
    return frame.call(forward_context)


def checkpoint_sequential(
    functions: Sequence[Callable[..., Any]] | Any,
    segments: int,
    input: Any,
    use_reentrant: bool | None = None,
    preserve_rng_state: bool = True,
) -> Any:
    """Call functions one after the other, in checkpointed segments.

    The last segment is not checkpointed: its values are needed first.

    Parameters
    ----------
    functions
        A sequence of functions or modules, or a module with children (``nn.Sequential``).
    segments
        Into how many parts to divide the sequence.
    input
        What the first function is called with.
    use_reentrant, preserve_rng_state
        As for `checkpoint`.

    Returns
    -------
    Any
        What the last function returns.

    Examples
    --------
    >>> import adjoint as ad
    >>> from adjoint.utils.checkpoint import checkpoint_sequential
    >>> x = ad.ones(3, requires_grad=True)
    >>> steps = [ad.sin, ad.cos, ad.exp, ad.sin]
    >>> checkpoint_sequential(steps, 2, x).sum().backward()
    """
    children = getattr(functions, "children", None)
    steps = list(children()) if callable(children) else list(functions)
    if not 1 <= segments <= len(steps):
        raise ValueError(
            f"checkpoint_sequential: {len(steps)} functions cannot be divided into {segments} "
            "segments"
        )

    def run(first: int, last: int) -> Callable[[Any], Any]:
        def segment(value: Any) -> Any:
            for step in steps[first:last]:
                value = step(value)
            return value

        return segment

    size = len(steps) // segments
    start = 0
    for start in range(0, size * (segments - 1), size):
        input = checkpoint(
            run(start, start + size),
            input,
            use_reentrant=use_reentrant,
            preserve_rng_state=preserve_rng_state,
        )
    return run(size * (segments - 1), len(steps))(input)
