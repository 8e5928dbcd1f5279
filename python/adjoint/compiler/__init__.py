"""Recorded functions: `adjoint.compile` and what belongs to it."""
