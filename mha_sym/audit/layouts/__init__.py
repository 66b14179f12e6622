"""Which layout stored weights have: the readings under which the form gives the output."""
