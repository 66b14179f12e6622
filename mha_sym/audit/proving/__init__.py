"""Proving code: what is to be proved of it, stage by stage, and what is said of the outcome."""
