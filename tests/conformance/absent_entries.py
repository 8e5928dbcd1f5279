"""Entries of torch's database that are not here, and why. The list may only get shorter."""

ABSENT = {
    "chalf": "there is no complex32",
    "max_pool2d_with_indices_backward": "a private operator of torch.ops, not a function of torch",
}
