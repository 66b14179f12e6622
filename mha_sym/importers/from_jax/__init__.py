"""JAX code as a graph, by its jaxpr with symbolic sizes."""
