"""The numbers that stand beside the ops: `pi`, `e`, `inf`, `nan`; and `newaxis` for indexing."""

from math import e, inf, nan, pi

__all__ = ["e", "inf", "nan", "newaxis", "pi"]

newaxis = None
