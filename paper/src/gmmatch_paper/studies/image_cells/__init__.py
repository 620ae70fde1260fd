"""One cell of a study on images: its data and their corruption, what methods pick in, the picks, and the training."""
