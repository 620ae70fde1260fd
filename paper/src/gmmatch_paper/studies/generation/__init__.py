"""The paper's study of image generation: diffusion models trained on what methods pick from corrupted images."""
