"""Tables and charts that show themselves."""

from xml.etree import ElementTree

import pytest

from equipoise._util.display import Chart, Interval, Table, _ticks
from equipoise._util.text import cells_on_screen

CHART = Chart("nats", [("north", [Interval("reward", 1.0, 2.0, 3.0)]), ("<south>", [Interval("alone", -0.5, 0, 0.5)])])
TABLE = Table("Title & more", ("party", "value"), [("north", "2.0"), ("<b>", "10.0")], CHART, ["a note"])


def test_a_table_as_text() -> None:
    lines = repr(TABLE).splitlines()
    assert lines == ["Title & more", "party  value", "─────  ─────", "north    2.0", "<b>     10.0", "a note"]


def test_wide_letters_and_emoji_do_not_shift_columns() -> None:
    table = Table("", ("column", "rows"), [("😀 mood", "2"), ("年齢", "10"), ("cafe\u0301", "3"), ("👩‍🔬", "7")])
    lines = repr(table).splitlines()[1:]
    assert [cells_on_screen(line) for line in lines if not line.startswith("👩")] == [13] * 5
    assert lines[2] == "😀 mood     2"


def test_a_table_as_html_is_well_formed_and_escaped() -> None:
    html = TABLE._repr_html_()
    root = ElementTree.fromstring(html.replace("&#160;", " "))
    assert [cell.text for cell in root.iter("td")] == ["north", "2.0", "<b>", "10.0"]
    assert "<b>10" not in html
    assert sum(1 for _ in root.iter("{http://www.w3.org/2000/svg}circle")) == 2


def test_a_chart_of_nothing_or_of_one_number() -> None:
    assert Chart("nats", []).svg() == ""
    one = Chart("nats", [("x", [Interval("a", 0.0, 0.0, 0.0)])]).svg()
    ElementTree.fromstring(one.replace("&#160;", " "))
    assert "nan" not in one


@pytest.mark.parametrize(("low", "high"), [(0.0, 1.0), (-3e-5, 2e-5), (7.1, 8.9), (1e6, 3e6), (-0.4, 0.4)])
def test_ticks_are_few_round_and_within(low: float, high: float) -> None:
    ticks = _ticks(low, high)
    assert 2 <= len(ticks) <= 7
    assert all(low <= tick <= high for tick in ticks)
    assert all(len(f"{tick:g}") <= 7 for tick in ticks)
