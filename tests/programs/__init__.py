"""Ordinary PyTorch scripts, which must print on adjoint what they print on PyTorch."""
