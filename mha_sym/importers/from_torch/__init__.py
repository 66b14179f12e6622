"""Torch code as a graph: it is traced while its sizes are symbols."""
