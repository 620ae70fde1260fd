"""Reproduction of the paper: its figures, tables, corruptions, networks and diffusion."""
