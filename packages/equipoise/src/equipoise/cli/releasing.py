"""Options of a release, shared by `party release` and `submit`: each is spelt once, here."""

from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

import typer

from equipoise.cli.options import ALLOW_CLIPPING, COHORT, with_options
from equipoise.party.options import ReleaseOptions

# By option: its type on the command line, and what it says. Defaults are those of `ReleaseOptions`.
_OPTIONS: dict[str, tuple[Any, Any]] = {
    "epsilon": (float | None, typer.Option(help="Rényi epsilon at the agreed order.")),
    "zcdp": (float | None, typer.Option(help="The guarantee as zCDP rho instead.")),
    "approx": (
        tuple[float, float] | None,
        typer.Option(help="The guarantee as (epsilon, delta) instead.", metavar="EPSILON DELTA"),
    ),
    "key": (Path | None, typer.Option(help="Signing key; by default one is kept beside the ledger.")),
    "again": (bool, typer.Option("--again", help="Spend anew although there was a release.")),
    "cap_zcdp": (float | None, typer.Option(help="For a new ledger: the most it may ever spend.")),
    "family": (str, typer.Option(help="For a new ledger: which individuals it covers.")),
    "cohort": (str, COHORT),
    "allow_clipping": (bool, ALLOW_CLIPPING),
}


def release_options(*names: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command options of a release, which it receives as a single parameter, `options`."""
    defaults = {field.name: field.default for field in fields(ReleaseOptions)}
    return with_options("options", names, _OPTIONS, defaults, lambda given: ReleaseOptions(**given))
