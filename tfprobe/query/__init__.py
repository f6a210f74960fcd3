"""Answer for many processes: a part of the answer for each, merged. Computes here or elsewhere."""
