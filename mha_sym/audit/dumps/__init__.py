"""Dumps: files of arrays that code in any language has written, checked without running it."""
