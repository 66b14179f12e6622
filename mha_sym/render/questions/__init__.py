"""Questions with their answers, shown."""
