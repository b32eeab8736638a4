"""Corpora, vocabularies, samplers and batches as LightningDataModules."""
