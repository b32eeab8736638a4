"""Layers: tensors in, tensors out."""
