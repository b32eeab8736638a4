"""UNION (Guan & Huang, 2020): a learned metric that tells human stories from corrupted ones."""
