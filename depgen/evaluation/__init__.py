"""Measures that need a model or a file."""
