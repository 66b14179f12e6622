"""What is particular to attention: axes, weights and forms."""
