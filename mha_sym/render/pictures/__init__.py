"""Pictures of axes and weights."""
