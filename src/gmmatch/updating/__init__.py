"""New rows for an existing selection, without reading the old rows again."""
