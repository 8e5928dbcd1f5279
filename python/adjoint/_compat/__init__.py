"""PyTorch's name and habits: the alias ``torch``, its settings, and what is missing."""
