"""Trees and bracketings over words, their files and their transformations."""
