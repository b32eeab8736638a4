"""Dependency structure in language models: published systems trained, tested, compared and used through one command."""

__version__ = "0.1.0"
