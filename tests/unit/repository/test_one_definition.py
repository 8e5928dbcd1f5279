"""No two files of the core give a class, an inline function or an inline variable one full name."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from pathlib import PurePosixPath

import pytest

from tests.children import ROOT
from tests.unit.repository.one_definition import definitions


def pairs(sources: Mapping[str, str]) -> dict[str, list[str]]:
    """What several files of one program define: full name -> the files."""
    files: dict[str, list[str]] = {}
    for path, text in sources.items():
        for name in definitions(text):
            files.setdefault(name, []).append(path)
    return {name: sorted(paths) for name, paths in files.items() if meet(paths)}


def meet(paths: list[str]) -> bool:
    """Whether files are linked into one program: each source of tests/native is one by itself."""
    tests = [p for p in paths if p.startswith("tests/native/") and PurePosixPath(p).suffix != ".h"]
    return len(paths) - len(tests) + min(len(tests), 1) > 1


@functools.cache
def sources() -> dict[str, str]:
    return {
        path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8")
        for folder in ("src", "tests/native")
        for path in sorted((ROOT / folder).rglob("*"))
        if path.suffix in (".h", ".cpp")
    }


def test_every_name_of_the_core_is_defined_in_one_file() -> None:
    found = pairs(sources())
    assert not found, f"rename one of each, or put it into an unnamed namespace: {found}"


def test_most_of_the_core_is_read() -> None:
    """A reader that lost its way in a file would find no pair in the rest of it."""
    names = set().union(*map(definitions, sources().values()))
    counts = {kind: sum(n.startswith(kind) for n in names) for kind in ("class", "func", "var")}
    assert counts["class"] > 350 and counts["func"] > 400 and counts["var"] > 150, counts
    assert {
        "class adjoint::Tensor",
        "class adjoint::optim::Adam",
        "class adjoint::ADJOINT_ISA_TAG::ComplexCell",
        "variable adjoint::ADJOINT_ISA_TAG::kAllLanes",
        "function adjoint::volume(const Axes3 &)",
    } <= names


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("namespace a { struct X { int i; }; }", "namespace a { class X { double d; }; }"),
        ("namespace a { enum class X { Y }; }", "namespace a {\n// of\nunion X { int i; };\n}"),
        ("namespace a::b { struct X {}; }", "namespace a { namespace b { struct X {}; } }"),
        ("namespace a { struct X final : Y { }; }", "namespace a { struct alignas(8) X {}; }"),
        ("template <class T> struct X { };", "template <size_t N, bool B = (N > 3)> class X { };"),
        ("template <> struct X<int> { };", "template <> struct X<int> { int i; };"),
        ("struct X { int i; } x;", "enum X : int { A };"),
        ("void f() { if (1) { } } struct X { };", 'const char* s = "{{"; struct X { };'),
        ("inline namespace n { struct X { }; }", "inline namespace n { struct X { }; }"),
        ('extern "C" { struct X { }; }', "struct X { };"),
        ("inline int f(int a) { return a; }", "constexpr int f(int b = 3) { return 2; }"),
        ("template <class T> T f(T a) { }", "template <class U> int f(T b) { }"),
        ("inline X operator+(X a, X b) { }", "inline X operator+(X c, X d) { }"),
        ("inline bool C::f() { }", "inline bool C::f() { return true; }"),
        ("inline int X::operator()(int i) { }", "inline int X::operator()(int j) { }"),
        ("inline constexpr int k = 1;", "inline int k{2};"),
        ("inline const int k[] = {1, 2};", "inline constexpr double k[2] = {3};"),
    ],
)
def test_pairs_are_found(one: str, other: str) -> None:
    assert len(pairs({"src/a.h": one, "src/b.cpp": other})) == 1


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("struct X { };", "struct X;"),
        ("struct X { };", "struct X f() { return {}; } struct X x{1};"),
        ("struct X { };", "namespace { struct X { }; }"),
        ("struct X { };", "namespace a { struct X { }; }"),
        ("struct X { };", "void f() { struct X { }; }"),
        ("struct X { };", "struct Y { struct X { }; };"),
        ("struct X { };", "// struct X { };\n/* struct X { }; */"),
        ("struct X { };", "#define D \\\n  struct X { };"),
        ("struct X { };", 'auto s = "struct X { };"; auto t = R"(struct X { };)";'),
        ("struct X { };", "template <class T, class X> void f() { }"),
        ("template <class T> struct X { };", "template <> struct X<int> { };"),
        ("inline int f(int a) { }", "inline int f(double a) { }"),
        ("inline int f(int a) { }", "template <class T> int f(int a) { }"),
        ("inline int f() { }", "namespace { inline int f() { } }"),
        ("inline int f() { }", "static inline int f() { } int f();"),
        ("inline int X::f() { }", "inline int Y::f() { }"),
        ("inline int X::operator()(int i) { }", "inline int Y::operator()(int j) { }"),
        ("inline X operator+(X a, X b) { }", "inline X operator-(X a, X b) { }"),
        ("constexpr int k = 1;", "constexpr int k = 2;"),
        ("inline int k = 1;", "extern int k; static inline int k = 2;"),
    ],
)
def test_other_names_are_no_pairs(one: str, other: str) -> None:
    assert not pairs({"src/a.h": one, "src/b.cpp": other})


def test_programs_are_apart() -> None:
    text = "struct X { };"
    assert not pairs({"tests/native/a.cpp": text, "tests/native/b.cpp": text})
    assert not pairs({"src/a.h": f"#if A\n{text}\n#else\n{text}\n#endif"})
    assert pairs({"tests/native/a.cpp": text, "src/b.cpp": text})
    assert pairs({"tests/native/a.cpp": text, "tests/native/b.h": text})
