"""A font of 5 by 7 dots for the figures: what they write, and little more.

A glyph is seven numbers, one for each row from the top; bit 4 is the leftmost dot.
"""

from __future__ import annotations

import functools

_ROWS = """
0 0e 11 13 15 19 11 0e   1 04 0c 04 04 04 04 0e   2 0e 11 01 02 04 08 1f   3 1f 02 04 02 01 11 0e
4 02 06 0a 12 1f 02 02   5 1f 10 1e 01 01 11 0e   6 06 08 10 1e 11 11 0e   7 1f 01 02 04 08 08 08
8 0e 11 11 0e 11 11 0e   9 0e 11 11 0f 01 02 0c   . 00 00 00 00 00 0c 0c   , 00 00 00 00 0c 04 08
- 00 00 00 1f 00 00 00   + 00 04 04 1f 04 04 00   ( 02 04 08 08 08 04 02   ) 08 04 02 02 02 04 08
/ 00 01 02 04 08 10 00   : 00 0c 0c 00 0c 0c 00   = 00 00 1f 00 1f 00 00   % 18 19 02 04 08 13 03
a 00 00 0e 01 0f 11 0f   b 10 10 16 19 11 11 1e   c 00 00 0e 10 10 11 0e   d 01 01 0d 13 11 11 0f
e 00 00 0e 11 1f 10 0e   f 06 09 08 1c 08 08 08   g 00 0f 11 11 0f 01 0e   h 10 10 16 19 11 11 11
i 04 00 0c 04 04 04 0e   j 02 00 06 02 02 12 0c   k 10 10 12 14 18 14 12   l 0c 04 04 04 04 04 0e
m 00 00 1a 15 15 11 11   n 00 00 16 19 11 11 11   o 00 00 0e 11 11 11 0e   p 00 00 1e 11 1e 10 10
q 00 00 0d 13 0f 01 01   r 00 00 16 19 10 10 10   s 00 00 0e 10 0e 01 1e   t 08 08 1c 08 08 09 06
u 00 00 11 11 11 13 0d   v 00 00 11 11 11 0a 04   w 00 00 11 11 15 15 0a   x 00 00 11 0a 04 0a 11
y 00 00 11 11 0f 01 0e   z 00 00 1f 02 04 08 1f   [ 0e 08 08 08 08 08 0e   ] 0e 02 02 02 02 02 0e
_ 00 00 00 00 00 00 1f   ' 04 04 08 00 00 00 00   * 00 04 15 0e 15 04 00   < 02 04 08 10 08 04 02
> 08 04 02 01 02 04 08   | 04 04 04 04 04 04 04
"""


def _parse() -> dict[str, tuple[int, ...]]:
    words = _ROWS.split()
    return {
        words[start]: tuple(int(row, 16) for row in words[start + 1 : start + 8])
        for start in range(0, len(words), 8)
    }


GLYPHS = _parse()
"""Each character's rows. A space has none; other characters are not in the font."""

WIDTH, HEIGHT, ADVANCE = 5, 7, 6

# To the right, below, and the two diagonals: each pair of neighbours is met once.
_NEIGHBOURS = ((1, 0), (0, 1), (1, 1), (-1, 1))


@functools.cache
def strokes(character: str) -> tuple[tuple[int, int, int, int], ...]:
    """The lines (x0, y0, x1, y1) that join neighbouring dots of a glyph.

    Drawn with round ends they give smooth letters. A diagonal is left out where the corner between
    its dots is set: the corner is joined to both already.
    """
    dots = {
        (column, row)
        for row, bits in enumerate(GLYPHS.get(character, ()))
        for column in range(WIDTH)
        if bits >> (WIDTH - 1 - column) & 1
    }
    lines = []
    for x, y in sorted(dots):
        lines.append((x, y, x, y))
        for dx, dy in _NEIGHBOURS:
            corner = dx != 0 and dy != 0 and ((x + dx, y) in dots or (x, y + dy) in dots)
            if (x + dx, y + dy) in dots and not corner:
                lines.append((x, y, x + dx, y + dy))
    return tuple(lines)
