"""Terms, rules, normal form, prover, refuter, certificate and checker."""
