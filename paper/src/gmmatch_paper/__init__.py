"""The laboratory of gmmatch: the paper's figures, tables, corruptions, networks and diffusion."""
