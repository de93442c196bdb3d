"""Options of a settlement, shared by the commands for files and for a service: each is spelt once, here."""

from collections.abc import Callable
from typing import Any

import typer

from equipoise.cli.options import with_options
from equipoise.errors import MediationError
from equipoise.mediation.settings import SettlementSettings

# By setting: the type an option is given as, and what it says. Defaults are those of `SettlementSettings`.
_OPTIONS: dict[str, tuple[Any, Any]] = {
    "rho": (str | None, typer.Option(help='Fairness exponent up to 1, or "max", if left to you [as agreed].')),
    "mechanism": (
        str | None,
        typer.Option(help="How rewards are made, if left to you: tempering, noise or degraded [as agreed]."),
    ),
    "teams": (
        list[str] | None,
        typer.Option("--team", help="Parties that team up, if left to you, as a,b,c; repeat for each [one team]."),
    ),
    "seed": (
        int | None,
        typer.Option(help="Another seed than follows from the submissions; the report says it was chosen."),
    ),
    "precision": (float, typer.Option(help="Standard error wanted of targets and rewards, in nats.")),
    "draws": (int, typer.Option(help="Draws of a posterior, to begin with.")),
    "coalitions": (str, typer.Option(help="Which coalitions to value: all, sampled, or auto, sampled from 8 parties.")),
    "budget": (int | None, typer.Option(help="Coalitions to value at most, where they are sampled.")),
    "partial": (bool, typer.Option("--partial", help="Settle although some of the parties have not submitted.")),
    "deviate": (
        bool,
        typer.Option(
            "--deviate", help="Settle otherwise than agreed all the same; every report shows a broken promise."
        ),
    ),
    "force": (bool, typer.Option(help="Settle even with posteriors that have not converged.")),
}


def settlement_options(*names: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command options for some settings, which it receives as a single parameter, `settings`.

    A value that cannot be used is refused before the command begins.
    """
    defaults = {name: field.default for name, field in SettlementSettings.model_fields.items()}

    def build(given: dict[str, Any]) -> SettlementSettings:
        return SettlementSettings.of(None, {name: _read(name, value) for name, value in given.items()})

    return with_options("settings", names, _OPTIONS, defaults, build)


def _read(name: str, value: Any) -> Any:
    """Parse a setting as the user wrote it; `SettlementSettings` decides if it can be used."""
    if name == "teams":
        return [names.split(",") for names in value] if value else None
    if name == "rho" and value not in (None, "max"):
        try:
            return float(value)
        except ValueError:
            raise MediationError(
                f'rho = {value!r} is not a fairness exponent; give a number up to 1, or "max"'
            ) from None
    return value
