"""LaTeX, and PDFs that are made of it."""
