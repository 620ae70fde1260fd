"""Many groups at once on one device: a single class is often too small to keep a GPU busy."""
