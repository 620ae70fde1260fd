"""Training on the picks: networks, recipes, the loop, what is recorded along the way, linear probes."""
