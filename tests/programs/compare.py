"""Whether two programs printed the same."""

from __future__ import annotations

import re

# A number with its sign, as Python and printed tensors write it, or a word, or a sign.
_TOKENS = re.compile(r"[-+]?\d+\.?\d*(?:e[-+]?\d+)?|[A-Za-z_]\w*|\S")


def _room(text: str) -> float:
    """One unit in the last place that was printed."""
    digits, _, power = text.lower().partition("e")
    return 10.0 ** (int(power or 0) - len(digits.partition(".")[2]))


def _is_number(text: str) -> bool:
    return text.lstrip("+-")[:1].isdigit()


def first_difference(ours: str, theirs: str) -> str:
    """Empty, or what differs first: numbers may by one unit in the last printed place.

    Whole numbers are exact. A different rounding moves the last digit, nothing else may.
    """
    a, b = ([_TOKENS.findall(line) for line in text.splitlines()] for text in (ours, theirs))
    for number, (x, y) in enumerate(zip(a, b, strict=False), 1):
        if len(x) != len(y):
            return f"line {number}: {' '.join(x)!r}, PyTorch {' '.join(y)!r}"
        for p, q in zip(x, y, strict=True):
            if p == q:
                continue
            numbers = _is_number(p) and _is_number(q) and ("." in p or "." in q)
            if numbers and abs(float(p) - float(q)) <= 1.01 * max(_room(p), _room(q)):
                continue
            return f"line {number}: {p} for {q} in {' '.join(y)!r}"
    return "" if len(a) == len(b) else f"{len(a)} lines, PyTorch {len(b)}"
