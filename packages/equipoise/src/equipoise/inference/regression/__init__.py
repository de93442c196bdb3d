"""Posteriors of regressions from released moments: no chain over features, no cells of levels."""
