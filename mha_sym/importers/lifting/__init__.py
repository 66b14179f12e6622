"""From graphs to expressions with named axes."""
