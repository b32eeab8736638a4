"""Pure functions over counts and log-probabilities, with thin torchmetrics shells."""
