"""Asking people: blinded questionnaires, their forms, the answers that come back, and what these say."""
