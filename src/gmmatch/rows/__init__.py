"""The rows of an array, wherever they lie: checks, block-wise reading, preprocessing."""
