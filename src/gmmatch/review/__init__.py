"""A person's word on single rows: a file of decisions, and the page on which they are made."""
