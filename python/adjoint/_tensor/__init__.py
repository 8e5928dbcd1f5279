"""The class ``Tensor`` where it is written in Python: making, showing and converting tensors."""
