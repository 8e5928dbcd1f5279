"""Machine code for programs that run often, by llvmlite where it is installed.

The core writes the functions as text (src/program/native); this module turns text into functions.
Nothing is imported before a program has run for so long that it pays.
"""

from __future__ import annotations

import importlib.util
import os
import warnings
from typing import Any

from adjoint import _core

__all__ = ["prepare", "set_native"]

_WHEN = {"never": 0, "auto": 1, "always": 2}
# What the kernels of an instruction set were compiled for: results must not differ from theirs.
_PROCESSORS = {"base": "x86-64-v2", "v3": "x86-64-v3", "v4": "x86-64-v4"}

_prepared = False


def prepare() -> None:
    """Let programs become machine code, if llvmlite is there and nobody has said otherwise."""
    if not _prepared:
        set_native(os.environ.get("ADJOINT_NATIVE", "auto"))


def set_native(when: str) -> None:
    """Say when programs become machine code.

    Parameters
    ----------
    when
        ``"auto"``: once a program has run for as long as compiling it takes; ``"always"``: before
        its first replay; ``"never"``. Without llvmlite (``pip install adjoint[native]``) it is
        never.

    Notes
    -----
    Results are the same to the last bit. At first it is what the environment variable
    ``ADJOINT_NATIVE`` says, or ``"auto"``. Programs that were made under ``"never"`` stay as they
    are.

    Examples
    --------
    >>> import adjoint as ad
    >>> ad.compiler.set_native("auto")
    """
    global _prepared
    if when not in _WHEN:
        raise ValueError(f"set_native(): when is 'auto', 'always' or 'never', not {when!r}")
    _prepared = True
    found = when != "never" and importlib.util.find_spec("llvmlite") is not None
    _core._native_by(_compile if found else None, _WHEN[when])


def _compile(text: str, names: list[str], instructions: str) -> tuple[Any, list[int]] | None:
    """Functions of the text, by name: what owns them, and their addresses. None if it fails."""
    try:
        import llvmlite.binding as llvm

        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        # The engine owns it. The processor's tuning would split the widest vectors.
        machine = llvm.Target.from_default_triple().create_target_machine(
            cpu=_PROCESSORS[instructions],
            features="-prefer-256-bit" if instructions == "v4" else "",
            opt=2,
            jit=True,
        )
        engine = llvm.create_mcjit_compiler(llvm.parse_assembly(text), machine)
        engine.finalize_object()
        return engine, [engine.get_function_address(name) for name in names]
    except Exception as error:
        # Whatever goes wrong there (another version, no room), the programs run as they did.
        _core._native_by(None, 0)
        warnings.warn(
            f"llvmlite could not compile a program: {error}. Compiled functions go on without "
            "machine code.",
            stacklevel=2,
        )
        return None
