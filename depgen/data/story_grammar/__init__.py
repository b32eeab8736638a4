"""English-looking stories as a probabilistic dependency grammar: lexicon, phrases, sentences."""
