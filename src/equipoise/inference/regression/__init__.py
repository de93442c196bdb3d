"""Posteriors of regressions from released moments, with NumPy alone: no chain over features, no cells, no compiling."""
