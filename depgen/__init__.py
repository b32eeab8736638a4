"""Dependency structure in language models: published systems trained, tested, compared and used through one command."""

from depgen.aliases import keep_former_paths

__version__ = "0.1.0"

keep_former_paths()
