"""Which names of torch a file of Python uses, read off its syntax tree; nothing of it runs.

Imports, their aliases, chains of attributes, names of names (``F = torch.nn.functional``), and
methods of what is evidently a tensor: annotated as one, or the result of a call of torch's.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

TENSOR = "torch.Tensor"
_ROOTS = ("torch", "functorch")
_CATCH = frozenset({"ImportError", "ModuleNotFoundError", "AttributeError", "Exception"})


@dataclass(frozen=True)
class Use:
    """A name, where it is used, and whether the program is ready for its absence."""

    name: str
    line: int
    expected: bool


def names_in(source: str, file: str) -> list[Use]:
    """All uses in a file; SyntaxError if it is not Python."""
    reader = _Reader()
    reader.visit(ast.parse(source, file))
    return sorted(set(reader.uses), key=lambda use: (use.line, use.name))


class _Reader(ast.NodeVisitor):
    def __init__(self) -> None:
        self.uses: list[Use] = []
        self._scopes: list[dict[str, str | None]] = [{}]  # what names stand for; None: nothing
        self._tries = 0

    # -- what names stand for --------------------------------------------------------------------
    def _meaning(self, name: str) -> str | None:
        for scope in reversed(self._scopes):
            if name in scope:
                return scope[name]
        return None

    def _bind(self, name: str, meaning: str | None) -> None:
        if meaning is not None or self._meaning(name) is not None:
            self._scopes[-1][name] = meaning

    def _use(self, name: str, node: ast.AST, expected: bool = False) -> None:
        self.uses.append(Use(name, getattr(node, "lineno", 0), expected or self._tries > 0))

    # -- imports ---------------------------------------------------------------------------------
    def visit_Import(self, node: ast.Import) -> None:
        """``import torch.nn as nn``."""
        for alias in node.names:
            root = alias.name.partition(".")[0]
            if root not in _ROOTS:
                self._bind(alias.asname or root, None)
                continue
            self._use(alias.name, node)
            self._bind(alias.asname or root, alias.name if alias.asname else root)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        """``from torch import nn``."""
        module = node.module or ""
        ours = node.level == 0 and module.partition(".")[0] in _ROOTS
        for alias in node.names:
            if not ours:
                self._bind(alias.asname or alias.name, None)
            elif alias.name == "*":
                self._use(module, node)
            else:
                self._use(f"{module}.{alias.name}", node)
                self._bind(alias.asname or alias.name, f"{module}.{alias.name}")

    # -- uses ------------------------------------------------------------------------------------
    def _resolved(self, node: ast.AST) -> str | None:
        """The whole name of a chain ``torch.a.b``; None if it is not one of torch's."""
        parts: list[str] = []
        while isinstance(node, ast.Attribute):
            parts.append(node.attr)
            node = node.value
        if not isinstance(node, ast.Name):
            return None
        meaning = self._meaning(node.id)
        if meaning is None or (meaning == _INSTANCE and parts):
            return None
        return ".".join([meaning, *reversed(parts)])

    def _is_tensor(self, node: ast.AST) -> bool:
        if isinstance(node, ast.Name):
            return self._meaning(node.id) == _INSTANCE
        if isinstance(node, ast.Call):
            name = self._resolved(node.func)
            if name is not None:
                return name.count(".") == 1 and name.rpartition(".")[2] in _giving_tensors()
            function = node.func
            return (
                isinstance(function, ast.Attribute)
                and function.attr in _giving_tensors()
                and self._is_tensor(function.value)
            )
        if isinstance(node, ast.BinOp):
            return self._is_tensor(node.left) or self._is_tensor(node.right)
        return False

    def visit_Attribute(self, node: ast.Attribute) -> None:
        """A chain, from its end: the whole of it is one name."""
        name = self._resolved(node)
        if name is not None:
            self._use(name, node)
            return
        if self._is_tensor(node.value) and isinstance(node.ctx, ast.Load):
            self._use(f"{TENSOR}.{node.attr}", node)
        self.visit(node.value)

    def visit_Call(self, node: ast.Call) -> None:
        """``getattr(torch, "name")`` and ``hasattr``, which expects that it may not be there."""
        function = node.func
        if isinstance(function, ast.Name) and function.id in ("getattr", "hasattr"):
            match node.args:
                case [holder, ast.Constant(value=str(name)), *more]:
                    owner = self._resolved(holder)
                    if owner is not None:
                        self._use(f"{owner}.{name}", node, function.id == "hasattr" or bool(more))
        self.generic_visit(node)

    # -- names of names --------------------------------------------------------------------------
    def visit_Assign(self, node: ast.Assign) -> None:
        """``F = torch.nn.functional``, ``x = torch.randn(3)``."""
        self.visit(node.value)
        meaning = self._resolved(node.value)
        if meaning is None and self._is_tensor(node.value):
            meaning = _INSTANCE
        for target in node.targets:
            for name in _names(target):
                self._bind(name, meaning if isinstance(target, ast.Name) else None)
            if not isinstance(target, ast.Name):
                self.visit(target)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        """``x: Tensor = ...``."""
        self.visit(node.annotation)
        if node.value is not None:
            self.visit(node.value)
        if isinstance(node.target, ast.Name):
            self._bind(node.target.id, self._annotated(node.annotation))

    def _annotated(self, annotation: ast.AST | None) -> str | None:
        if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
            try:
                annotation = ast.parse(annotation.value, mode="eval").body
            except SyntaxError:
                return None
        is_tensor = annotation is not None and self._resolved(annotation) == TENSOR
        return _INSTANCE if is_tensor else None

    def visit_For(self, node: ast.For) -> None:
        """The variable of a loop stands for something else now."""
        self.visit(node.iter)
        for name in _names(node.target):
            self._bind(name, None)
        for child in (*node.body, *node.orelse):
            self.visit(child)

    # -- scopes ----------------------------------------------------------------------------------
    @contextmanager
    def _scope(self, names: dict[str, str | None]) -> Iterator[None]:
        self._scopes.append(names)
        try:
            yield
        finally:
            self._scopes.pop()

    def _function(self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) -> None:
        given = node.args
        every = [*given.posonlyargs, *given.args, *given.kwonlyargs]
        every += [extra for extra in (given.vararg, given.kwarg) if extra is not None]
        if not isinstance(node, ast.Lambda):
            self._bind(node.name, None)
            for outside in (*node.decorator_list, *([node.returns] if node.returns else [])):
                self.visit(outside)
        for outside in (*given.defaults, *(d for d in given.kw_defaults if d is not None)):
            self.visit(outside)
        for argument in every:
            if argument.annotation is not None:
                self.visit(argument.annotation)
        with self._scope({a.arg: self._annotated(a.annotation) for a in every}):
            for child in node.body if isinstance(node.body, list) else [node.body]:
                self.visit(child)

    visit_FunctionDef = visit_AsyncFunctionDef = visit_Lambda = _function

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        """A class has names of its own."""
        self._bind(node.name, None)
        for outside in (*node.decorator_list, *node.bases, *(k.value for k in node.keywords)):
            self.visit(outside)
        with self._scope({}):
            for child in node.body:
                self.visit(child)

    def visit_Try(self, node: ast.Try) -> None:
        """What stands in ``try`` before ``except ImportError`` may be absent."""
        ready = any(_catches(handler) for handler in node.handlers)
        self._tries += ready
        for child in node.body:
            self.visit(child)
        self._tries -= ready
        after: list[ast.AST] = [*node.handlers, *node.orelse, *node.finalbody]
        for part in after:
            self.visit(part)


_INSTANCE = "a tensor"
_MAKERS = ("tensor", "as_tensor", "from_numpy")


@functools.cache
def _giving_tensors() -> frozenset[str]:
    """Ops whose result is one tensor, in all their forms."""
    from adjoint import _core

    several: dict[str, bool] = {}
    for row in _core.op_table():
        alone = bool(row["out"]) and not row["results"]
        several[row["name"]] = several.get(row["name"], True) and alone
    return frozenset({*_MAKERS, *(name for name, alone in several.items() if alone)})


def _names(target: ast.AST) -> Iterator[str]:
    for node in ast.walk(target):
        if isinstance(node, ast.Name):
            yield node.id


def _catches(handler: ast.ExceptHandler) -> bool:
    if handler.type is None:
        return True
    return any(
        (isinstance(node, ast.Name) and node.id in _CATCH) for node in ast.walk(handler.type)
    )
