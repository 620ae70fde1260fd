"""The same primitives on other hardware: CUDA devices and the machines of a cluster."""
