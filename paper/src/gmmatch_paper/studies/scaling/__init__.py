"""Time and error against the number of rows, picks and batches, and the fraction that a median is taken of."""
