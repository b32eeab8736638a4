"""How likely systems find texts."""
