"""Which rows can be trusted: wrong labels, outliers and corrupted groups."""
