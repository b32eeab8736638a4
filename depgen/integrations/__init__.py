"""Systems in the forms that other tools take: spaCy, lm_eval and minicons. Each is an extra."""
