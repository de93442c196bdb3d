"""`equipoise party combine` and `compare`: a reward and own rows together, on the party's own machine."""

from pathlib import Path
from typing import Annotated, Any

import typer

from equipoise._util.files import exists
from equipoise._util.text import counted
from equipoise.cli.interrupt import exit_on_interrupt
from equipoise.cli.options import DecimalOption, DelimiterOption, JsonOption, TableArgument
from equipoise.cli.output import claim_output, echo, print_alarm, print_json, print_lines, print_table
from equipoise.client.home import compare as comparing
from equipoise.client.home.model import DRAWS, FEWEST_EFFECTIVE, NOTICE, HomeModel, combined, evidence_of
from equipoise.client.home.released import read_own_rows
from equipoise.errors import MediationError
from equipoise.estimate import Estimate
from equipoise.party.csv_stream import stated_table
from equipoise.reward.model import Reward

RewardArgument = Annotated[
    Path, typer.Argument(help="The reward, a .nc file as the mediator sent it.", metavar="REWARD", readable=False)
]
AllowClippingOption = Annotated[
    bool,
    typer.Option("--allow-clipping", help="Go on although much of a column lies outside the agreed bounds."),
]
OtherRowsOption = Annotated[
    bool,
    typer.Option("--other-rows", help="Go on although this is not the table that was released, such as a longer one."),
]
SeedOption = Annotated[int, typer.Option(help="The same seed gives the same draws.", min=0)]


def combine(
    path: RewardArgument,
    table: TableArgument,
    output: Annotated[Path, typer.Option("--output", "-o", help="File for the model; it stays at home.")],
    draws: Annotated[int, typer.Option(help="Draws to make.", min=400)] = DRAWS,
    seed: SeedOption = 0,
    delimiter: DelimiterOption = None,
    decimal: DecimalOption = None,
    force: Annotated[bool, typer.Option("--force", help="Write it although its chains have not converged.")] = False,
    allow_clipping: AllowClippingOption = False,
    other_rows: OtherRowsOption = False,
    as_json: JsonOption = False,
) -> None:
    """Combine your reward with your own rows, at home: the model you should predict with. It must not leave the house.

    Own rows count without noise and without cost, at the agreed bounds where they lie beyond them; the rest is the
    others' evidence, as your reward carries it. `equipoise predict` takes the model in place of the reward.

    Example: equipoise party combine reward.nc north.csv -o model.nc
    """
    claim_output(output, MediationError)
    reward = _load(path)
    evidence = evidence_of(reward)
    source = stated_table(table, delimiter, decimal)
    own = read_own_rows(reward, source, allow_clipping=allow_clipping, other_rows=other_rows)
    with exit_on_interrupt():
        model = combined(reward, evidence, own, draws=draws, seed=seed, force=force)
    model.save(output)
    remarks = [*own.remarks, *model.remarks]
    if as_json:
        print_json(_document(model) | {"output": str(output), "remarks": remarks})
        return
    for remark in remarks:
        print_lines(f"Warning: {remark}", err=True)
    echo(f"Wrote {output}: {model.described}.")
    if model.misfit is not None:
        echo(f"The others' evidence by {counted(model.parts, 'normal distribution')}; left out: {model.misfit} nats.")
    if model.effective is not None:
        echo(f"Effective number of the others' draws under your own rows: {model.effective:,.0f}.")
    if (beside := model.beside_own_rows()) is not None:
        echo(f"Since that is below {FEWEST_EFFECTIVE}, look at your own rows alone beside the model:")
        print_table(beside)
    print_alarm(NOTICE)


def compare(
    path: RewardArgument,
    table: TableArgument,
    alone: Annotated[
        Path | None,
        typer.Option(help="The model of your release alone: the reward of a round that you settle by yourself."),
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Also write it as a page, one HTML file; it stays at home.")
    ] = None,
    folds: Annotated[int, typer.Option(help="Into how many parts rows are dealt.")] = comparing.FOLDS,
    seed: SeedOption = 0,
    delimiter: DelimiterOption = None,
    decimal: DecimalOption = None,
    allow_clipping: AllowClippingOption = False,
    other_rows: OtherRowsOption = False,
    as_json: JsonOption = False,
) -> None:
    """Compare your own rows, your reward and both, by how well they predict held-out rows of yours; nothing is sent.

    Example: equipoise party compare reward.nc north.csv
    """
    if output is not None:
        claim_output(output, MediationError)
    with exit_on_interrupt():
        comparison = comparing.compare(
            _load(path),
            stated_table(table, delimiter, decimal),
            alone=None if alone is None else _load(alone),
            folds=folds,
            seed=seed,
            allow_clipping=allow_clipping,
            other_rows=other_rows,
        )
    if output is not None:
        # Imported here because it loads Matplotlib.
        from equipoise.report.home import write_comparison

        write_comparison(
            output, comparison.party, comparison.losses, comparison.summary(), comparison.verdict, comparison.best
        )
    if not as_json:
        print_table(comparison.summary())
        if output is not None:
            echo(f"The page is {output}. Open it in a browser, or print it; it stays with you.")
        return
    print_json(
        {
            "party": comparison.party,
            "rows": comparison.rows,
            "folds": comparison.folds,
            "losses": {name: _numbers(estimate) for name, estimate in comparison.losses.items()},
            "better_than_own_rows": {name: _numbers(estimate) for name, estimate in comparison.gains.items()},
            "best": comparison.best,
            "P4'": comparison.verdict,
            "remarks": list(comparison.remarks),
            "output": None if output is None else str(output),
        }
    )


def _load(path: Path) -> Reward:
    if not exists(path):
        raise MediationError(f"there is no file {str(path)!r}; get your reward with `equipoise fetch`, or ask for it")
    return Reward.load(path)


def _document(model: HomeModel) -> dict[str, Any]:
    return {
        "party": model.party,
        "agreement": model.agreement.identity,
        "rows": model.rows,
        "value": _numbers(model.value),
        "converged": model.posterior.converged,
        "evidence": {
            "parts": model.parts,
            "misfit": None if model.misfit is None else _numbers(model.misfit),
            "heterogeneity": model.heterogeneity,
            "fits": model.fits,
            "effective": model.effective,
        },
        "own_rows": None if model.own is None else {"quantiles": model.own, "shift": model.shift},
        "notice": NOTICE,
    }


def _numbers(estimate: Estimate) -> dict[str, float]:
    return {"value": estimate.value, "error": estimate.error}
