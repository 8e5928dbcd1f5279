"""The class ``Tensor`` where it is written in Python: making, showing and converting tensors.

The type itself is native (``src/bindings/tensor/tensor_type.cpp``), and so are ``backward``
(``src/bindings/autograd/backward.cpp``) and every op (``src/ops``).
"""
