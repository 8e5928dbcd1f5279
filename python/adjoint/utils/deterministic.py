"""`torch.utils.deterministic`: whether memory that nobody has written is filled. Kept, unused."""

fill_uninitialized_memory = True
