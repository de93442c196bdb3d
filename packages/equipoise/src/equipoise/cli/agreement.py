"""`equipoise agreement`: write an example or a draft, propose bounds, check an agreement and explain it."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer

from equipoise._util.canonical import strict_toml
from equipoise._util.text import counted, toml_string
from equipoise.agreement import Agreement
from equipoise.agreement.explanation import explain
from equipoise.agreement.schema import PARTY_NAME
from equipoise.agreement.templates import example_agreement
from equipoise.agreement.validation import OPEN
from equipoise.cli.bounds import alone_in_words, file_as_json, proposal_as_json, show_proposals
from equipoise.cli.options import (
    AgreementArgument,
    DecimalOption,
    DelimiterOption,
    DeltaOption,
    JsonOption,
    TableArgument,
)
from equipoise.cli.output import echo, print_json, print_lines, print_table
from equipoise.errors import AgreementError, VerificationError
from equipoise.models import KINDS
from equipoise.models.guarantee import DEFAULT_DELTA
from equipoise.party.bounds import BoundsRelease
from equipoise.party.csv_stream import stated_table
from equipoise.party.draft import drafted
from equipoise.party.proposal import Proposal, proposed
from equipoise.protocol.keys import fingerprint


def _kinds(incomplete: str) -> list[str]:
    """Return the kinds of models that complete what was typed."""
    return [kind for kind in KINDS if kind.startswith(incomplete)]


def new(
    kind: Annotated[
        str,
        typer.Argument(help=", ".join(KINDS), autocompletion=_kinds),
    ],
    output: Annotated[Path, typer.Option("--output", "-o", help="File to write.")] = Path("agreement.toml"),
    party: Annotated[list[str] | None, typer.Option(help="A party's name; repeat for each.")] = None,
    force: Annotated[bool, typer.Option(help="Overwrite the file if it exists.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Write a commented example agreement to edit.

    Example: equipoise agreement new linear --party north --party south
    """
    if kind not in KINDS:
        raise AgreementError(f"there is no model {kind!r}; choose one of {', '.join(KINDS)}")
    _check_parties(party or ())
    text = example_agreement(kind, tuple(party)) if party else example_agreement(kind)
    agreed = Agreement.parse(text, name="the example")
    _write(text, output, force=force)
    if as_json:
        print_json({"agreement": str(output), "kind": kind, "parties": agreed.party_names})
        return
    echo(f"Wrote {output}. Edit columns, bounds and parties, then run: equipoise agreement check {output}")


