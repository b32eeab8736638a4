"""Syntactic evaluation: minimal pairs, and suites of predictions about surprisals."""
