"""Generated text, and measures of it."""
