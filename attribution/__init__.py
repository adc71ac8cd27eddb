"""The method: attention-union attribution with dependency augmentation. Knows nothing of Beam."""
