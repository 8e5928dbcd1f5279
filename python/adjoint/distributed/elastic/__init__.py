"""Names of PyTorch's launcher that scripts use; the launcher is ``adjoint launch``."""
