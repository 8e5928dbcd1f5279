"""A backward pass, step by step: ``adjoint.step(y)``.

- ``_stepper.py`` - `Stepper`, what people hold: next, back, run to a place, breaks
- ``_record.py`` - `Step`, what is known of a node that has run
- ``_numbers.py`` - what is said about a gradient without keeping it
- ``_memory.py`` - which memory the graph lets go of
- ``_terminal.py`` - steps as text, and the prompt

The engine runs node by node in ``src/bindings/autograd/stepped_pass.cpp``.
"""

from __future__ import annotations

from ._numbers import Numbers as Numbers
from ._record import Delivery as Delivery
from ._record import Step as Step
from ._stepper import Stepper as Stepper

__all__ = ["Delivery", "Numbers", "Step", "Stepper"]
