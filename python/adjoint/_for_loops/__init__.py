"""Plain `for` loops in a function that is recorded: once their steps repeat, the rest is a `scan`.

When a recording sees that instructions repeat (`Transcript` in src/program/capture), the loops that
the program is in get another iterator (`_takeover.py`, `_items.py`), which is asked before each
step and so knows the variables of the frame as they are between two steps (`_between.py`, over
`_frames.py`). It watches one step more. If that has left everything as it was but variables
(tensors took the place of tensors of the same form, or were changed in place, see `_in_place.py`; a
list was appended to, rows were written), then the next one does the same operations on the next
values, for nothing that a step could ask for tells one from another. So the body, which is a
function of its variables (`_bytecode.py`), becomes the step of a scan (`_step_code.py`, `_rest.py`,
`_rows.py`, `_memory.py`), and the frame goes on behind it, at the last items. Where anything else
changes, or the body reads a number that it gets as item otherwise than for a row of a tensor, the
loop goes on as it was.
"""

from ._takeover import look as look
