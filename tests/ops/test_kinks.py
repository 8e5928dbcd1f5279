"""Gradients at kinks: what adjoint gives, and what docs/reference/kinks.md says it gives."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import adjoint as ad
from tests.ops.kinks import KINKS, Kink, gradients, same

PAGE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "kinks.md"


@pytest.mark.parametrize("kink", KINKS, ids=lambda kink: kink.name)
def test_the_subgradient_is_the_one_in_the_table(kink: Kink) -> None:
    got = gradients(ad, kink)
    assert same(got, kink.grads), f"{got} instead of {kink.grads}"


def test_the_page_lists_every_kink_with_its_gradient() -> None:
    rows = re.findall(r"^\| (.*?) \| `(.*?)` \| (.*?) \| (.*?) \|$", PAGE.read_text("utf-8"), re.M)
    assert [row[0] for row in rows] == [kink.name for kink in KINKS]
    for (_, _, at, grads), kink in zip(rows, KINKS, strict=True):
        assert at == ", ".join(map(_short, kink.at))
        assert grads == ", ".join(map(_short, kink.grads))


def _short(value: object) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(_short, value))}]"
    assert isinstance(value, float)
    return f"{value:.6g}" if value else "0"
