"""Solvers beside references of fifty digits, to second order, one table for each room."""
