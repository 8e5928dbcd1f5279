"""Progress bars of loops: seen on a terminal, silent elsewhere, and without effect on results."""

from __future__ import annotations

from typing import Any

import pytest

import adjoint as ad
from adjoint.loops import _progress


def gradient(**kept: Any) -> list[float]:
    a = ad.tensor(1.01, requires_grad=True)
    last, ys = ad.scan(lambda c, _: (c * a, c), ad.ones(3), length=500, **kept)
    (last.sum() + ys.sum()).backward()
    return [last[0].item(), a.grad.item()]


@pytest.mark.parametrize("kept", [{}, {"memory": "sqrt"}, {"snapshots": 3}], ids=str)
def test_loops_in_pieces_give_the_same(
    kept: dict[str, Any], monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    wanted = gradient(**kept)
    assert capfd.readouterr().err == ""
    shown: list[tuple[str, int | None, int]] = []
    stop = _progress.LoopBar.stop

    def note(bar: _progress.LoopBar) -> None:
        shown.append((bar._text, bar._total, bar._done))
        stop(bar)

    monkeypatch.setattr(_progress, "is_seen", lambda: True)
    monkeypatch.setattr(_progress, "PATIENCE", 0.0)
    monkeypatch.setattr(_progress.LoopBar, "stop", note)
    assert gradient(**kept) == wanted
    assert shown == [("loop", 500, 500), ("loop, backward", 500, 500)]


def test_a_loop_inside_another_has_no_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str] = []
    begin = _progress.LoopBar.__init__

    def note(bar: Any, text: str, total: int | None) -> None:
        made.append(text)
        begin(bar, text, total)

    monkeypatch.setattr(_progress, "is_seen", lambda: True)
    monkeypatch.setattr(_progress.LoopBar, "__init__", note)

    def outer(c: Any, _: Any) -> Any:
        return ad.scan(lambda s, _: (s * 1.5, None), c, length=5)[0], None

    assert ad.scan(outer, 1.0, length=4)[0] == 1.5**20
    assert len(made) == 3  # while the step is recorded its loop runs forward and backward, alone
