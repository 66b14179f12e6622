"""NumPy code as a graph: it is run on arrays without values."""
