"""Parsers that give words their trees, and training them."""
