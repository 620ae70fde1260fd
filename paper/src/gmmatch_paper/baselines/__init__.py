"""The baselines of the paper that train a model; gmmatch finds them by the entry-point group ``gmmatch.methods``."""
