"""Noise-aware posteriors for any scenario.

`infer.py` is the way in for users; `batch.py` samples batches of scenarios on plain arrays and, with everything below
it, needs only NumPy and SciPy. `gibbs.py` and `runtime.py` need JAX, and are for reproducing the paper.
"""
