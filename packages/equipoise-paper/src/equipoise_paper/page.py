"""A Markdown page of all figures and tables that were reproduced into a folder."""

import csv
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from equipoise.errors import ExperimentError
from equipoise_paper.contents import DIAB, ITEMS

# Items with so few numbers that the page shows them.
TABLES = {"coverage", "thinning", "samples", "contours"}


def page(folder: Path, prefix: str = "") -> str:
    """Render everything in the folder, in the catalogue's order; `prefix` leads from the page to the folder."""
    records = [record for item in ITEMS if (record := _record(folder / f"{item.name}.json"))]
    if not records:
        raise ExperimentError(f"{str(folder)!r} holds nothing that was reproduced; run equipoise reproduce first")
    return "\n".join([_summary(records), *(_section(folder, record, prefix) for record in records)])


def _record(path: Path) -> dict[str, Any] | None:
    if not path.is_file():
        return None
    record: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return record


def _summary(records: Sequence[Mapping[str, Any]]) -> str:
    words = Counter(verdict["word"] for record in records for verdict in record["verdicts"])
    rows = [
        f"| [`{record['name']}`](#{record['name']}) | {record['shows']} | {_counted(record, 'holds')} | "
        f"{_counted(record, 'does not hold')} | {_counted(record, 'cannot tell')} | {_duration(record['seconds'])} |"
        for record in records
    ]
    lines = [
        f"Of {words.total()} claims, **{words['holds']} hold**, {words['does not hold']} do not hold, and for "
        f"{words['cannot tell']} these numbers cannot tell.",
        "",
        "| name | shows | hold | do not | cannot tell | took |",
        "|---|---|---|---|---|---|",
        *rows,
        "",
    ]
    return "\n".join(lines)


def _counted(record: Mapping[str, Any], word: str) -> str:
    return str(sum(verdict["word"] == word for verdict in record["verdicts"]) or "")


def _duration(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"


def _section(folder: Path, record: Mapping[str, Any], prefix: str) -> str:
    name = record["name"]
    lines = [f"### {name}", "", f"{record['shows']}.", ""]
    drawn = [picture for picture in record["pictures"] if picture.endswith(".png")]
    if drawn:
        lines += [
            " ".join(f"![{_words(picture, name)}]({prefix}{picture}){{ width=330 }}" for picture in drawn),
            "",
        ]
    lines += ["| claim | verdict | decided by |", "|---|---|---|"]
    lines += [f"| {verdict['claim']} | **{verdict['word']}** | {verdict['reason']} |" for verdict in record["verdicts"]]
    lines.append("")
    if name in TABLES:
        lines += [*_numbers(folder / record["numbers"]), ""]
    files = [record["numbers"], *([record["runs"]] if record["runs"] else [])]
    links = ", ".join(f"[{file}]({prefix}{file})" for file in files)
    lines += [f"`{record['command']}`, {_how(record)}. Numbers: {links}.", ""]
    return "\n".join(lines)


def _words(picture: str, name: str) -> str:
    part = picture.removesuffix(".png").removeprefix(name).strip("-")
    return f"{name}: {part}" if part else name


def _numbers(path: Path) -> list[str]:
    with path.open(encoding="utf-8", newline="") as file:
        headers, *rows = csv.reader(file)
    return [
        "| " + " | ".join(header.replace("_", " ") for header in headers) + " |",
        "|" + "---|" * len(headers),
        *("| " + " | ".join(_short(cell) for cell in row) + " |" for row in rows),
    ]


def _short(cell: str) -> str:
    try:
        return f"{float(cell):.4g}" if "." in cell else cell
    except ValueError:
        return cell


def _how(record: Mapping[str, Any]) -> str:
    parts = []
    for setting, effort in record["settings"].items():
        sampler = "Gibbs" if effort["sampler"] == "gibbs" else "our sampler"
        # Naive posteriors of linear regression are conjugate, so their draws are independent.
        if record["name"].startswith("naive") and setting != DIAB:
            parts.append(f"{setting}: {effort['runs']} runs of {effort['draws']:,} independent draws")
            continue
        chains = f" {effort['chains']} chains," if "chains" in effort else ""
        parts.append(f"{setting}: {effort['runs']} runs of {sampler},{chains} {effort['draws']:,} draws")
    return f"{'; '.join(parts)}; {_duration(record['seconds'])} on {record['machine']}"
