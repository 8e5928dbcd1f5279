"""Numerical differentiation: the one core behind externals, `gradcheck`, `check`, `Function.check`.

A function is seen as a map of vectors of real numbers (_point.py, _coordinates.py). A *method*
evaluates it at a few places beside the input and combines the values (_method.py, and a file for
each: forward, central, complex_step, richardson, spsa). What people use of this is
`adjoint.differences`. Read in this order:

- ``_method``, ``_central``: what a method is
- ``_steps``, ``_step_choice``, ``_tiny_elements``: how far to step
- ``_directional``: along one direction
- ``_elementwise``, ``_elementwise_array``, ``_sparse_jacobian``: coordinates that move together
- ``_plan``: all of it for one function, with what was learnt of it
- ``_jacobians``: the Jacobians that come out
"""
