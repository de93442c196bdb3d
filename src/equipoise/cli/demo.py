"""`equipoise demo`: a round among three hospitals on data that ships with scikit-learn."""

from pathlib import Path
from typing import Annotated

import typer

from equipoise.cli.options import JsonOption


def demo(
    output: Annotated[Path, typer.Option("--output", "-o", help="New folder for the round's files.")] = Path(
        "demo-out"
    ),
    as_json: JsonOption = False,
) -> None:
    """Play a whole round: one agreement, three hospitals, three private releases, a settlement and its audit.

    Example: equipoise demo --output demo-out
    """
    from equipoise.cli.output import print_json, print_table
    from equipoise.cli.settlement_output import show_settlement
    from equipoise.demo import play_round, settle_round
    from equipoise.errors import EquipoiseError
    from equipoise.guarantee import DEFAULT_DELTA
    from equipoise.words import short

    try:
        output.mkdir(parents=True)
    except FileExistsError as error:
        raise EquipoiseError(f"{str(output)!r} exists; remove it or choose another folder with --output") from error
    except OSError as error:
        raise EquipoiseError(f"cannot make the folder {str(output)!r}: {error.strerror}; choose another") from error
    agreement, hospitals = play_round(output)
    if as_json:
        settlement = settle_round(agreement, hospitals, output / "settlement")
        print_json(
            {
                "agreement": agreement.identity,
                "hospitals": [
                    {
                        "name": h.name,
                        "submission": str(h.folder / f"{h.name}.submission.json"),
                        "rows": h.submission.count,
                        "epsilon": h.submission.guarantee.epsilon,
                        "zcdp": h.spent_zcdp,
                        "sent_bytes": h.sent_bytes,
                    }
                    for h in hospitals
                ],
                "settlement": {**settlement.to_json(), "audit": settlement.audit.to_json()},
            }
        )
        return
    typer.echo(f"{agreement.title}\nidentity {agreement.identity}\n")
    print_table(
        "What left each machine",
        (
            "hospital",
            "rows",
            "perturbed sums",
            "bytes",
            f"epsilon (order {agreement.privacy.order:g})",
            f"(eps, {short(DEFAULT_DELTA)})-DP",
            "noise on a sum",
        ),
        [
            (
                h.name,
                h.submission.count,
                len(h.submission.statistic),
                h.sent_bytes,
                f"{h.submission.guarantee.epsilon:g}",
                f"{h.submission.stated.epsilon_at():.3g}",
                f"{h.sum_deviation:.3g}",
            )
            for h in hospitals
        ],
    )
    print_table(
        "What one sum tells: mean progression (0 to 400)",
        ("hospital", "true mean (stays home)", "as the mediator reads it", "noise (standard deviation)"),
        [(h.name, f"{h.true_mean:.1f}", f"{h.released_mean:.1f}", f"±{h.released_deviation:.1f}") for h in hospitals],
    )
    print_table(
        "Ledgers",
        ("hospital", "file", "zCDP spent"),
        [(h.name, str(h.folder / f"{h.name}.ledger"), f"{h.spent_zcdp:g}") for h in hospitals],
        numeric_from=2,
    )
    typer.echo("The mediator, who has seen only what left, settles (about a minute; longer when it first compiles).\n")
    show_settlement(settle_round(agreement, hospitals, output / "settlement"))
    first = hospitals[0]
    typer.echo(
        f"Rewards are in {output / 'settlement' / 'rewards'}, one for each hospital.\n"
        f"Look inside: every byte that left is in {first.folder / first.name}.submission.json and its siblings.\n"
        f"Try: equipoise agreement check {output}/agreement.toml\n"
        f"     equipoise party ledger {first.folder / first.name}.ledger"
    )
