"""Names and contents of the paper's figures and tables, in a module that imports nothing expensive."""

from collections.abc import Sequence
from typing import NamedTuple

from equipoise.errors import ExperimentError

SYN, CALIH, DIAB = SETTINGS = ("Syn", "CaliH", "Diab")


class Item(NamedTuple):
    """A figure or table, or a few that are computed together; `data` names the settings that it needs."""

    name: str
    shows: str
    data: tuple[str, ...]


ITEMS = (
    Item("tradeoff-syn", "Figs. 2a and 3a, and Shapley values (a): ε against value, reward and MNLP", (SYN,)),
    Item("tradeoff-calih", "Figs. 2b and 3b, and Shapley values (b)", (CALIH,)),
    Item("tradeoff-diab", "Figs. 2c and 3c, and Shapley values (c)", (DIAB,)),
    Item("naive-syn", "Without noise-aware inference (a)", (SYN,)),
    Item("naive-calih", "Without noise-aware inference (b)", (CALIH,)),
    Item("naive-diab", "Without noise-aware inference (c)", (DIAB,)),
    Item("larger-a", "Larger improvement (a): Syn, the others' ε is 2", (SYN,)),
    Item("larger-b", "Larger improvement (b): Syn, half the rows", (SYN,)),
    Item("larger-c", "Larger improvement (c): Diab, party 1, the others' ε is 2, half the rows", (DIAB,)),
    Item("lambda10-syn", "λ = 10 (a, d)", (SYN,)),
    Item("lambda10-calih", "λ = 10 (b, e)", (CALIH,)),
    Item("lambda10-diab", "λ = 10 (c, f)", (DIAB,)),
    Item("control-syn", "Figs. 2e, 2f and 3d: tempering against added noise", (SYN,)),
    Item("control-calih", "Fig. 3e and reward control of CaliH (a-c)", (CALIH,)),
    Item("control-diab", "Fig. 3f and reward control of Diab (a-c)", (DIAB,)),
    Item("problematic-noise", "Fig. 2d and the problematic noise realisation (a-c)", (SYN,)),
    Item("contours", "Contours of prior, posterior and two rewards", (SYN,)),
    Item("coverage", "Table: coverage of the input space", SETTINGS),
    Item("thinning", "Table: thinning against surprise", (CALIH,)),
    Item("samples", "Table: number of samples against surprise", (DIAB,)),
)


def chosen(names: Sequence[str]) -> list[Item]:
    """Return items by name, in the order above; "all" selects all of them."""
    known = [item.name for item in ITEMS]
    if strange := [name for name in names if name not in known and name != "all"]:
        raise ExperimentError(f"there is no {strange[0]!r} in the paper; choose among {', '.join(known)}, or write all")
    return [item for item in ITEMS if item.name in names or "all" in names]
