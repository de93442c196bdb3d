"""`equipoise predict`: use a reward."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from equipoise.cli.options import JsonOption

if TYPE_CHECKING:
    from equipoise.reward.model import Reward


def predict(
    path: Annotated[Path, typer.Argument(help="The reward, a .nc file.", metavar="REWARD", readable=False)],
    data: Annotated[
        Path | None,
        typer.Option(help="CSV, Parquet or Arrow file with a column for each feature.", readable=False),
    ] = None,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="CSV file to write [standard output].")] = None,
    interval: Annotated[float, typer.Option(help="Probability that intervals are to hold.")] = 0.9,
    party: Annotated[str | None, typer.Option(help="Your name; a reward of somebody else is refused.")] = None,
    draws: Annotated[
        Path | None, typer.Option(help="Also write every draw of the parameters to this CSV file.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Predict the target of new rows, with intervals; what is known of the target is compared with it.

    Predictions go to standard output as CSV, what was found out about the reward to standard error. A model without
    features needs no data.

    Example: equipoise predict out/for/north/reward.nc --data patients.csv --output predictions.csv
    """
    from equipoise._util.files import is_there
    from equipoise.cli.output import claim_output
    from equipoise.errors import MediationError

    if not 0 < interval < 1:
        raise MediationError(f"--interval {interval:g} is not between 0 and 1; give 0.9 for 90 %")
    if not is_there(path):
        raise MediationError(f"there is no file {str(path)!r}; rewards are in the folder `rewards` of a settlement")
    from equipoise.cli import prediction_output  # loads the mediator's libraries, which takes a moment

    for target in (output, draws):
        if target is not None:
            claim_output(target, MediationError)
    reward = _load(path, party)
    found = prediction_output.Found(reward, interval)
    features = len(reward.feature_names_in_) > 0
    if features and data is None:
        names = ", ".join(reward.feature_names_in_)
        raise MediationError(f"this {reward.agreement.model.kind} model predicts from {names}; give a file with --data")
    if data is not None:
        found = prediction_output.read_and_compare(found, data)
    if features:
        found = prediction_output.predicted(found)
    if draws is not None:
        prediction_output.write_draws(reward, draws)
    prediction_output.show(found, output, as_json=as_json)


def _load(path: Path, party: str | None) -> "Reward":
    from equipoise.errors import MediationError
    from equipoise.reward.model import Reward

    reward = Reward.load(path)
    if party is not None and party != reward.party:
        raise MediationError(
            f"{str(path)!r} is the reward of {reward.party!r}, not of {party!r}; ask the mediator for {party}.nc, and "
            f"give this file to {reward.party}"
        )
    return reward
