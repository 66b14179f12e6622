"""Proofs written for checkers that others made."""
