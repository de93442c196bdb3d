"""`equipoise demo`: a round among three hospitals on data that ships with scikit-learn."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from equipoise.cli.options import JsonOption
from equipoise.cli.output import echo

if TYPE_CHECKING:
    from equipoise.cli.demo.rounds import DemoRound
    from equipoise.mediation.settlement import Settlement

SHOWN_ROWS = 5


def demo(
    kind: Annotated[str, typer.Argument(help="regression or classification")] = "regression",
    output: Annotated[Path, typer.Option("--output", "-o", help="New folder for the round's files.")] = Path(
        "demo-out"
    ),
    as_json: JsonOption = False,
) -> None:
    """Play a whole round: agreement, private releases of three hospitals, settlement, audit, rewards, predictions.

    Example: equipoise demo classification --output demo-out
    """
    from equipoise.cli.demo.rounds import EXAMPLES, TEST_FILE, play_round, settle_round
    from equipoise.cli.output import claim_folder, print_json
    from equipoise.cli.settlement_output import show_settlement
    from equipoise.errors import EquipoiseError

    if kind not in EXAMPLES:
        raise EquipoiseError(f"there is no demo {kind!r}; choose one of {', '.join(EXAMPLES)}")
    claim_folder(output)
    played = play_round(output, kind)
    folder = output / "settlement"
    if not as_json:
        _show_releases(played)
        echo("The mediator, who has seen only what left, settles (a minute; two when it first compiles).\n")
    settlement = settle_round(played, folder, progress=False if as_json else None)
    if as_json:
        print_json(_document(played, settlement, folder))
        return
    show_settlement(settlement)
    _show_predictions(played, settlement)
    first = played.hospitals[0]
    echo(
        f"Look inside: all that left is in {first.folder / first.name}.submission.json and its siblings.\n"
        f"Try: equipoise party advise {output}/agreement.toml --party north --rows {first.submission.count}\n"
        f"     equipoise predict {folder}/for/north/reward.nc --data {output / TEST_FILE}\n\n"
        f"Report: {folder / 'report.html'}"
    )


def _show_releases(played: "DemoRound") -> None:
    from equipoise._util.text import short
    from equipoise.cli.output import print_table
    from equipoise.guarantee import DEFAULT_DELTA

    echo(f"{played.agreement.title}\nidentity {played.agreement.identity}\n")
    print_table(
        "What left each hospital, and what its ledger says it cost",
        (
            "hospital",
            "rows",
            "sums",
            "bytes",
            f"(eps, {short(DEFAULT_DELTA)})",
            "epsilon",
            "zCDP",
            "noise on a sum",
        ),
        [
            (
                one.name,
                one.submission.count,
                len(one.submission.statistic),
                one.sent_bytes,
                f"{one.submission.stated.epsilon_at():.3g}",
                f"{one.submission.guarantee.epsilon:g}",
                f"{one.spent_zcdp:g}",
                f"±{one.sum_deviation:.3g}",
            )
            for one in played.hospitals
        ],
    )


def _show_predictions(played: "DemoRound", settlement: "Settlement") -> None:
    """What the rewards say about the first rows that nobody released."""
    from equipoise.cli.output import print_table

    features, answers = played.test_features[:SHOWN_ROWS], played.test_target[:SHOWN_ROWS].tolist()
    target = played.agreement.columns[-1].name
    rewards = {party: award.reward for party, award in settlement.awards.items() if award.reward is not None}
    columns = []
    for reward in rewards.values():
        if played.agreement.model.kind == "linear":
            expected, between = reward.predict(features, return_interval=0.9)
            columns.append([f"{m:.0f} ({a:.0f}–{b:.0f})" for m, (a, b) in zip(expected, between, strict=True)])
        else:
            shares, between = reward.predict_proba(features, return_interval=0.9)
            certain = zip(shares[:, 1], between, strict=True)
            columns.append([f"{p:.0%} ({100 * a:.0f}–{b:.0%})" for p, (a, b) in certain])
    what = target if played.agreement.model.kind == "linear" else "probability of malignant"
    print_table(
        f"Predicted {what} of patients nobody released, with 90 % intervals",
        ("patient", f"true {target}", *rewards),
        [
            (number, f"{answer:g}" if isinstance(answer, float) else answer, *row)
            for number, (answer, *row) in enumerate(zip(answers, *columns, strict=True), start=1)
        ],
    )
    rows = len(played.test_target)
    measure = "R² (1 is perfect)" if played.agreement.model.kind == "linear" else "accuracy"
    print_table(
        f"How each hospital ends up, on {rows} such patients",
        ("hospital", "loss alone", "loss with reward", f"{measure} with reward"),
        [
            (
                party,
                f"{settlement.awards[party].losses['alone'].value:.3f}",
                f"{settlement.awards[party].losses['reward'].value:.3f}",
                f"{reward.score(played.test_features, played.test_target):.3f}",
            )
            for party, reward in rewards.items()
        ],
    )


def _document(played: "DemoRound", settlement: "Settlement", folder: Path) -> dict[str, Any]:
    return {
        "agreement": played.agreement.identity,
        "hospitals": [
            {
                "name": one.name,
                "submission": str(one.folder / f"{one.name}.submission.json"),
                "rows": one.submission.count,
                "epsilon": one.submission.guarantee.epsilon,
                "zcdp": one.spent_zcdp,
                "sent_bytes": one.sent_bytes,
            }
            for one in played.hospitals
        ],
        "settlement": {**settlement.to_json(), "audit": settlement.audit.to_json()},
        "report": str(folder / "report.html"),
    }
