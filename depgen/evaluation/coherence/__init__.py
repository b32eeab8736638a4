"""Coherence: whether a system finds a document likelier than other arrangements of sentences."""
