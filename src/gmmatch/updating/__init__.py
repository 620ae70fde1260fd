"""New rows for a selection that exists: the earlier rows are not read again."""
