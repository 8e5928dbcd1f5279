"""PyTorch's name and habits.

- ``alias.py``, ``aliased.py`` - `import torch` means adjoint, in this process and in fork servers
- ``choices.py`` - settings of PyTorch's that adjoint has made a choice for
- ``layer_names.py`` - layers that PyTorch has at its top level too

Names that adjoint lacks are told by `adjoint._missing`.
"""
