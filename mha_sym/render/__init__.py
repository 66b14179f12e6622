"""How anything is shown to a reader: plain text, LaTeX and JSON, from data that other modules have made."""
