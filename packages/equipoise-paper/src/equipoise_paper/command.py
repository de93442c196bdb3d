"""`equipoise reproduce`: the paper's figures and tables."""

from pathlib import Path
from typing import Annotated

import typer

from equipoise._util.display import Table
from equipoise._util.files import replaced_file
from equipoise.cli.interrupt import exit_on_interrupt
from equipoise.cli.options import JsonOption
from equipoise.cli.output import echo, print_json, print_table, warnings_as_lines
from equipoise.errors import ExperimentError
from equipoise_paper.contents import ITEMS, chosen
from equipoise_paper.outcome import Outcome
from equipoise_paper.page import page

PAGE = "index.md"


def reproduce(
    names: Annotated[list[str] | None, typer.Argument(help="What to reproduce, as --list names it, or all.")] = None,
    wants_list: Annotated[bool, typer.Option("--list", help="Name every figure and table, and stop.")] = False,
    full: Annotated[bool, typer.Option("--full", help="The paper's own numbers of chains, steps and runs.")] = False,
    data: Annotated[
        Path | None,
        typer.Option(
            help="Folder with the two data sets [default: EQUIPOISE_DATA, else they are downloaded].", readable=False
        ),
    ] = None,
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for numbers, pictures and verdicts.")] = Path(
        "reproduction"
    ),
    as_json: JsonOption = False,
) -> None:
    """Reproduce figures and tables of the paper: numbers (CSV), pictures (PNG, SVG), and a verdict on every claim.

    Example: equipoise reproduce tradeoff-syn naive-syn --output reproduction
    """
    if wants_list:
        if as_json:
            print_json([{"name": item.name, "shows": item.shows, "settings": list(item.data)} for item in ITEMS])
        else:
            print_table(
                Table(
                    "What can be reproduced",
                    ("name", "shows"),
                    [(item.name, item.shows) for item in ITEMS],
                    numeric_from=9,
                )
            )
        return
    if not names:
        raise ExperimentError("nothing to reproduce; name what --list shows, or all")
    items = chosen(names)
    from equipoise_paper.catalogue import Bench
    from equipoise_paper.catalogue import reproduce as run
    from equipoise_paper.effort import FULL, QUICK

    try:
        output.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ExperimentError(
            f"cannot make the folder {str(output)!r}: {error.strerror}; choose another with --output"
        ) from error
    bench = Bench(FULL if full else QUICK, output, data, lambda what: echo(f"… {what}", err=True))
    bench.look_for_data(items)
    documents = []
    # Joblib warns when it replaces a worker whose memory has grown.
    with exit_on_interrupt(), warnings_as_lines():
        for item in items:
            outcome = run(item, bench)
            documents.append(outcome.to_json())
            if not as_json:
                _show(outcome)
            with replaced_file(output / PAGE) as partial:
                partial.write_text("# What was reproduced\n\n" + page(output), encoding="utf-8")
    if as_json:
        print_json(documents)
    else:
        echo(f"Numbers, pictures and verdicts: {output / PAGE}")


def _show(outcome: Outcome) -> None:
    print_table(
        Table(
            f"{outcome.name}: {outcome.record['shows']} ({outcome.record['seconds']:.0f} s)",
            ("claim", "verdict", "decided by"),
            [(verdict.claim, verdict.word, verdict.reason) for verdict in outcome.verdicts],
            numeric_from=9,
        )
    )
