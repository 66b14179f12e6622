"""Terms as formulas: signs and scripts, what is folded, what is short, where lines may break, what changed."""
