"""Noise-aware posteriors for any scenario.

`infer.py` is the way in for users; `engine.py` runs batches of scenarios on plain arrays and, with everything below it,
needs only JAX, NumPy and SciPy.
"""
