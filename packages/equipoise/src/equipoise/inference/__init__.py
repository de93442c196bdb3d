"""Noise-aware posteriors for any scenario.

`infer.py` is the users' entry point; `batch.py` samples batches of scenarios on plain arrays and, with everything below
it, needs only NumPy and SciPy. The paper's Gibbs sampler, which needs JAX, comes with `equipoise-paper`.
"""
