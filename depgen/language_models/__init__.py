"""The base classes of all systems: `base`, and one for each way of predicting a text."""
