"""The paper's experiments, run by the library's own functions.

Only this package does what the paper does for convenience and no party may do: take bounds from the data, filter rows
by other rows, and draw noise from a fixed seed. `party/` cannot import this package, and nothing here makes a release
that a ledger records.
"""

from collections.abc import Mapping

from equipoise.cli.app import Command, Group

# The commands that `equipoise` lists and runs if this distribution is installed.
COMMANDS: Mapping[str, Command | Group] = {
    "reproduce": Command(
        "equipoise_paper.command",
        "Reproduce figures and tables of the paper: numbers (CSV), pictures (PNG, SVG), and a verdict on every claim.",
    ),
}
