"""Search and sampling over structures and strings, from scores or a step function."""
