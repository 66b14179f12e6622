"""Derivations as numbers: every line computed."""
