"""The result of every method: budgets, labels and groups, Selection and its files."""
