"""Near-duplicates: rows that are copies of others, or nearly so, in one set of rows or in another."""
