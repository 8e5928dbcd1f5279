"""Names of PyTorch's launcher that scripts use. Read next: errors.py."""
