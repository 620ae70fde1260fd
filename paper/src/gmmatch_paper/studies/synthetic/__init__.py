"""The paper's synthetic figures and its bounds: what corruption does to means, medians and picks."""
