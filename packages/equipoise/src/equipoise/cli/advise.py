"""`equipoise party advise`: what ε buys, before anything is released."""

from pathlib import Path
from typing import Annotated

import typer

from equipoise._util.display import Table
from equipoise._util.files import is_writable_folder
from equipoise._util.text import counted, short
from equipoise.agreement import Agreement
from equipoise.cli.interrupt import exit_on_interrupt
from equipoise.cli.options import AgreementArgument, DeltaOption, JsonOption, PartyOption
from equipoise.cli.output import echo, print_json, print_lines, print_table
from equipoise.errors import AgreementError
from equipoise.mediation.advice import SIMULATIONS, Advice, half_of
from equipoise.mediation.advice import advise as imagine
from equipoise.models.guarantee import DEFAULT_DELTA, guess_percent
from equipoise.report.charts import PrivacyChoices, Quantity, save_privacy_choices

PICTURES = (".png", ".svg", ".pdf")


def advise(
    agreement: AgreementArgument,
    party: PartyOption,
    rows: Annotated[int, typer.Option(help="How many rows your table has.")],
    epsilon: Annotated[
        list[float] | None, typer.Option(help="An epsilon to look at; repeat for more [seven, up to the agreed].")
    ] = None,
    other: Annotated[
        list[str] | None,
        typer.Option(
            help="What you assume of another party; repeat for more [as many rows as you, the largest epsilon].",
            metavar="NAME=ROWS,EPSILON",
        ),
    ] = None,
    delta: DeltaOption = DEFAULT_DELTA,
    simulations: Annotated[int, typer.Option(help="How many rounds to imagine.")] = SIMULATIONS,
    seed: Annotated[int, typer.Option(help="The same seed gives the same advice.")] = 0,
    picture: Annotated[
        Path | None, typer.Option(help=f"Also draw it, into a file that ends in {', '.join(PICTURES)}.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Say what each epsilon would buy you, before you release anything.

    Rounds are imagined from the agreement and row counts alone. No row of yours is read, so choosing epsilon by this
    advice reveals nothing about them.

    Example: equipoise party advise agreement.toml --party north --rows 500 --other south=2000,0.5
    """
    agreed = Agreement.load(agreement)
    if picture is not None:
        if picture.suffix.lower() not in PICTURES:
            raise AgreementError(f"{str(picture)!r} must end in one of {', '.join(PICTURES)}")
        if not is_writable_folder(picture.absolute().parent):
            raise AgreementError(f"cannot write into {str(picture.absolute().parent)!r}; choose another place")
    others = dict(_assumption(text) for text in other or ())
    with exit_on_interrupt():
        advice = imagine(
            agreed,
            party=party,
            rows=rows,
            epsilons=epsilon,
            others=others,
            delta=delta,
            simulations=simulations,
            seed=seed,
            progress=False if as_json else None,
        )
    if picture is not None:
        _draw(advice, picture)
    if as_json:
        print_json({**advice.to_json(), "picture": None if picture is None else str(picture)})
        return
    show(advice)
    if picture is not None:
        echo(f"The picture is {picture}.")


def _assumption(text: str) -> tuple[str, tuple[int, float]]:
    name, _, numbers = text.partition("=")
    count, _, epsilon = numbers.partition(",")
    try:
        return name, (int(count), float(epsilon))
    except ValueError:
        raise AgreementError(f"--other {text!r} is not of the form NAME=ROWS,EPSILON, as in south=2000,0.5") from None


def _draw(advice: Advice, path: Path) -> None:
    lines = advice.choices
    values = {"my reward": "reward", "my release alone": "alone", "my Shapley value": "shapley", "all together": "team"}
    nothing = [0.0] * len(lines)
    chosen = PrivacyChoices(
        [line.epsilon for line in lines],
        [
            Quantity(name, [getattr(line, what).value for line in lines], [getattr(line, what).error for line in lines])
            for name, what in values.items()
        ],
        [
            Quantity("my reward", [100 * line.quality_reward for line in lines], nothing),
            Quantity("my release alone", [100 * line.quality_alone for line in lines], nothing),
            Quantity("my own rows", [100 * line.quality_own_rows for line in lines], nothing),
            Quantity("reward + own rows", [100 * line.quality_at_home for line in lines], nothing),
        ],
        advice.knee,
    )
    save_privacy_choices(path, chosen)


def show(advice: Advice) -> None:
    """Print the choices as tables, privacy and predictions first, followed by conclusions in words."""
    numbers = advice.width_prior is not None
    intervals = (
        f" ±{advice.target} is half the width, in its unit, of the interval that should hold 90 % of new rows; "
        f"±{half_of(advice.width_prior)} knows nothing, ±{half_of(advice.width_truth)} the truth."
    )
    print_table(
        Table(
            f"What epsilon is expected to buy {advice.party} with {counted(advice.rows, 'row')}: predictions alone → "
            f"with the reward.{intervals if numbers else ''} Quality: 0 % knows nothing, 100 % knows the truth. The "
            "guess about one of your rows, by whoever knows all others, is right so often at most; a coin's 50 %.",
            (
                f"(eps, {short(advice.delta)})",
                "guess",
                *((f"±{advice.target}",) if numbers else ()),
                "quality",
                "epsilon",
            ),
            [
                (
                    f"{line.epsilon_delta:.3g}",
                    guess_percent(line.zcdp),
                    *((f"{half_of(line.width_alone)} → {half_of(line.width_reward)}",) if numbers else ()),
                    f"{line.quality_alone:.0%} → {line.quality_reward:.0%}",
                    f"{line.epsilon:.3g}",
                )
                for line in advice.choices
            ],
            numeric_from=0,
        )
    )
    print_table(
        Table(
            "The same in nats: what the release is worth alone, what it brings to all together, what comes back as "
            "reward, what all together are worth",
            ("epsilon", "alone", "brings", "reward", "together"),
            [
                (
                    f"{line.epsilon:.3g}",
                    *(f"{estimate.value:.2f}" for estimate in (line.alone, line.shapley, line.reward, line.team)),
                )
                for line in advice.choices
            ],
            numeric_from=0,
        )
    )
    print_table(
        Table(
            "The yardstick is your own rows, as you have them at home: quality with them, with your release alone, "
            "with your reward, with reward and own rows (equipoise party combine), and by how many nats a new row is "
            "then predicted better than with own rows",
            ("epsilon", "own rows", "release", "reward", "reward + own", "gain"),
            [
                (
                    f"{line.epsilon:.3g}",
                    f"{line.quality_own_rows:.1%}",
                    f"{line.quality_alone:.1%}",
                    f"{line.quality_reward:.1%}",
                    f"{line.quality_at_home:.1%}",
                    f"{line.gain_at_home.value:+.3f} ± {line.gain_at_home.error:.3f}",
                )
                for line in advice.choices
            ],
            numeric_from=0,
        )
    )
    for sentence in _sentences(advice):
        print_lines(sentence, bullet=True)


def _sentences(advice: Advice) -> list[str]:
    """Describe the knee, the effect of stronger and weaker privacy, and the assumptions."""
    lines = advice.choices
    sentences = [advice.verdict, *advice.remedies]
    # Two points have no knee.
    if len(lines) > 2 and advice.knee is None:
        sentences.append("there is no knee: every step to weaker privacy buys about as much as the one before, or more")
    if advice.knee is not None:
        sentences.append(
            f"the knee is at ({lines[advice.knee].epsilon_delta:.3g}, {short(advice.delta)})-DP, epsilon "
            f"{lines[advice.knee].epsilon:.3g}: weaker privacy buys less and less from there on"
        )
    centre = len(lines) // 2 if advice.knee is None else advice.knee
    for step, word in ((-1, "stronger"), (1, "weaker")):
        if 0 <= centre + step < len(lines):
            here, there = lines[centre], lines[centre + step]
            ratio = max(here.epsilon, there.epsilon) / min(here.epsilon, there.epsilon)
            change = there.reward.value - here.reward.value
            points = 100 * (there.quality_reward - here.quality_reward)
            wider = ""
            if here.width_reward is not None:
                now, then = half_of(here.width_reward), half_of(there.width_reward)
                wider = f"what it says of {advice.target} from ±{now} to ±{then}, "
            sentences.append(
                f"from ({here.epsilon_delta:.3g}, {short(advice.delta)})-DP, {ratio:.2g} times {word} privacy (epsilon "
                f"{there.epsilon:.3g}) changes the reward's quality by {points:+.0f} points, {wider}that is by "
                f"{change:+.2f} nats"
            )
    if advice.others:
        assumed = "; ".join(f"{name} {other.rows:,} rows at {other.epsilon:g}" for name, other in advice.others.items())
        sentences.append(f"assumed of the others (change with --other): {assumed}")
    worst = max(estimate.error for line in lines for estimate in (line.alone, line.shapley, line.reward, line.team))
    sentences.append(
        f"{advice.simulations} rounds imagined from the agreement's prior; none of your rows was read. Standard "
        f"errors are up to {worst:.2f} nats; what your own data are worth differs more, the less they are like what "
        "the prior expects"
    )
    return sentences
