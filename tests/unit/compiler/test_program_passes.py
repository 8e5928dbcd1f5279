"""The passes of compiled programs: a list, whose steps can be looked at."""

import pytest

import adjoint as ad
from adjoint import _core
from adjoint.compiler import CompileError, show_passes


def stages(function, *args):
    """(pass, instructions) of the forward part."""
    before = _core._keep_stages(True)
    try:
        compiled = ad.compile(function, fullgraph=True)
        compiled(*args)
    finally:
        _core._keep_stages(before)
    return compiled.programs[0].program.stages()


def names(code):
    return [row[0] for row in code]


def test_every_pass_leaves_a_stage_in_order() -> None:
    found = stages(lambda x: x + 1, ad.ones(3))
    assert [name for name, _ in found] == ["record", *_core._passes()]


def test_a_stage_is_what_its_pass_made_of_the_one_before() -> None:
    found = stages(lambda x: (x.T + 1) * (x.T + 1) + x.sum().sin() * 0, ad.ones(2, 3))
    code = dict(reversed(found))  # the first of those of one name
    assert "alias" not in names(code["record"])
    assert "alias" in names(code["views"])
    assert names(code["merge"]).count("add") == names(code["views"]).count("add") - 1
    assert "fused" in names(code["fuse"]) and "fused" not in names(code["constants"])


def test_the_last_stage_is_the_program() -> None:
    before = _core._keep_stages(True)
    try:
        f = ad.compile(lambda x: (x * 2).sin().sum())
        f(ad.ones(3, requires_grad=True)).backward()
    finally:
        _core._keep_stages(before)
    made = f.programs[0]
    for program in (made.program, made.backward):
        assert program.stages()[-1][1] == program.code()


def test_stages_are_kept_only_when_asked_for() -> None:
    f = ad.compile(lambda x: x + 1)
    f(ad.ones(3))
    assert f.programs[0].program.stages() == []
    assert _core._keep_stages(False) is False


def test_passes_that_changed_something_are_shown() -> None:
    text = show_passes(lambda x: (x.T + 1) * (x.T + 1), ad.ones(2, 3))
    heads = [line for line in text.splitlines() if not line.startswith(" ")]
    assert heads[0] == "forward, as recorded: 5 instructions"
    assert heads[1:3] == [
        "forward, after views: 5 instructions",
        "forward, after merge: 3 instructions",
    ]
    assert "forward, after fuse: 1 instruction" in heads
    assert not any("last reads" in line for line in heads)  # the code is the same
    assert "test_program_passes.py" in text


def test_the_backward_part_is_shown_too() -> None:
    x = ad.ones(300, requires_grad=True)
    text = show_passes(lambda x: (x.exp() * 2).sum(), x)
    assert "\nbackward, as recorded: " in text and x.grad is None


def test_a_compiled_function_keeps_its_programs() -> None:
    f = ad.compile(lambda x: x + 1)
    f(ad.ones(2))
    text = show_passes(f, ad.ones(3))
    assert text.startswith("forward, as recorded: 1 instruction\n")
    assert len(f.programs) == 1 and f.programs[0].program.stages() == []


def test_modules_are_shown_compiled_or_not() -> None:
    layer = ad.nn.Linear(2, 2)
    x = ad.ones(1, 2)
    assert "%" in show_passes(layer, x)
    assert show_passes(ad.compile(layer), x) == show_passes(layer, x)


def test_what_cannot_be_recorded_is_said() -> None:
    with pytest.raises(CompileError, match="runs eagerly"):
        show_passes(lambda x: x.item(), ad.ones(1))
    assert _core._keep_stages(False) is False
