"""Kernels, distances, explicit features and means in a kernel's space."""
