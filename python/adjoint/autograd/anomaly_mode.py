"""Anomaly detection: which op, forward or backward, produced the first NaN.

The values are looked at natively (``src/dispatch/anomaly.cpp``); here are the switches, and what is
kept and printed about the program's stack.
"""

from __future__ import annotations

import os
import sys
import traceback
import warnings
from types import FrameType

from adjoint import _core
from adjoint._core import Node
from adjoint._tensor.arguments import require_flag

from .grad_mode import _Mode

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep


class detect_anomaly(_Mode):
    """Stop at the first op, forward or backward, that produces a NaN, and say from what.

    A context manager and a decorator. Everything runs much slower: for debugging only.

    Parameters
    ----------
    nan
        Look for NaN. PyTorch's name ``check_nan`` is accepted too.
    inf
        Look for infinities.
    forward
        Look at the results of forward ops as well: one that holds a NaN although no input does is
        an error. Gradients are always looked at.

    Raises
    ------
    RuntimeError
        From the op that produced the value, with its line and the statistics of its inputs.

    Notes
    -----
    An error in a backward pass is preceded by a warning with the stack of the forward call, if that
    ran with detection on, too. When a NaN is zero times infinity the report says that
    `strong_zeros` would have helped.

    Examples
    --------
    >>> import warnings
    >>> import adjoint as ad
    >>> warnings.simplefilter("ignore")
    >>> x = ad.tensor([4.0, -1.0], requires_grad=True)
    >>> with ad.autograd.detect_anomaly():
    ...     y = x.sqrt()  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    RuntimeError: Function 'sqrt' produced nan values in the forward pass, from inputs that had ...
      line ...
      result   float32 [2]: min 2, max 2, 1 nan, 0 inf, 0 zero
      input `input`   float32 [2]: min -1, max 4, 0 nan, 0 inf, 0 zero
    """

    def __init__(
        self,
        nan: bool = True,
        inf: bool = False,
        forward: bool = True,
        *,
        check_nan: bool | None = None,
    ) -> None:
        super().__init__()
        self.check_nan = nan if check_nan is None else check_nan
        self._wanted = (True, self.check_nan, inf, forward)
        self._states: list[tuple[bool, bool, bool, bool]] = []
        warnings.warn(
            "Anomaly Detection has been enabled. This mode will increase the runtime and should "
            "only be enabled for debugging.",
            stacklevel=2,
        )

    def clone(self) -> _Mode:
        """The same settings; as a decorator warns once, not in every call."""
        fresh = object.__new__(type(self))
        fresh.__dict__.update(self.__dict__, _before=[], _states=[])
        return fresh

    def __enter__(self) -> None:
        self._states.append(_core._anomaly())
        _core._set_anomaly(*self._wanted)

    def __exit__(self, *exc: object) -> None:
        _core._set_anomaly(*self._states.pop())


class set_detect_anomaly(_Mode):
    """Turn anomaly detection on or off; as a context manager, put it back at the end.

    Parameters
    ----------
    mode
        On or off.
    check_nan, inf, forward
        What to look for, as ``nan``, ``inf`` and ``forward`` of `detect_anomaly`.
    """

    def __init__(
        self, mode: bool, check_nan: bool = True, *, inf: bool = False, forward: bool = True
    ) -> None:
        for position, name in enumerate(("mode", "check_nan", "inf", "forward"), 1):
            require_flag("set_detect_anomaly", name, position, locals()[name])
        super().__init__()
        self._wanted = (mode, check_nan, inf, forward)
        self._at_creation = _core._anomaly()
        _core._set_anomaly(*self._wanted)

    def clone(self) -> _Mode:
        """A fresh context with the same settings."""
        mode, nan, inf, forward = self._wanted
        return type(self)(mode, nan, inf=inf, forward=forward)

    def __enter__(self) -> None:
        _core._set_anomaly(*self._wanted)

    def __exit__(self, *exc: object) -> None:
        _core._set_anomaly(*self._at_creation)


def is_anomaly_enabled() -> bool:
    """Whether anomaly detection is on in this thread."""
    return _core._anomaly()[0]


def is_anomaly_check_nan_enabled() -> bool:
    """Whether anomaly detection looks for NaN, when it is on."""
    on, nan, _, _ = _core._anomaly()
    return nan or not on


def set_anomaly_enabled(mode: bool, check_nan: bool = True) -> None:
    """Turn anomaly detection on or off, for good."""
    set_detect_anomaly(mode, check_nan)


def _created(node: Node, parent: Node | None) -> None:
    """Keep the stack of the op that made ``node``, and the node whose backward it ran in."""
    notes = node.metadata
    if "traceback_" in notes:
        return
    notes["traceback_"] = _stack()
    if parent is not None:
        notes["parent_"] = parent


def _failed(node: Node) -> None:
    """Warn about an error in the backward of ``node``, then about the nodes it came from."""
    _warn(f"Error detected in {node.name()}. {_forward_call(node, 'caused the error')}")
    parent: Node | None = node.metadata.get("parent_")
    while parent is not None:
        _warn(
            f"\n\nPrevious calculation was induced by {parent.name()}. "
            f"{_forward_call(parent, 'induced the previous calculation')}"
        )
        parent = parent.metadata.get("parent_")


def _forward_call(node: Node, did: str) -> str:
    stack = node.metadata.get("traceback_")
    if stack is not None:
        return f"Traceback of forward call that {did}:\n{''.join(stack)}"
    from adjoint.graph._lines import described

    return (
        "No forward pass information available but the line that made it: "
        f"{described(node.source)}\nEnable detect anomaly during forward pass for the whole stack."
    )


def _stack() -> list[str]:
    frames = traceback.extract_stack()
    return traceback.format_list([f for f in frames if not f.filename.startswith(_PACKAGE)])


def _warn(message: str) -> None:
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        frame = frame.f_back
    file, line = ("adjoint", 0) if frame is None else (frame.f_code.co_filename, frame.f_lineno)
    try:
        warnings.warn_explicit(message, UserWarning, file, line)
    except UserWarning:
        # Warnings are errors here, but an error is already under way: print instead.
        print(f"{file}:{line}: {message}", file=sys.stderr)
