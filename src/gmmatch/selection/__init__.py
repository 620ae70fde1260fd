"""Selection: which rows were picked, in which order, how well they match, and how that came about."""
