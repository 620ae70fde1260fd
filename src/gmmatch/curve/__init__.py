"""How many rows are worth picking: figures and accuracy against the size of a selection."""
