"""Many groups at once on one device: one class of a thousand is too small to fill a GPU, all are not."""
