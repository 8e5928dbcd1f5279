"""What the sources of the core define for all of the program: read as text, without a compiler.

C++ lets a program have one class, one inline function and one inline variable of a name. Two in two
files are no error of the compiler or the linker: the linker keeps one of two member functions, and
the other file then runs that of a class with another layout. So the names are collected here, with
their namespaces, and `test_one_definition.py` refuses pairs.

What unnamed namespaces hold is each file's own, and so are functions, classes and variables inside
functions. A file may define a name twice, in branches of the preprocessor.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator

TOKEN = re.compile(
    r'R"(?P<mark>[^(\s]*)\(.*?\)(?P=mark)"'  # raw strings
    r"|//[^\n]*|/\*.*?\*/"
    r"|^[ \t]*\#(?:\\\n|[^\n])*"  # the preprocessor's lines
    r'|"(?:\\.|[^"\\\n])*"'
    r"|(?<![\w])'(?:\\.|[^'\\\n])+'"
    r"|[A-Za-z_]\w*|\d[\w.']*|::|[^\s\w]",
    re.S | re.M,
)
CLASS_KEYS = {"struct", "class", "union", "enum"}
CALLED = re.compile(r"alignas|__attribute__|requires|[A-Z]+_[A-Z_]+")
BODY = "{}"  # what has been looked at, in a declaration that goes on
OPEN, CLOSED = {"(": ")", "[": "]", "{": "}"}, {")", "]", "}"}


def tokens(text: str) -> list[str]:
    return [m[0] for m in TOKEN.finditer(text) if not re.match(r"//|/\*|[ \t]*#", m[0])]


def after(code: list[str], at: int) -> int:
    """Where what is opened at `at` has been closed; an angle bracket as well."""
    if code[at] == "<":
        depth = 0
        while True:
            if code[at] in OPEN:
                at = after(code, at)
                continue
            depth += (code[at] == "<") - (code[at] == ">" and code[at - 1] != "-")
            at += 1
            if not depth:
                return at
    depth = 0
    while True:
        depth += (code[at] in OPEN) - (code[at] in CLOSED)
        at += 1
        if not depth:
            return at


def without_heads(head: list[str]) -> list[str]:
    """A declaration without template<...>, attributes, alignas(...) and macros that are called."""
    kept, at = [], 0
    while at < len(head):
        following = head[at + 1 : at + 2]
        is_call = CALLED.fullmatch(head[at]) and following == ["("]
        if is_call or (head[at] == "template" and following == ["<"]):
            at = after(head, at + 1)
        elif head[at : at + 2] == ["[", "["]:
            at = after(head, at)
        else:
            kept.append(head[at])
            at += 1
    return kept


def class_of(head: list[str]) -> str | None:
    """The name of the class that `head {` defines; "" if it has none, None if it is no class."""
    words = without_heads(head)
    at = next((i for i, word in enumerate(words) if word in ("(", "=") or word in CLASS_KEYS), -1)
    if at < 0 or words[at] not in CLASS_KEYS:
        return None
    name: list[str] = []
    for word in words[at + 1 :]:
        if word in (":", "final"):
            break
        if word not in CLASS_KEYS:
            name.append(word)
    # `struct X f() {` and `struct X x{1};` define no class.
    return None if "(" in name or re.search(r"\w \w", " ".join(name)) else "".join(name)


def function_of(head: list[str]) -> str | None:
    """The name and types of the inline function that `head {` defines, None if it is none."""
    words = without_heads(head)
    is_template = len(words) < len(head) and "template" in head
    inline = {"inline", "constexpr", "consteval", "ADJOINT_INLINE"} & set(words)
    if "static" in words or "(" not in words or not (inline or is_template):
        return None
    # That of operator() has parentheses in its name.
    at = words.index("(", words.index("operator") + 2 if "operator" in words else 0)
    start = words.index("operator") if "operator" in words else at - 1
    while start > 1 and words[start - 1] == "::":
        start -= 2
    name = "".join(words[start:at])
    ends = after(words, at)
    generic = "<>" if is_template else ""
    return f"{name}{generic}({', '.join(types(words[at + 1 : ends - 1]))})"


def types(parameters: list[str]) -> Iterator[str]:
    """The types of parameters, without their names and defaults."""
    part: list[str] = []
    depth, at = 0, 0
    while at <= len(parameters):
        word = parameters[at] if at < len(parameters) else ","
        depth += (word in "<([{") - (word in ">)]}")
        if word == "," and not depth:
            part = part[: part.index("=")] if "=" in part else part
            if len(part) > 1 and re.fullmatch(r"\w+", part[-1]) and part[-2] not in ("::", "const"):
                part.pop()
            if part:
                yield " ".join(part)
            part = []
        else:
            part.append(word)
        at += 1


def variable_of(head: list[str]) -> str | None:
    """The name of the inline variable that `head;` or `head {` defines, None if it is none."""
    words = without_heads(head)
    if "inline" not in words or "static" in words:
        return None
    words = words[: words.index("=")] if "=" in words else words
    while words and words[-1] == "]":
        words = words[: len(words) - 1 - words[::-1].index("[")]
    return words[-1] if words and "(" not in words and re.fullmatch(r"\w+", words[-1]) else None


def is_unfinished(head: list[str]) -> bool:
    """Whether a declaration goes on after its braces, as that of a variable with values does."""
    words, outer, at = without_heads(head), [], 0
    while at < len(words):
        if words[at] in OPEN:
            at = after(words, at)
            continue
        outer.append(words[at])
        at += 1
    return "operator" not in outer and ("=" in outer or "(" not in words)


@functools.cache
def definitions(text: str) -> frozenset[str]:
    """The full names of what a source defines for all of the program."""
    return frozenset(_definitions(tokens(text)))


def _definitions(code: list[str]) -> Iterator[str]:
    scopes: list[str | None] = []  # the names of the namespaces around; None is unnamed
    head: list[str] = []
    at = 0

    def full(kind: str, name: str) -> str:
        return f"{kind} " + "::".join([*(s for s in scopes if s), name])

    while at < len(code):
        word = code[at]
        outside = None not in scopes
        if word == "{":
            words = [w for w in head if w != "inline"]
            if words[:1] == ["namespace"]:
                scopes.append("".join(words[1:]) or None)
            elif words[:1] == ["extern"]:
                scopes.append("")
            else:
                named = class_of(head)
                if outside and named:
                    yield full("class", named)
                elif outside and named is None and (function := function_of(head)):
                    yield full("function", function)
                elif outside and named is None and (variable := variable_of(head)):
                    yield full("variable", variable)
                at = after(code, at)
                # The body of a function ends it; a class and a variable go on to their `;`.
                goes_on = named is not None or is_unfinished(head)
                head = [*head, BODY] if goes_on else []
                continue
            head = []
        elif word == "}":
            scopes.pop()
            head = []
        elif word == ";":
            if outside and BODY not in head and (variable := variable_of(head)):
                yield full("variable", variable)
            head = []
        elif word in OPEN:
            ends = after(code, at)
            head += code[at:ends]
            at = ends
            continue
        else:
            head.append(word)
        at += 1
    assert not scopes, "braces do not match: branches of the preprocessor open different ones"
