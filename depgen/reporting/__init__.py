"""Results rendered beside the published numbers: tables, plots, pages."""
