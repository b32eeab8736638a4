"""Networks from token ids to hidden states that a system takes as an argument."""
