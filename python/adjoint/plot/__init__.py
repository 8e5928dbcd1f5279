"""Pictures of gradients, memory, Jacobians, checks and the demo; curves in the terminal.

- `gradients` - norms of gradients, layer by layer, over a training
- `memory` - live bytes while a function and its backward pass run, with the lines
- `jacobian` - where a Jacobian has entries, in the colours in which they are computed
- `check` - Taylor test and step sweep of `adjoint.check`

Pictures are drawn by matplotlib, the extra ``plot``; where it is not installed, `NoMatplotlib` says
how to get it. Curves in the terminal need nothing.
"""

from ._figure import NoMatplotlib as NoMatplotlib
from ._gradients import GradientNorms as GradientNorms
from ._gradients import gradients as gradients
from ._jacobian import JacobianPattern as JacobianPattern
from ._jacobian import jacobian as jacobian
from ._memory import MemoryTimeline as MemoryTimeline
from ._memory import Moment as Moment
from ._memory import memory as memory
from ._panels import check as check
from ._panels import save_check as save_check
from ._panels import save_recovery as save_recovery
from ._terminal import log_log_plot as log_log_plot
from ._terminal import log_plot as log_plot

__all__ = [
    "GradientNorms",
    "JacobianPattern",
    "MemoryTimeline",
    "Moment",
    "NoMatplotlib",
    "check",
    "gradients",
    "jacobian",
    "log_log_plot",
    "log_plot",
    "memory",
    "save_check",
    "save_recovery",
]
