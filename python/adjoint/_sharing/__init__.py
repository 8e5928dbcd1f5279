"""Tensors in memory that several processes write, and their way from one to another."""
