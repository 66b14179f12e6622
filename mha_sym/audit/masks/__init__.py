"""Masks of implementations: what they mean, where they start, whether code has one of its own, rows without a key."""
