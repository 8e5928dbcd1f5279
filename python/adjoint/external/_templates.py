"""Input decks: text files in which ``{{k}}`` stands for the value of an input.

``{{k:.6e}}`` is written as Python's format() does, ``{{x[2]}}`` is an element, ``{{x}}`` of an
array all elements with blanks between. Without a format, numbers have every digit. Read next:
_command.py.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

__all__ = ["Templates"]

_FIELD = re.compile(
    r"\{\{\s*([A-Za-z_]\w*)((?:\[\s*-?\d+(?:\s*,\s*-?\d+)*\s*\])?)\s*(?::([^{}]*))?\}\}"
)

_ALMOST = re.compile(r"\{\{[^{}]*\}\}")


class Templates:
    """The decks of a program: the name that each has in the folder of a run, and its text."""

    def __init__(self, given: Any, home: str, inputs: Sequence[str]) -> None:
        if isinstance(given, (str, os.PathLike)):
            given = {Path(given).name: given}
        if not isinstance(given, Mapping):
            raise TypeError(f"templates= takes a path, or a dict of names and paths; got {given!r}")
        self.texts: dict[str, str] = {}
        for name, path in given.items():
            found = Path(home, path)
            if not found.is_file():
                raise ValueError(f"templates=: there is no file {found}")
            if not Path(name).name or Path(name).is_absolute() or ".." in Path(name).parts:
                raise ValueError(
                    f"templates=: {str(name)!r} is not the name of a file in the folder of a run"
                )
            # Bytes that are not of the fields stay what they are: other encodings, ends of lines.
            self.texts[str(name)] = found.read_bytes().decode(errors="surrogateescape")
        for name, text in self.texts.items():
            for match in _FIELD.finditer(text):
                if match[1] not in inputs:
                    raise ValueError(
                        f"the template {name} names {{{{{match[1]}}}}}; the inputs are "
                        f"{', '.join(inputs)}. fix: inputs=[..., {match[1]!r}]"
                    )
            for match in _ALMOST.finditer(_FIELD.sub("", text)):
                if set(re.findall(r"\w+", match[0])) & set(inputs):
                    raise ValueError(
                        f"the template {name} has {match[0]}, which is not understood. fix: "
                        "{{k}}, {{k:.6e}}, {{k[2]}} or {{k[0, 1]:.6e}}"
                    )

    @property
    def used(self) -> set[str]:
        """The inputs that stand in some template."""
        return {m[1] for text in self.texts.values() for m in _FIELD.finditer(text)}

    def write(self, folder: Path, values: Mapping[str, Any]) -> None:
        """Write the decks for some inputs."""
        for name, text in self.texts.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            written = _FIELD.sub(lambda m: _filled(m, values), text)
            path.write_bytes(written.encode(errors="surrogateescape"))


def _filled(match: re.Match[str], values: Mapping[str, Any]) -> str:
    name, index, spec = match[1], match[2], match[3]
    value = np.asarray(values[name])
    if index:
        try:
            value = value[tuple(int(k) for k in index.strip("[] ").split(","))]
        except IndexError as error:
            raise ValueError(f"the template has {match[0]}: {error}") from None
    numbers = np.asarray(value).reshape(-1).tolist()
    try:
        return " ".join(format(v, spec) if spec else repr(v) for v in numbers)
    except (TypeError, ValueError) as error:
        raise ValueError(f"the template has {match[0]}: {error}") from None
