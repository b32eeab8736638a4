"""Figures of tables, of runs and of sentences, written as PNG, PDF or SVG."""