def draft(
    table: TableArgument,
    target: Annotated[str | None, typer.Option(help="The column to predict.")] = None,
    output: Annotated[Path, typer.Option("--output", "-o", help="File to write.")] = Path("agreement.toml"),
    party: Annotated[list[str] | None, typer.Option(help="A party's name; repeat for each.")] = None,
    delimiter: DelimiterOption = None,
    decimal: DecimalOption = None,
    force: Annotated[bool, typer.Option(help="Overwrite the file if it exists.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Draft an agreement from a table's column names and types, with questions for people to answer.

    No value of the table is in it. Example: equipoise agreement draft north.csv --target readmitted
    """
    _check_parties(party or ())
    text = drafted(stated_table(table, delimiter, decimal), target, tuple(party or ()))
    _write(text, output, force=force)
    questions = sum(line.count(f'"{OPEN}"') for line in text.splitlines() if not line.startswith("#"))
    if as_json:
        print_json({"agreement": str(output), "questions": questions})
        return
    echo(
        f'Wrote {output}, with {counted(questions, "question")}: replace every "{OPEN}" from common knowledge, never '
        f"from the data, then run: equipoise agreement check {output}"
    )


def bounds(
    files: Annotated[list[Path], typer.Argument(help="What `equipoise party bounds` wrote, one of each party.")],
    draft: Annotated[
        Path | None, typer.Option(help="A draft of an agreement, in which open ranges are to be filled in.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Propose bounds from what parties have bought; combining costs nothing more.

    Example: equipoise agreement bounds north.bounds.json south.bounds.json --draft agreement.toml
    """
    releases = [BoundsRelease.load(path) for path in files]
    proposals = proposed(releases)
    filled = [] if draft is None else _fill_in(draft, proposals, releases)
    if as_json:
        alone = {
            release.party: {name: proposal_as_json(proposal) for name, proposal in proposed([release]).items()}
            for release in releases
        }
        print_json(
            {
                "files": [file_as_json(release) for release in releases],
                "proposed": {name: proposal_as_json(proposal) for name, proposal in proposals.items()},
                "alone": alone,
                "filled_in": filled,
            }
        )
        return
    show_proposals(releases)
    if draft is not None:
        nothing = "nothing; no open ranges of these columns, or none that can be told"
        print_lines(f"Filled in {draft}: {', '.join(filled) or nothing}.")


def _fill_in(draft: Path, proposals: Mapping[str, Proposal], releases: Sequence[BoundsRelease]) -> list[str]:
    """Write proposed ranges that can be told into the open questions of a draft, with a comment; return the columns."""
    try:
        text = draft.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise AgreementError(f"cannot read {str(draft)!r}: {getattr(error, 'strerror', None) or error}") from error
    _check_keys(text, draft, releases)
    filled = []
    for name, proposal in proposals.items():
        column = f"name = {toml_string(name)}, "
        question = f'{column}typical = ["{OPEN}", "{OPEN}"]'
        if proposal.bounds is None or not proposal.is_told or question not in text:
            continue
        typical = (
            "" if proposal.typical is None else f"typical = [{proposal.typical[0]:.4g}, {proposal.typical[1]:.4g}], "
        )
        ranges = f"{column}{typical}bounds = [{proposal.bounds[0]!r}, {proposal.bounds[1]!r}]"
        start = text.rfind("\n", 0, text.index(question)) + 1
        indented = text[start : len(text) - len(text[start:].lstrip())]
        comment = f"{indented}# bought: {'; '.join(alone_in_words(releases, name))}\n"
        text = text[:start] + comment + text[start:].replace(question, ranges, 1)
        filled.append(name)
    _write(text, draft, force=True)
    return filled


def _check_keys(text: str, draft: Path, releases: Sequence[BoundsRelease]) -> None:
    """Refuse a file whose key differs from the one that the draft names for its party."""
    try:
        parties = strict_toml(text).get("parties", [])
    except ValueError as error:
        raise AgreementError(f"{str(draft)!r} is not TOML: {error}; correct it first") from error
    keys = {str(party.get("name")): party.get("public_key") for party in parties if isinstance(party, dict)}
    for release in releases:
        agreed = keys.get(release.party)
        if agreed is not None and agreed != release.public_key:
            raise VerificationError(
                f"the bounds of {release.party!r} are signed with the key {fingerprint(release.public_key)}, which is "
                f"not the one that {str(draft)!r} names for it; ask the party which is right"
            )


def _check_parties(parties: Sequence[str]) -> None:
    for name in parties:
        if not re.fullmatch(PARTY_NAME, name):
            raise AgreementError(
                f"{name!r} cannot be a party's name: use 1 to 64 letters, digits, dots, dashes or underscores"
            )


def _write(text: str, output: Path, *, force: bool) -> None:
    if output.exists() and not force:
        raise AgreementError(f"{str(output)!r} exists; choose another name with --output, or --force")
    try:
        output.write_text(text, encoding="utf-8")
    except OSError as error:
        raise AgreementError(f"cannot write {str(output)!r}: {error.strerror}") from error


def check(
    path: AgreementArgument,
    epsilon: Annotated[
        list[float] | None, typer.Option(help="Show the noise for this epsilon; repeat for more.")
    ] = None,
    delta: DeltaOption = DEFAULT_DELTA,
    cost: Annotated[
        bool, typer.Option("--cost", help="Also say how long settling would take on this machine; takes seconds.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Validate an agreement and explain in words what is agreed.

    Example: equipoise agreement check agreement.toml --epsilon 0.2 --cost
    """
    agreement = Agreement.load(path)
    explanation = explain(agreement, tuple(epsilon or ()), delta)
    expected = _estimate(agreement) if cost else None
    if as_json:
        document = {**asdict(explanation), "agreement": agreement.model_dump(mode="json")}
        if cost:
            document["cost"] = None if expected is None else expected.to_json()
        print_json(document)
        return
    echo(f"{agreement.title or 'Agreement'}\nidentity {explanation.identity}\n")
    for sentence in explanation.sentences:
        print_lines(sentence, bullet=True)
    echo()
    for caution in explanation.cautions:
        print_lines(f"Unwise: {caution}")
        echo()
    print_table(explanation.column_table())
    print_table(explanation.noise_table())
    if expected is not None:
        print_lines(f"Settling it: {expected.words}")


def _estimate(agreement: Agreement) -> Any:
    """Estimate the cost of settling on this machine; print a message and return None if the engine is missing.

    The module is imported by its name: a party's commands load the mediator's engine only when asked to.
    """
    try:
        return import_module("equipoise.mediation.cost").estimate_cost(agreement)
    except ModuleNotFoundError as error:
        echo(f"What settling would cost can be told only where the engine is installed ({error}).", err=True)
        return None
