"""Pages that need nothing else: HTML with MathML."""
