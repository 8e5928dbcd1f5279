"""utils.data."""
