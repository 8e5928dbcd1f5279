"""Selective checkpoints: a policy decides which results are kept and which are computed again.

During the call, results of the ops that the policy chooses are kept, in the order of their calls;
the recomputation takes them from there instead of computing them
(``src/dispatch/checkpoint_cache.h``).
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import Any

from adjoint import _core


class CheckpointPolicy(enum.Enum):
    """What a policy may answer.

    ``MUST_SAVE`` and ``PREFER_SAVE`` keep the result of an op, ``MUST_RECOMPUTE`` and
    ``PREFER_RECOMPUTE`` let it be computed again.
    """

    MUST_SAVE = 0
    PREFER_SAVE = 1
    MUST_RECOMPUTE = 2
    PREFER_RECOMPUTE = 3


class SelectiveCheckpointContext:
    """What a policy is told about the call besides the op and its arguments.

    Parameters
    ----------
    is_recompute
        Whether this is the recomputation.
    """

    def __init__(self, *, is_recompute: bool) -> None:
        self.is_recompute = is_recompute


def _op_of(name: str) -> Any:
    return getattr(_core, name, name)


class _Mode:
    """Sets the cache that ops of this thread go through."""

    def __init__(self, policy: Callable[..., Any], cache: Any, is_recompute: bool) -> None:
        self._policy = policy
        self._cache = cache
        self._context = SelectiveCheckpointContext(is_recompute=is_recompute)
        self._before: list[Any] = []

    def __enter__(self) -> _Mode:
        self._before.append(
            _core._set_checkpoint_cache((self._cache, self._context.is_recompute, self._wants))
        )
        return self

    def __exit__(self, *args: object) -> None:
        _core._set_checkpoint_cache(self._before.pop())

    def _wants(self, name: str, args: tuple[Any, ...]) -> bool:
        answer = self._policy(self._context, _op_of(name), *args)
        if isinstance(answer, bool):
            return answer
        if not isinstance(answer, CheckpointPolicy):
            raise TypeError(
                f"a checkpoint policy must return a CheckpointPolicy or a bool, got {answer!r} for "
                f"{name}"
            )
        return answer in (CheckpointPolicy.MUST_SAVE, CheckpointPolicy.PREFER_SAVE)


def create_selective_checkpoint_contexts(
    policy_fn_or_list: Callable[..., Any] | list[Any], allow_cache_entry_mutation: bool = False
) -> tuple[_Mode, _Mode]:
    """Make the two contexts of a checkpoint that keeps some of its results.

    Parameters
    ----------
    policy_fn_or_list
        ``policy(ctx, op, *args) -> CheckpointPolicy``, asked for every op that has a derivative
        and computes something (views and changes in place are always done again); ``op`` is the
        function, such as ``adjoint.mm``, or the name of an op that has none. Or a list of
        functions whose results are kept.
    allow_cache_entry_mutation
        Do not raise when a kept result was changed in place since.

    Returns
    -------
    tuple
        Contexts for the call and for the recomputation, as ``context_fn`` of `checkpoint` returns
        them.

    Examples
    --------
    >>> import functools
    >>> import adjoint as ad
    >>> from adjoint.utils.checkpoint import checkpoint, create_selective_checkpoint_contexts
    >>> x = ad.ones(2, 2, requires_grad=True)
    >>> keep_products = functools.partial(create_selective_checkpoint_contexts, [ad.mm])
    >>> y = checkpoint(lambda x: ad.mm(x, x).sin(), x, context_fn=keep_products)
    >>> y.sum().backward()
    """
    if isinstance(policy_fn_or_list, list):
        for op in policy_fn_or_list:
            if not (callable(op) or isinstance(op, str)):
                raise ValueError(
                    f"Expected op in `op_list` to be an OpOverload: a function such as adjoint.mm "
                    f"or its name, but got: {op!r} of type {type(op).__name__}."
                )
        chosen = {
            op if isinstance(op, str) else getattr(op, "__name__", op) for op in policy_fn_or_list
        }

        def policy(ctx: SelectiveCheckpointContext, op: Any, *args: Any) -> CheckpointPolicy:
            name = op if isinstance(op, str) else op.__name__
            if name in chosen:
                return CheckpointPolicy.MUST_SAVE
            return CheckpointPolicy.PREFER_RECOMPUTE

    elif callable(policy_fn_or_list):
        policy = policy_fn_or_list
    else:
        raise TypeError("policy_fn_or_list must be either a function or a list of ops.")
    cache = _core._CheckpointCache(allow_cache_entry_mutation)
    return _Mode(policy, cache, False), _Mode(policy, cache, True)
