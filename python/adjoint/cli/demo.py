"""`adjoint demo`: find what moves a chain of masses and springs from noisy observations.

The problem is in `_chain.py`. Here: gradient descent with a progress bar, then the loss as a plot,
the recovered values beside the true ones, and how fast the gradients came.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from adjoint.cli._chain import Chain

MASSES = 8
LEARNING_RATE = 0.1


def add_to(subparsers: Any) -> None:
    """Add the subcommand's arguments."""
    parser = subparsers.add_parser(
        "demo",
        help="recover springs and initial state of a chain from noisy observations",
        description="Recover the stiffnesses and the initial state of a mass-spring chain from "
        "noisy observations, by gradient descent through its simulation.",
    )
    parser.add_argument("--steps", type=_positive, default=600, help="gradient steps (default 600)")
    parser.add_argument(
        "--seed", type=int, default=0, help="of the chain and the noise (default 0)"
    )
    parser.add_argument("--out", default="adjoint_demo.png", help="where the picture goes")
    parser.add_argument("--no-png", action="store_true", help="write no picture")
    parser.set_defaults(execute=execute)


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"must be at least 1, got {number}")
    return number


@dataclass
class Recovery:
    """What the gradient descent leaves behind."""

    true: Chain
    found: Chain
    losses: list[float] = field(default_factory=list)
    seconds: float = 0.0


def execute(arguments: argparse.Namespace) -> int:
    """Run the demo."""
    from rich.console import Console

    from adjoint.cli import _chain

    console = Console()
    console.print(
        f"[bold]A chain of {MASSES} masses and {MASSES + 1} springs between two walls.[/bold]\n"
        f"Its {_chain.TIME_STEPS} observed time steps carry noise of {_chain.NOISE}. Unknown: "
        f"{MASSES + 1} stiffnesses, {MASSES} positions, {MASSES} velocities.\n"
        f"Each gradient goes back through all {_chain.TIME_STEPS} steps of the simulation."
    )
    recovery = recover(arguments.steps, arguments.seed, console)
    _report(recovery, console)
    if not arguments.no_png:
        _draw(recovery, arguments.out, console)
    return 0


def _draw(recovery: Recovery, path: str, console: Console) -> None:
    from adjoint import plot

    found, true = recovery.found.log_stiffness.exp(), recovery.true.log_stiffness.exp()
    try:
        plot.save_recovery(path, recovery.losses, found.tolist(), true.tolist())
        words = f"picture: {path}"
    except plot.NoMatplotlib as error:
        words = f"no picture: {error}"
    console.print(words, soft_wrap=True, highlight=False, markup=False)


def recover(steps: int, seed: int, console: Console | None = None) -> Recovery:
    """Draw a chain, observe it, and find it again by gradient descent."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    import adjoint as ad
    from adjoint import optim
    from adjoint.cli import _chain

    ad.manual_seed(seed)
    stretch = _chain.stretch_matrix(MASSES)
    recovery = Recovery(_chain.true_chain(MASSES), _chain.first_guess(MASSES))
    exact = _chain.simulate(recovery.true, stretch)
    observed = exact + _chain.NOISE * ad.randn_like(exact)
    optimizer = optim.Adam(recovery.found.unknowns(), lr=LEARNING_RATE)
    schedule = optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    columns = (
        TextColumn("gradient descent"),
        BarColumn(bar_width=None),
        MofNCompleteColumn(),
        TextColumn("loss {task.fields[loss]:.2e}"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console) as progress:
        task = progress.add_task("", total=steps, loss=float("nan"))
        start = time.perf_counter()
        for _ in range(steps):
            optimizer.zero_grad()
            loss = (_chain.simulate(recovery.found, stretch) - observed).square().mean()
            loss.backward()
            optimizer.step()
            schedule.step()
            recovery.losses.append(loss.item())
            progress.update(task, advance=1, loss=recovery.losses[-1])
        recovery.seconds = time.perf_counter() - start
    return recovery


def _report(recovery: Recovery, console: Console) -> None:
    from adjoint.cli import _chain
    from adjoint.plot import log_plot

    width = max(20, min(console.width - 10, 72))
    console.print("\n[bold]loss[/bold] [dim](mean squared error of the positions)[/dim]")
    console.print(log_plot(recovery.losses, width), highlight=False, markup=False)
    console.print(_table(recovery))
    steps, seconds = len(recovery.losses), recovery.seconds
    console.print(
        f"loss {recovery.losses[0]:.2e} -> [bold]{recovery.losses[-1]:.2e}[/bold] "
        f"(noise alone: {_chain.NOISE**2:.2e})\n"
        f"{steps} gradients in [bold]{seconds:.2f} s[/bold]: "
        f"[bold]{steps / seconds:.0f} gradients per second[/bold]",
        highlight=False,
    )


def _table(recovery: Recovery) -> Table:
    from rich.table import Table

    table = Table(title="recovered beside true", title_justify="left", pad_edge=False)
    table.add_column("", justify="right")
    pairs = [
        (found.tolist(), true.tolist())
        for found, true in zip(recovery.found.quantities(), recovery.true.quantities(), strict=True)
    ]
    for name in ("stiffness", "position", "velocity"):
        table.add_column(name, justify="right", style="bold")
        table.add_column("true", justify="right", style="dim")
    for row in range(MASSES + 1):
        cells = [str(row)]
        for found, true in pairs:
            cells += [f"{column[row]:.3f}" if row < len(column) else "" for column in (found, true)]
        table.add_row(*cells)
    return table
