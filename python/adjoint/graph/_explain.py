"""``explain_grad``: why a gradient is what it is, or why there is none.

Read next: `_breaks` (where histories end) and `_observed_pass` (what happens to a gradient).
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from adjoint import _core
from adjoint._core import Node, Tensor
from adjoint._tensor.interop import READ_AS_ARRAYS

from . import _lines
from ._breaks import Break, cuts_of, leads_to, on_purpose, search
from ._names import tensor_names
from ._observed_pass import Probe, at, helped_by_strong_zeros, probe, why_zero
from ._view import Graph, GraphNode, build, no_collection

_MOST = 5  # breaks and nodes that are listed
_MANY_PATHS = 1_000_000
_MANY_ARRAYS = 100  # places where values went to NumPy that are looked behind


@dataclass(frozen=True)
class Explanation:
    """Why a gradient is what it is. ``print`` it.

    Attributes
    ----------
    status : str
        ``"flows"``: a gradient arrives. ``"zero"``, ``"nan"``: it does, and is zero or not finite.
        ``"withheld"``: a custom function returned None. ``"broken"``: the history was cut off on
        the way; ``"perhaps broken"``: it was, and what lay behind is gone. ``"hidden"``: a custom
        function read it in secret. ``"unused"``: no way leads to the tensor. ``"no history"``:
        the loss was not recorded. ``"no requires_grad"``, ``"integer"``: the tensor can have no
        gradient.
    text : str
        The explanation.
    breaks : list of Break
        Where the history was cut off.
    nodes : list of GraphNode
        The nodes that are to blame for a zero, NaN or missing gradient.
    graph : Graph or None
        Everything between the loss and the tensor.
    """

    status: str
    text: str
    breaks: list[Break] = field(default_factory=list)
    nodes: list[GraphNode] = field(default_factory=list)
    graph: Graph | None = field(default=None, repr=False)

    def __str__(self) -> str:
        return self.text

    def _repr_html_(self) -> str:
        from adjoint.notebook import text_html

        return text_html(self.text)


def explain_grad(loss: Tensor, x: Tensor, names: Mapping[str, Tensor] | None = None) -> Explanation:
    """Say why ``x.grad`` is what it is: the way from ``loss`` to ``x``, or where it breaks off.

    Call it before ``backward()``, or after a ``backward(retain_graph=True)``: a graph that was
    freed can still be shown, but not be run to find the node that makes a gradient zero or NaN.

    Parameters
    ----------
    loss
        What is differentiated.
    x
        The tensor whose gradient is in question.
    names
        Names for the two and for other tensors; otherwise they are called what the calling function
        calls them, or its module; parameters by their path in a model that is found there.

    Returns
    -------
    Explanation
        ``print`` it; ``status``, ``breaks`` and ``nodes`` are for programs.

    Examples
    --------
    >>> import adjoint as ad
    >>> x = ad.ones(3, requires_grad=True)
    >>> loss = (x.detach() * 2).sum()
    >>> print(ad.explain_grad(loss, x))  # doctest: +ELLIPSIS
    loss has no gradient with respect to x: the history was cut off.
      broken here   ... loss = (x.detach() * 2).sum()
        detach() gave the value without its history, so no gradient goes through it
        fix: use the tensor itself instead of its detach()
    """
    for what, t in (("loss", loss), ("x", x)):
        if not isinstance(t, Tensor):
            raise TypeError(f"explain_grad(): {what} must be a Tensor, got {type(t).__name__}")
    labels = tensor_names(sys._getframe(1), names)
    with no_collection():
        return _Case(loss, x, labels).explain()


class _Case:
    """One question, with the words for its two tensors."""

    def __init__(self, loss: Tensor, x: Tensor, labels: Mapping[int, str]) -> None:
        self.loss, self.x, self.labels = loss, x, labels
        self.loss_name = labels.get(id(loss), "the loss")
        self.x_name = labels.get(id(x), "the tensor")
        self.x_code = labels.get(id(x), "tensor")  # in code
        self.call = labels.get(id(loss), "loss")  # in code

    def explain(self) -> Explanation:
        x = self.x
        if not (x.is_floating_point() or x.is_complex()):
            return Explanation(
                "integer",
                f"{self.x_name} is {_dtype(x)}: only floating point and complex tensors have a "
                f"gradient.\n  fix: {self.x_code} = {self.x_code}.float().requires_grad_()",
            )
        if not x.requires_grad:
            return self.without_requires_grad()
        target: Node = _core._gradient_edge(x)[0]
        found = search(self.loss, target)
        if found.connected:
            return self.connected(target)
        if found.breaks:
            return self.broken(found.breaks)
        if not self.loss.requires_grad:
            return self.no_history(found.others)
        return self.secret(target) or self.unused(target, found.others)

    def without_requires_grad(self) -> Explanation:
        for cut, _ in cuts_of(self.x):
            text = (
                f"{self.x_name} has no gradient: it does not require grad. It was computed from a "
                f"tensor that does, but without its history:\n{_break_lines(cut)}"
            )
            return Explanation("no requires_grad", text, [cut])
        return Explanation(
            "no requires_grad",
            f"{self.x_name} has no gradient: it does not require grad, so what was computed from "
            f"it was not recorded for it.\n  fix: {self.x_code}.requires_grad_() right after it "
            "is made, before it is used",
        )

    # --- no way leads there
    def broken(self, breaks: list[Break]) -> Explanation:
        lines = [
            f"{self.loss_name} has no gradient with respect to {self.x_name}: the history was cut "
            "off."
        ]
        lines += [_break_lines(b) for b in breaks[:_MOST]]
        if len(breaks) > 1:
            lines.append(
                f"  All {len(breaks)} breaks lie on the way; the first one is nearest to "
                f"{self.loss_name}."
            )
        return Explanation("broken", "\n".join(lines), breaks)

    def no_history(self, others: list[Break]) -> Explanation:
        text = f"{self.loss_name} has no history: nothing that led to it was recorded."
        if others:
            text += "\n" + "\n".join(_break_lines(b) for b in others[:_MOST])
        else:
            text += (
                "\n  Nothing it was computed from required grad when it was used. If it was "
                "computed from numbers (.item(), .tolist(), float(), NumPy), the history ended "
                "there."
            )
        return Explanation("no history", text, others)

    def secret(self, target: Node) -> Explanation | None:
        """A custom function that read the tensor although it is none of its arguments."""
        reads = _core._hidden_reads(_core._gradient_edge(self.loss)[0], target)
        if not reads:
            return None
        head = f"{self.loss_name} has no gradient with respect to {self.x_name}: "
        return Explanation("hidden", head + reads[0])

    def unused(self, target: Node, others: list[Break]) -> Explanation:
        whole = build([_core._gradient_edge(self.loss)], self.labels, "")
        name = self.x_name
        lines = [f"{self.loss_name} has no gradient with respect to {name}: no path leads there."]
        left = _left_for_numpy(target)
        if left is not None:
            what = name if left[0] else f"what was computed from {name}"
            lines.append(
                f"  Perhaps through NumPy: {what} was read as an array here   "
                f"{_lines.described(left[1])}\n"
                f"    If {self.loss_name} was computed from that array: what NumPy computes is not "
                "recorded; use adjoint's ops, or wrap the NumPy code with adjoint.external (or in "
                "an autograd.Function)"
            )
        if others:
            lines.append(
                "  The history was cut off in these places; what was behind them is gone, "
                f"so {name} may have been there:"
            )
            lines += [_break_lines(b) for b in others[:_MOST]]
        if self.x.grad_fn is not None and self.x._version:
            lines.append(
                f"  {name} was changed in place ({self.x._version} times): {self.loss_name} may "
                "have been computed from what it was before."
            )
        same = [n for n in whole.leaves if n.shape == tuple(self.x.shape)]
        if same and not others:
            names = ", ".join(n.label or "a leaf without a name here" for n in same[:3])
            lines.append(
                f"  It was computed from another leaf of the same shape, {list(self.x.shape)}: "
                f"{names}. Is {name} a copy, or was the variable assigned anew?"
            )
        lines.append(_leaves_line(self.loss_name, whole))
        if not others:
            lines.append(
                f"  {'Other likely' if left else 'Likely'} causes: {name} was not used; it was "
                "used before requires_grad was set; or its value was taken out as a number "
                "(.item(), .tolist(), float(), .numpy())."
            )
        status = "perhaps broken" if others else "unused"
        return Explanation(status, "\n".join(lines), others)

    # --- a way leads there
    def connected(self, target: Node) -> Explanation:
        whole = build([_core._gradient_edge(self.loss)], self.labels, "")
        between = whole.between(self.loss, self.x)
        between._title = f"between {self.loss_name} and {self.x_name}"
        freed = [n for n in between if n.freed]
        seen = None if freed else probe(self.loss, self.x, between)
        status, nodes, lines = self.verdict(between, seen)
        if status != "withheld":
            lines += self.grad_lines(freed)
        lines += _partly_broken(between, target)
        lines.append(f"  {_path_count(between)}:")
        lines.append(_indented(between.tree(limit=60)))
        return Explanation(status, "\n".join(lines), [], nodes, between)

    def verdict(self, between: Graph, seen: Probe | None) -> tuple[str, list[GraphNode], list[str]]:
        """What the gradient is, and the nodes that made it so."""
        what = f"the gradient of {self.loss_name} with respect to {self.x_name}"
        if seen is None:
            return self.stored_verdict(what)
        if seen.grad is None:
            names = [f"  {_returned_none(n)}\n{at(n)}" for n in seen.withheld[:_MOST]]
            return (
                "withheld",
                seen.withheld,
                [f"{what} is None: a path leads there, but no gradient came along it.", *names],
            )
        if not bool(seen.grad.isfinite().all()):
            to_blame, lines = self.first_bad(seen, seen.grad)
            return "nan", to_blame, [f"{what} {_bad(seen.grad)}.", *lines]
        if seen.grad.numel() and not bool((seen.grad != 0).any()):
            return "zero", seen.zeroed, [f"{what} is exactly 0.", *_zero_lines(seen)]
        return "flows", [], [f"{what} is there: {_summary(seen.grad)}."]

    def first_bad(self, seen: Probe, grad: Tensor) -> tuple[list[GraphNode], list[str]]:
        """The node that made a gradient NaN or infinite, and what to do about it."""
        # The first NaN is what detect_anomaly stops at; what made it may be an earlier infinity.
        found = seen.made_nan if seen.made_nan and bool(grad.isnan().any()) else seen.poisoned
        if not found:
            return [], [
                "  It was not finite from the start: the loss itself, or a sum of gradients."
            ]
        first, nodes = found[0], found[:1]
        finite_before = not seen.poisoned or any(n is first for n in seen.poisoned)
        source = first if finite_before else seen.poisoned[0]
        if source is first:
            lines = [
                f"  The first node that made it so is {first.name}, from a gradient that was "
                "finite:",
                at(first),
            ]
        else:
            nodes = [first, source]
            lines = [
                f"  The first node that made it so is {first.name}, from a gradient that was "
                "infinite:",
                at(first),
                f"  The first infinity on the way was made by {source.name}:",
                at(source),
                f"  fix: keep the input of `{source.op}` away from the values where its "
                "derivative is infinite (add a small number, or clamp it)",
            ]
        lines.append(
            "  `with autograd.detect_anomaly():` around forward and backward shows its inputs."
        )
        if helped_by_strong_zeros(self.loss, self.x):
            lines.append(
                "  fix: `with autograd.strong_zeros():` around backward, which keeps 0 * inf at 0: "
                "it makes this gradient finite"
            )
        return nodes, lines

    def stored_verdict(self, what: str) -> tuple[str, list[GraphNode], list[str]]:
        # A result that does not keep its gradient would warn that it is asked for.
        grad = self.x.grad if self.x.is_leaf or self.x.retains_grad else None
        if grad is None:
            return "flows", [], [f"{what} can be computed: a path leads there."]
        head = (
            f"{what} can't be looked at any more: a path leads there, but the graph was freed. "
            f"{self.x_code}.grad"
        )
        summed = (
            f"  {self.x_code}.grad is the sum over all backward passes since it was last zeroed: "
            f"that of {self.loss_name} alone only if there was no other."
        )
        gone = (
            "  The graph was freed, so the node that made it so can't be found: call explain_grad "
            "before backward(), or after backward(retain_graph=True)."
        )
        if not bool(grad.isfinite().all()):
            return "nan", [], [f"{head} {_bad(grad)}.", summed, gone]
        if grad.numel() and not bool((grad != 0).any()):
            return "zero", [], [f"{head} is exactly 0.", summed, gone]
        return "flows", [], [f"{head} is there: {_summary(grad)}.", summed]

    def grad_lines(self, freed: list[GraphNode]) -> list[str]:
        """What ``x.grad`` holds, where that needs a word."""
        x, name, code = self.x, self.x_name, self.x_code
        lines = []
        if x.grad_fn is not None and not x.retains_grad:
            lines.append(
                f"  {code}.grad stays None all the same: {name} is not a leaf but a result "
                f"({_lines.described(x.grad_fn.source)}), and results do not keep their gradient.\n"
                f"  fix: {code}.retain_grad() before backward(), or "
                f"autograd.grad({self.call}, {code})"
            )
        elif x.grad is None and freed:
            lines.append(
                f"  {code}.grad is None although a backward pass ran "
                f"({_lines.described(freed[0].freed_by)}): it did not ask for {name} "
                "(autograd.grad, or inputs=...), or zero_grad() has reset it since."
            )
        elif x.grad is None:
            lines.append(
                f"  {code}.grad is None for now: no backward pass has reached it, or zero_grad() "
                f"has reset it. {self.call}.backward() fills it."
            )
        return lines


def _left_for_numpy(target: Node) -> tuple[bool, _lines.Source] | None:
    """Where the tensor of ``target``, or something computed from it, was read as an array."""
    own = _core._note(target, "numpy_")
    if own is not None:
        return True, own
    for node in list(READ_AS_ARRAYS)[:_MANY_ARRAYS]:
        if leads_to(node, target):
            return False, _core._note(node, "numpy_")
    return None


def _dtype(x: Tensor) -> str:
    return str(x.dtype).rpartition(".")[2]


def _break_lines(b: Break) -> str:
    return f"  broken here   {_lines.described(b.source)}\n    {b.says()}\n    fix: {b.fix()}"


def _leaves_line(loss: str, whole: Graph) -> str:
    shown = ", ".join(f"{n.label or 'a leaf'} {list(n.shape)}" for n in whole.leaves[:_MOST])
    more = len(whole.leaves) - _MOST
    return f"  {loss} was computed from: {shown}{f' and {more} more' if more > 0 else ''}"


def _returned_none(n: GraphNode) -> str:
    return f"{n.name} returned None for this input: its backward() has to return a gradient here"


def _bad(grad: Tensor) -> str:
    nan, inf = int(grad.isnan().sum()), int(grad.isinf().sum())
    kinds = " and ".join(f"{n} {kind}" for n, kind in ((nan, "NaN"), (inf, "Inf")) if n)
    return f"holds {kinds} (of {grad.numel()} elements)"


def _zero_lines(seen: Probe) -> list[str]:
    if not seen.zeroed:
        return [
            "  No node made it so: what arrives along several paths cancels, or it was 0 from "
            "the start."
        ]
    lines = []
    for n in seen.zeroed[:_MOST]:
        lines += [f"  {why_zero(n, seen.largest[id(n)])}", at(n)]
    return lines


def _summary(grad: Tensor) -> str:
    zeros = int((grad == 0).sum())
    largest = float(grad.detach().abs().max()) if grad.numel() else 0.0
    part = f", {zeros} of {grad.numel()} elements are 0" if zeros else ""
    return f"shape {list(grad.shape)}, largest absolute value {largest:.6g}{part}"


def _partly_broken(between: Graph, target: Node) -> list[str]:
    """Breaks of other ways to the tensor, beside the ones that are whole."""
    cuts: dict[Break, Node] = {}
    for node in _core._with_cuts([n.node for n in between]):
        for cut, behind in cuts_of(node):
            if behind is not None and on_purpose(cut):
                cuts.setdefault(cut, behind)
    found = [cut for cut, behind in list(cuts.items())[:_MOST] if leads_to(behind, target)]
    if not found:
        return []
    lines = ["  Another way there was cut off, and adds nothing to the gradient:"]
    return lines + [_break_lines(b) for b in found]


def _path_count(between: Graph) -> str:
    ways = [0] * (between.nodes[0].index + 1)
    ways[-1] = 1
    for n in between:  # newest first, so all users of a node come before it
        mine = min(ways[n.index], _MANY_PATHS)
        for child, _ in n.children:
            if child is not None:
                ways[child.index] += mine
    count = ways[between.nodes[-1].index]
    if count >= _MANY_PATHS:
        return "More than a million paths lead there"
    return "One path leads there" if count == 1 else f"{count:,} paths lead there"


def _indented(text: str) -> str:
    return "\n".join(f"    {line}" for line in text.splitlines())


__all__: list[Any] = ["Explanation", "explain_grad"]
