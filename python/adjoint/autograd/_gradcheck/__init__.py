"""The work behind ``adjoint.autograd.gradcheck``, loaded at its first call.

Everything is done in real coordinates and in float64, with NumPy: a complex number is two
coordinates, a tensor is a vector of them, and a Jacobian has one row per coordinate of the input
and one column per coordinate of the output. So complex functions need no case of their own until a
result is shown to a person. Read on in this order:

- ``problem``: the function under test, its inputs and outputs as vectors
- ``tolerance``: the step of the differences and what may remain of an error
- ``numerical``, ``analytical``, ``forward``: three ways to the Jacobian
- ``checks``, ``undefined``: what is compared with what, in slow and in fast mode
- ``causes``, ``report``: what a failure tells
"""
