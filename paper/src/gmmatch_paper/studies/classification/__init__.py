"""The paper's image-classification studies: one short file each, and how they are run and shown."""
