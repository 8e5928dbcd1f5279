"""`adjoint graph script.py`: run a program, and show the graph of one of its backward passes.

The pass is the program's own: it is run step by step where the program calls backward, so the page
has its times, its gradients and its order; then the program goes on.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from typing import Any

from adjoint.cli import run
from adjoint.cli._output import refused


def add_to(subparsers: Any) -> None:
    """Add the subcommand's arguments."""
    parser = subparsers.add_parser(
        "graph",
        help="show the graph of a program's backward pass in a browser",
        description="Run a program (in which `import torch` means adjoint) and show the graph of "
        "its first backward pass, with the steps of the pass, as a page.",
    )
    parser.add_argument("-o", "--output", metavar="FILE", help="write the page, and open nothing")
    parser.add_argument(
        "--pass",
        dest="number",
        type=int,
        default=1,
        metavar="N",
        help="the N-th backward pass of the program (default 1)",
    )
    parser.add_argument("script", help="a Python file")
    parser.add_argument("args", nargs=argparse.REMAINDER, help="its arguments")
    parser.set_defaults(execute=execute)


def execute(arguments: argparse.Namespace) -> int:
    """Run the program; 1 if it has no such pass, else its own status."""
    if arguments.number < 1:
        print(f"adjoint graph: --pass counts from 1, got {arguments.number}", file=sys.stderr)
        return 2
    if refused(arguments.output, "graph"):
        return 2
    from adjoint.graph import modules

    watch = _Watch(arguments.number, arguments.output)
    with watch, modules():
        status = run.run_path(arguments.script, arguments.args)
    if watch.page is None and status == 0:
        print(
            f"adjoint graph: {arguments.script} ran {watch.passes} backward passes, there is no "
            f"pass {arguments.number} to show",
            file=sys.stderr,
        )
        return 1
    if watch.page is not None:
        print(f"adjoint graph: {watch.page}", file=sys.stderr)
    return status


class _Watch:
    """Takes the place of backward() while the program runs."""

    def __init__(self, number: int, output: str | None) -> None:
        self.number, self.output = number, output
        self.passes = 0
        self.page: str | None = None

    def __enter__(self) -> None:
        import adjoint

        self._method: Callable[..., Any] = adjoint.Tensor.backward
        self._function: Callable[..., Any] = adjoint.autograd.backward
        adjoint.Tensor.backward = self._of_tensor()  # type: ignore[method-assign]
        adjoint.autograd.backward = self._of_tensors

    def __exit__(self, *error: object) -> None:
        import adjoint

        adjoint.Tensor.backward = self._method  # type: ignore[method-assign]
        adjoint.autograd.backward = self._function

    def _of_tensor(self) -> Callable[..., None]:
        watch = self

        def backward(
            tensor: Any,
            gradient: Any = None,
            retain_graph: bool | None = None,
            create_graph: bool = False,
            inputs: Any = None,
        ) -> None:
            if watch._is_it():
                watch._step(tensor, gradient, retain_graph, create_graph, inputs)
            else:
                watch._method(tensor, gradient, retain_graph, create_graph, inputs)

        return backward

    def _of_tensors(
        self,
        tensors: Any,
        grad_tensors: Any = None,
        retain_graph: bool | None = None,
        create_graph: bool = False,
        grad_variables: Any = None,
        inputs: Any = None,
    ) -> None:
        if self._is_it() and grad_variables is None:
            self._step(tensors, grad_tensors, retain_graph, create_graph, inputs)
        else:
            self._function(
                tensors, grad_tensors, retain_graph, create_graph, grad_variables, inputs
            )

    def _is_it(self) -> bool:
        self.passes += 1
        return self.passes == self.number

    def _step(
        self, outputs: Any, gradient: Any, retain: bool | None, create: bool, inputs: Any
    ) -> None:
        from adjoint.graph import tensor_names
        from adjoint.graph.stepping._call import begin

        stepper = begin(outputs, gradient, retain, create, inputs, tensor_names(sys._getframe(2)))
        self.page = stepper.show() if self.output is None else stepper.save(self.output)
