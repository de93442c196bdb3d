"""The paper's experiments, run by the product's own machinery.

What the paper does for convenience and no party may do lives here and nowhere else: bounds taken from the data, rows
filtered by what other rows say, noise from a fixed seed. `party/` cannot import this package, and nothing here makes a
release that a ledger knows of.
"""

from collections.abc import Mapping

from equipoise.cli.app import Command, Group

# What `equipoise` shows and runs where this distribution is installed.
COMMANDS: Mapping[str, Command | Group] = {
    "reproduce": Command(
        "equipoise_paper.command",
        "Reproduce figures and tables of the paper: numbers (CSV), pictures (PNG, SVG), and a verdict on every claim.",
    ),
}
