"""The paper's experiments, run by the product's own machinery.

What the paper does for convenience and no party may do lives here and nowhere else: bounds taken from the data, rows
filtered by what other rows say, noise from a fixed seed. `party/` cannot import this package, and nothing here makes a
release that a ledger knows of.
"""
