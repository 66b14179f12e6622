"""From runs of an implementation to what is wrong with it: faults, symmetries, steps, probes."""
