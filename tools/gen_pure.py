"""`python -m tools.gen_pure`: the page docs/reference/pure.md from the table of `adjoint.compiler`.

With `--check` nothing is written: it fails if the page is not what would be written.
"""

from __future__ import annotations

import pathlib
import sys
import textwrap
from collections.abc import Iterable

from adjoint.compiler._pure import ALL, ARRAY_METHODS, FUNCTIONS, PYTHON, TYPES, WHOLE

PAGE = pathlib.Path(__file__).parent.parent / "docs" / "reference" / "pure.md"

HEAD = """\
# What is known to be pure

What a [compiled function](../guides/compile.md) may call outside adjoint;
[the guide](../guides/pure.md) says why, and what to do about the rest. Functions written in Python
are looked into, whoever wrote them; the ones below are trusted without.

This page is written by `python -m tools.gen_pure`.
"""


def _wrapped(names: Iterable[str]) -> str:
    text = ", ".join(f"`{name}`" for name in sorted(names, key=str.lower))
    return "\n".join(textwrap.wrap(text, 140, break_long_words=False, break_on_hyphens=False))


def _by_module(table: dict[str, frozenset[str]]) -> str:
    whole = [module for module, names in table.items() if names is ALL]
    lines = [f"All of {_wrapped(whole)}."]
    lines += [
        f"`{module}`: {_wrapped(names)}." for module, names in table.items() if names is not ALL
    ]
    return "\n\n".join(lines)


# Not in C, or not there, on all versions of Python; the page is the same on all.
_LATER = {"typing.TypeVar", "typing.ParamSpec", "typing.TypeVarTuple", "typing.TypeAliasType"}
_RENAMED = {"typing.Union": "types.UnionType"}


def _name(cls: type) -> str:
    module = cls.__module__.replace("_collections", "collections")
    name = f"{module}.{cls.__name__}".removeprefix("builtins.")
    return _RENAMED.get(name, name)


def page() -> str:
    """The text of the page."""
    named = {_name(cls) for cls in TYPES} | _LATER
    whole = {name for name in named if not name.startswith("itertools.")}
    return "\n".join(
        (
            HEAD,
            "## Functions written in C\n",
            _by_module({k: v for k, v in FUNCTIONS.items() if k != "adjoint._core"}),
            "\nUniversal functions of NumPy and SciPy, and NumPy's array functions.\n",
            "## Types written in C, and their methods\n",
            _wrapped(whole) + ", all of `itertools`, exceptions.",
            f"\n`numpy.ndarray` and NumPy's numbers: operators, and {_wrapped(ARRAY_METHODS)}.\n",
            "## Python code of libraries that is not looked into\n",
            _by_module(PYTHON),
            f"\nCode that reads all attributes of what it is given: {_wrapped(WHOLE)}.\n",
        )
    )


def main(arguments: list[str]) -> int:
    """Write the page, or compare it."""
    if "--check" in arguments:
        return int(PAGE.read_text() != page())
    PAGE.write_text(page())
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
