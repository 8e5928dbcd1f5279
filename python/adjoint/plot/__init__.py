"""Pictures: of the demo (`save_recovery`) and of checks (`save_check`), and curves in the terminal.

Pictures are drawn by matplotlib, the extra ``plot``; where it is not installed, `NoMatplotlib` says
how to get it. Curves in the terminal need nothing.
"""

from ._figure import NoMatplotlib as NoMatplotlib
from ._panels import save_check as save_check
from ._panels import save_recovery as save_recovery
from ._terminal import log_log_plot as log_log_plot
from ._terminal import log_plot as log_plot

__all__ = ["NoMatplotlib", "log_log_plot", "log_plot", "save_check", "save_recovery"]
