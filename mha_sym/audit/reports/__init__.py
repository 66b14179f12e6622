"""What a check found, as data, text, JSON and pages."""
