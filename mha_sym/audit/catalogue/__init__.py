"""The catalogue of faults, one file a family; each defines ``FAULTS``."""
