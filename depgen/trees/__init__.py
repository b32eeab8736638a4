"""Trees, graphs and bracketings over words, their files and their transformations."""
