"""Pages of a report: sections of sentences, charts and tables, and the templates that turn them into HTML.

The templates escape all words. Only charts, which `equipoise.report.charts` makes, are inserted as they are. SHA-256
digests are shortened wherever they stand, with the whole one in a `title` attribute.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape
from markupsafe import Markup

from equipoise._util.display import Table
from equipoise.report.tables import Verdict
from equipoise.report.wording import MINUS, NBSP

_DIGEST = re.compile(r"(?<![0-9A-Za-z])([0-9a-f]{64})(?![0-9A-Za-z])")
# Digits of a digest that are shown, of 64.
_SHORT = 12
_NUMBER = re.compile(r"-?[\d.,]+%?( ± [\d.,]+)?")
_VALUE = r"-?[\d.]+(?:e[-+]\d+)?"
_RANGE = re.compile(rf"{_VALUE} to {_VALUE}|{_VALUE} \({_VALUE} to {_VALUE}\)")


@dataclass(frozen=True)
class Figure:
    """A chart with its caption; the title tells several charts beside each other apart."""

    svg: str
    caption: str
    title: str = ""


@dataclass(frozen=True)
class Section:
    """One part of the page, under a heading and with a short name to link to.

    The sentences introduce the rest. Without any figure, item, row of a table or term, the section is empty.
    """

    key: str
    title: str
    sentences: Sequence[str] = ()
    figures: Sequence[Figure] = ()
    items: Sequence[str] = ()
    tables: Sequence[Table] = ()
    terms: Sequence[tuple[str, str]] = ()

    @property
    def is_empty(self) -> bool:
        """True if there is nothing that the sentences could introduce."""
        return not (self.figures or self.items or self.terms or any(table.rows for table in self.tables))


@dataclass(frozen=True)
class Page:
    """A whole report, which shows all sections that are not empty.

    `sign` is the audit's overall verdict: "holds", "fails" or "cannot tell". `alarms` tell in which points the
    agreement was not kept; they come first, in red.
    """

    title: str
    edition: str
    summary: Sequence[str]
    sign: Verdict
    conclusion: str
    sections: Sequence[Section]
    footer: str
    alarms: Sequence[str] = ()


def rendered(page: Page) -> str:
    """Render the page as HTML that loads nothing."""
    return _templates().get_template("page.html").render(page=page)


def rendered_fragment(page: Page) -> str:
    """Render the page's content, without title and footer, for another page that has the `style_sheet`."""
    return _templates().get_template("fragment.html").render(page=page)


def style_sheet() -> str:
    """Return the CSS for a page with a fragment; its colours are variables, which the page may set to its own."""
    return _templates().get_template("report.css").render()


@cache
def _templates() -> Environment:
    environment = Environment(
        loader=PackageLoader("equipoise.report"),
        autoescape=select_autoescape(default=True),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.tests["verdict"] = lambda cell: isinstance(cell, Verdict)
    environment.filters["cell"] = _shown
    environment.filters["short_digests"] = _short_digests
    return environment


def _shown(cell: object) -> str:
    """Format a cell: numbers with a true minus sign, but for exponents."""
    text = str(cell)
    if _RANGE.fullmatch(text):
        return re.sub(r"(?<!e)-", MINUS, text)
    return text.replace("-", MINUS, 1).replace(" ", NBSP) if _NUMBER.fullmatch(text) else text


def _short_digests(text: str) -> Markup:
    """Escape a text, and show the first digits of each SHA-256 digest in it, with the whole digest as title."""
    parts = _DIGEST.split(text)
    # The split has words at even positions and digests at odd ones.
    return Markup().join(
        Markup('<abbr title="{}">{}…</abbr>').format(part, part[:_SHORT]) if index % 2 else part
        for index, part in enumerate(parts)
    )
