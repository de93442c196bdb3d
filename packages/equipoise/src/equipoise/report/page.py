"""A page: sections of sentences, charts and tables, and the templates that turn them into HTML.

All words are escaped by the templates. Only charts are taken as they are; those are made by `equipoise.report.charts`.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape

from equipoise._util.display import Table
from equipoise.report.tables import Verdict
from equipoise.report.wording import MINUS, NBSP

_NUMBER = re.compile(r"-?[\d.,]+%?( ± [\d.,]+)?")
_ONE = r"-?[\d.]+(?:e[-+]\d+)?"
_RANGE = re.compile(rf"{_ONE} to {_ONE}|{_ONE} \({_ONE} to {_ONE}\)")


@dataclass(frozen=True)
class Figure:
    """A chart and what there is to say about it."""

    svg: str
    caption: str
    title: str = ""  # where several charts are beside each other


@dataclass(frozen=True)
class Section:
    """One part of the page, under a heading and with a short name to link to."""

    key: str
    title: str
    sentences: Sequence[str] = ()
    figures: Sequence[Figure] = ()
    items: Sequence[str] = ()
    tables: Sequence[Table] = ()
    terms: Sequence[tuple[str, str]] = ()


@dataclass(frozen=True)
class Page:
    """A whole report; `sign` is what the audit comes to: "holds", "fails" or "cannot tell".

    `alarms` are shown first, in red: where the agreement was left.
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
    """The page as HTML that loads nothing."""
    return _templates().get_template("page.html").render(page=page)


def rendered_fragment(page: Page) -> str:
    """What is inside the page, without title and footer, to stand in another one that has the `style_sheet`."""
    return _templates().get_template("fragment.html").render(page=page)


def style_sheet() -> str:
    """CSS for a page with a fragment; its colours are variables, which the page may set to its own."""
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
    return environment


def _shown(cell: object) -> str:
    """A cell as a report writes it: numbers with a true minus sign, but for exponents."""
    text = str(cell)
    if _RANGE.fullmatch(text):
        return re.sub(r"(?<!e)-", MINUS, text)
    return text.replace("-", MINUS, 1).replace(" ", NBSP) if _NUMBER.fullmatch(text) else text
