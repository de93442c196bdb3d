"""The report is one whole, accessible, self-contained page for every settlement there can be."""

import dataclasses
import itertools
import json
import re
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest

import equipoise as eq
from equipoise.mediation.audit import audited
from equipoise.mediation.findings import Remark
from equipoise.mediation.settlement import CoalitionValue, Settlement
from equipoise.report import charts, fragment, render, style_sheet, write_report, write_reports
from equipoise.report.charts.style import FAINT, INK, RULE
from equipoise.report.tables import error_text
from report.conftest import renamed

pytestmark = [pytest.mark.engine, pytest.mark.group("gaussian")]

VOID = {"meta", "link", "br"}
LONG = "a-very-long-name-of-an-institute-for-clinical-studies-in-the-nort"[:63]


class Reader(HTMLParser):
    """Collects what tests ask about, and fails on tags that do not match."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str]]] = []
        self.words: list[str] = []
        self.feed(text)
        self.close()
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, {name: value or "" for name, value in attrs}))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, {name: value or "" for name, value in attrs}))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if not self.open or self.open[-1] != "style":
            self.words.append(data)

    @property
    def text(self) -> str:
        return re.sub(r"\s+", " ", " ".join(self.words))

    def all(self, tag: str) -> list[dict[str, str]]:
        return [attributes for name, attributes in self.tags if name == tag]


def check(text: str) -> Reader:
    """What holds for every page."""
    page = Reader(text)
    assert text.startswith("<!DOCTYPE html>")
    assert page.all("html")[0]["lang"] == "en"
    assert not page.all("script")
    for _, attributes in page.tags:
        for name in ("src", "href", "data", "action"):
            assert attributes.get(name, "#").startswith(("#", "data:"))
    assert "url(" not in text.replace("url(#", "")
    assert "@import" not in text
    ids = [attributes["id"] for _, attributes in page.tags if "id" in attributes]
    assert len(ids) == len(set(ids))
    used = re.findall(r'(?:url\(#|href="#)([^)"]+)', text)
    assert set(used) <= set(ids)
    levels = [int(tag[1]) for tag, _ in page.tags if re.fullmatch("h[1-6]", tag)]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after <= before + 1 for before, after in itertools.pairwise(levels))
    for svg in page.all("svg"):
        assert svg["role"] == "img"
        assert len(svg["aria-label"]) > 20
    assert not any("style" in attributes for _, attributes in page.tags)
    assert len(page.all("caption")) == len(page.all("table"))
    assert all("scope" in header for header in page.all("th"))
    assert "nan" not in re.findall(r"[a-z]+", page.text)
    return page


def digests_of(page: Reader) -> set[str]:
    """Return the whole digests that a page shows in short."""
    return {abbreviation["title"] for abbreviation in page.all("abbr")}


def editions(settlement: Settlement) -> list[Reader]:
    return [check(render(settlement, party=party)) for party in (None, *settlement.parties)]


def test_every_edition_is_a_whole_page(settled: Settlement) -> None:
    operator, *parties = editions(settled)
    for section in ("Who contributed what", "What each party gets", "How fairness was set", "What is learnt"):
        assert section in operator.text
    assert len(operator.all("svg")) == 6 + len(settled.parties) + 1
    assert settled.decisions in digests_of(operator)
    for party, page in zip(settled.parties, parties, strict=True):
        assert f"Edition for {party}" in page.text
        assert {settled.contributions[party].digest, settled.awards[party].digest} <= digests_of(page)


def test_digests_are_short_and_can_be_looked_up(settled: Settlement) -> None:
    for page in editions(settled):
        assert not re.search("[0-9a-f]{13}", page.text)
        for digest in digests_of(page):
            assert f"{digest[:12]}…" in page.text


def test_empty_sections_and_tables_are_left_out(settled: Settlement) -> None:
    remark = Remark("odd", (settled.parties[0],), "something odd")
    for remarks in ((), (remark,)):
        page = check(render(replace(settled, remarks=remarks)))
        assert ("Worth a look" in page.text) == bool(remarks)
        assert ({"href": "#remarks"} in page.all("a")) == bool(remarks)
        assert ("something odd" in page.text) == bool(remarks)
    page = check(render(replace(settled, environment={})))
    assert "Versions" not in page.text


def test_the_audit_is_told_by_sign_and_word(settled: Settlement) -> None:
    page = check(render(settled))
    for finding in settled.audit.checked:
        assert finding.promise in page.text
        assert finding.reason in page.text
    assert {one.code for one in settled.audit} - {one.code for one in settled.audit.checked} == {"F4"}
    assert "F4" not in page.text  # there is nothing to compare with
    assert "✓ holds" in page.text


def test_a_broken_promise_is_said_first(settled: Settlement) -> None:
    first = settled.parties[0]
    award = replace(settled.awards[first], kappa=0.5)
    page = check(render(audited(replace(settled, awards=settled.awards | {first: award}))))
    assert "✗ fails" in page.text.split("Who contributed what")[0]


@pytest.mark.parametrize("party", [None, "south"])
def test_a_fragment_is_what_the_report_says_without_its_frame(settled: Settlement, party: str | None) -> None:
    text, whole = fragment(settled, party=party), render(settled, party=party)
    part = Reader(text)
    assert part.tags[0] == ("div", {"class": "report"})
    assert not {"html", "head", "body", "header", "footer", "style", "script", "h1"} & {tag for tag, _ in part.tags}
    assert not any("style" in attributes for _, attributes in part.tags)  # nor would the service's pages let it count
    inside = whole[whole.index('<main class="report">') + len('<main class="report">') : whole.index("</main>")]
    assert inside == text[len('<div class="report">') : text.rindex("</div>")]
    assert style_sheet() in whole
    with pytest.raises(eq.MediationError, match="'nobody' took no part"):
        fragment(settled, party="nobody")


def test_the_style_sheet_leaves_the_rest_of_a_page_alone() -> None:
    rules = re.sub(r"/\*.*?\*/", "", style_sheet(), flags=re.DOTALL)
    selectors = [one.strip() for group in re.findall(r"([^{}]+)\{", rules) for one in group.split(",")]
    others = {one for one in selectors if not re.match(r"\.report\b", one)}
    assert all(one == ":where(:root)" or one.startswith("@media") for one in others), others


def test_charts_have_plain_attributes_that_a_page_can_recolour(settled: Settlement) -> None:
    page = Reader(render(settled))
    colours = {attributes[name] for _, attributes in page.tags for name in ("fill", "stroke") if name in attributes}
    assert {INK, FAINT, RULE, "#ffffff"} <= colours
    assert all(colour == "none" or re.fullmatch("#[0-9a-f]{6}", colour) for colour in colours)
    words = [attributes for tag, attributes in page.tags if tag == "text"]
    assert {attributes["fill"] for attributes in words} == {INK, FAINT}
    assert all({"font-size", "font-family", "text-anchor"} <= set(attributes) for attributes in words)
    assert any(attributes.get("font-weight") == "700" for attributes in words)


def test_gains_at_other_exponents_are_told_in_the_unit_of_the_target(settled: Settlement) -> None:
    page = check(render(settled))
    gained = {party: settled.errors[party]["alone"] - error for party, error in settled.errors_at(settled.rho).items()}
    assert set(gained) == set(settled.parties)
    (label,) = [svg["aria-label"] for svg in page.all("svg") if svg["aria-label"].startswith("Gain over alone")]
    for party, gain in gained.items():
        assert f"{party} {gain:.3g}" in label
        assert f"{party} {error_text(settled.agreement.model, settled.errors[party]['alone'])}" in page.text
    assert "at other fairness exponents, as the whole team’s model expects it" in page.text
    unknown = {party: replace(award, error_curve=None) for party, award in settled.awards.items()}
    before = check(render(replace(settled, awards=unknown)))
    assert len(before.all("svg")) == len(page.all("svg")) - 1
    assert "other fairness exponents" not in before.text
    assert all("exponents" not in check(render(settled, party=party)).text for party in settled.parties)


def test_rings_are_drawn_only_where_somebody_can_fall_to_what_it_has_alone(settled: Settlement) -> None:
    small = replace(settled, shapley=settled.shapley | {"west": eq.Estimate(0.5, 0.01)})
    page = check(render(small))
    assert "A ring marks" in page.text
    assert "as good as alone" in page.text
    reward = settled.agreement.reward.model_copy(update={"rule": "surplus"})
    surplus = replace(small, agreement=settled.agreement.model_copy(update={"reward": reward}))
    page = check(render(surplus))
    for words in ("A ring marks", "as good as alone", "nobody loses to", "shaded"):
        assert words not in page.text
    assert "what it knows alone, and of what it can gain" in page.text  # the glossary's target
    assert "what it knows alone, and of what it can gain" in check(render(surplus, party="south")).text


def test_names_that_look_like_markup_stay_words_in_charts() -> None:
    for name in ('a style="fill: red"', 'id="x" href="#x"', "url(#x)", "xlink:href", "<b> & ü $x^2$", "'DejaVu Sans'"):
        texts = Reader(charts.shapley_values({name: eq.Estimate(1.0, 0.1)})).text
        assert name in texts


def test_names_may_hold_characters_that_xml_forbids() -> None:
    parameter = charts.Parameter("mean", {"reward": [1.0, 2.0, 3.0, 4.0, 5.0]})
    page = Reader(charts.intervals([charts.Panel("income\x01 (k\ufffe€)", [parameter])], "north"))
    assert "income\ufffd (k\ufffd€)" in page.text


def test_equal_settlements_give_equal_bytes(settled: Settlement) -> None:
    again = dataclasses.replace(settled)
    assert render(again) == render(settled)
    assert render(replace(settled, timings={"all": 1.0}), party="north") == render(settled, party="north")


def test_threads_may_render_at_once(settled: Settlement) -> None:
    parties = [None, "north", "west"]
    with ThreadPoolExecutor(4) as pool:
        drawn = list(pool.map(lambda party: render(settled, party=party), parties))
    assert drawn == [render(settled, party=party) for party in parties]


def test_matplotlib_is_left_as_it_was(settled: Settlement) -> None:
    import matplotlib as mpl

    before = dict(mpl.rcParams)
    render(settled, party="north")
    assert dict(mpl.rcParams) == before


def test_noise_draws_a_curve_for_each_recipient(noised: Settlement) -> None:
    operator, *parties = editions(noised)
    assert "kept from the parties" in operator.text
    assert any("τ = 2.5" in svg["aria-label"] for svg in operator.all("svg"))
    assert all("seed" not in page.text.lower() for page in parties)


def test_several_teams(settled: Settlement) -> None:
    teams = (settled.parties[:2], settled.parties[2:])
    awards = {
        party: replace(award, team=next(team for team in teams if party in team))
        for party, award in settled.awards.items()
    }
    curve = tuple(replace(point, team=teams[0]) for point in settled.curve)
    split = replace(settled, teams=teams, awards=awards, curve=curve, stable_rho=None)
    operator, *_ = editions(split)
    assert "Team of north and south" in operator.text


@pytest.mark.slow
def test_sampled_coalitions_and_many_parties(settled: Settlement) -> None:
    many = grown(settled, 30)
    page = check(render(many))
    assert "Posteriors of single parties were not kept" in page.text
    assert "30 parties took part." in page.text
    check(render(many, party=many.parties[7]))


def test_a_single_party(settled: Settlement) -> None:
    only = settled.parties[0]
    award = replace(
        settled.awards[only],
        team=(only,),
        epsilons={only: settled.contributions[only].epsilon},
        target=settled.value(only),
        attained=settled.value(only),
        kappa=1.0,
        reward=None,
    )
    alone = replace(
        settled,
        contributions={only: settled.contributions[only]},
        teams=((only,),),
        coalitions=tuple(one for one in settled.coalitions if one.members == (only,)),
        shapley={only: settled.value(only)},
        shapley_covariance=((0.0,),),
        curve=(),
        awards={only: award},
    )
    operator, own = editions(alone)
    assert "nobody to learn from" in operator.text
    assert "settled alone" in own.text
    for page in (operator, own):
        assert "south and west are parties of the agreement and took no part" in page.text


def test_long_names_markup_and_missing_bounds(settled: Settlement) -> None:
    names = {party: f"{LONG}{place}" for place, party in enumerate(settled.parties)}
    title = "<script>alert(1)</script> & $x_1$"
    long = renamed(settled, names)
    agreed = long.agreement.model_copy(update={"title": title})
    remark = Remark("odd", (long.parties[0],), "<b>look</b>")
    odd = replace(long, agreement=agreed, rational_rho=None, stable_rho=None, remarks=(remark,), shapley_repair=1.5)
    for page in editions(odd):
        assert title in page.text
    assert "There is no ρ that leaves everybody as well off as alone" in check(render(odd)).text


@pytest.mark.slow
def test_values_that_are_zero_or_negative(settled: Settlement) -> None:
    zero, below = eq.Estimate(0.0, 0.0), eq.Estimate(-0.3, 0.1)
    last = settled.parties[-1]
    award = replace(settled.awards[last], alone=below, target=zero, attained=below, kappa=0.0, reward=None)
    coalitions = tuple(replace(one, value=below) if one.members == (last,) else one for one in settled.coalitions)
    poor = replace(
        settled,
        awards=settled.awards | {last: award},
        shapley=settled.shapley | {last: zero},
        coalitions=coalitions,
    )
    assert "−0.30" in check(render(poor)).text
    editions(poor)


@pytest.mark.parametrize("features", [2, pytest.param(40, marks=pytest.mark.slow)])
def test_regressions_show_effects_over_the_agreed_range(settled: Settlement, features: int) -> None:
    names = [f"x{place}" for place in range(features)]
    columns = ", ".join(f'{{ name = "{name}", bounds = [0, 10] }}' for name in names)
    parties = "".join(f'[[parties]]\nname = "{party}"\n' for party in settled.parties)
    agreed = eq.Agreement.parse(
        f'format = 1\n[model]\nkind = "linear"\nfeatures = [{columns}]\ntarget = {{ name = "y", bounds = [0, 9] }}\n'
        f"[privacy]\nmax_epsilon = 8\n{parties}"
    )
    belief = {f"weight[{name}]": [-0.2, -0.1, 0.0, 0.1, 0.3] for name in names}
    belief |= {"intercept": [1.0, 2.0, 3.0, 4.0, 5.0], "residual_sd": [1.0, 1.1, 1.2, 1.3, 1.4]}
    prior = {name: [1e4 * value for value in values] for name, values in belief.items()}
    awards = {
        party: replace(award, posteriors=dict.fromkeys(("alone", "reward", "team"), belief))
        for party, award in settled.awards.items()
    }
    operator, *_ = editions(replace(settled, agreement=agreed, prior=prior, awards=awards))
    labels = " ".join(svg["aria-label"] for svg in operator.all("svg"))
    assert "x0: 0 → 10: before any data 0 (-2e+04 to 3e+04), alone 0 (-2 to 3)" in labels
    assert ("30 more are not" in operator.text) == (features == 40)


LEVELS = ("north", "west \"<b>&'", "Überlingen am See, ländlicher Raum und Umgebung, außerhalb", "other")


def test_levels_are_told_against_the_reference(settled: Settlement) -> None:
    columns = (
        '{ name = "age", bounds = [0, 100] }, { name = "visit", bounds = [0, 900], since = "2020-01-01" }, '
        '{ name = "creatinine", bounds = [0.1, 20], transform = "log", missing = "indicator" }, '
        '{ name = "smoker", kind = "binary", labels = ["no", "yes"] }, '
        '{ name = "pain", kind = "ordinal", levels = ["none", "much"] }, '
        f'{{ name = "<region>", kind = "category", levels = {json.dumps(LEVELS)}, other = true }}'
    )
    parties = "".join(f'[[parties]]\nname = "{party}"\n' for party in settled.parties)
    agreed = eq.Agreement.parse(
        f'format = 2\n[model]\nkind = "logistic"\nfeatures = [{columns}]\n'
        f'target = {{ name = "died", labels = ["no", "y<e>s"] }}\n[privacy]\nmax_epsilon = 8\n{parties}'
    )
    belief = {name: [-0.2, 0.1, 0.75, 0.8, 1.2] for name in agreed.model.readable_names}
    awards = {
        party: replace(award, posteriors=dict.fromkeys(("alone", "reward", "team"), belief))
        for party, award in settled.awards.items()
    }
    mixed = replace(settled, agreement=agreed, prior=belief, awards=awards)
    ratio = "0.75 −0.2 to 1.2 2.12 (0.819 to 3.32)"
    for party in (None, settled.parties[0]):
        page = check(render(mixed, party=party))
        assert f"smoker: yes against no {ratio}" in page.text
        for name in ("age: 1 more", "visit: 1 day later", "log(creatinine): 1 more", "pain: 1 more of its score"):
            assert f"{name} {ratio}" in page.text
        for level in (*LEVELS[1:], "(other)"):
            assert f"<region>: {level} against north {ratio}" in page.text
        assert "creatinine: missing against 1.41" in page.text
        assert "weight[" not in page.text
        assert "log-odds of died = y<e>s" in page.text


def test_files(settled: Settlement, tmp_path: Path) -> None:
    write_reports(settled, tmp_path / "out")
    found = sorted(str(path.relative_to(tmp_path / "out")) for path in (tmp_path / "out").rglob("*.html"))
    assert found == [*sorted(f"for/{party}/report.html" for party in settled.parties), "report.html"]
    assert (tmp_path / "out/for/north/report.html").read_text(encoding="utf-8") == render(settled, party="north")
    with pytest.raises(eq.MediationError, match="'nobody' took no part; the parties are north"):
        write_report(settled, tmp_path / "x.html", party="nobody")
    (tmp_path / "file").write_text("")
    with pytest.raises(eq.MediationError, match="choose another place"):
        write_report(settled, tmp_path / "file" / "x.html")


def grown(settlement: Settlement, parties: int) -> Settlement:
    """As if that many parties had settled, by copies of the first, with a sample of coalitions."""
    names = [f"party-{place}" for place in range(parties)]
    document = settlement.agreement.model_dump(mode="json")
    document["parties"] = [{"name": name} for name in names]
    first = settlement.parties[0]
    model = settlement.awards[first]
    posteriors = {name: one for name, one in model.posteriors.items() if name != "alone"}
    award = replace(model, team=tuple(names), reward=None, posteriors=posteriors, epsilons=dict.fromkeys(names, 1.0))
    whole, single = settlement.value(*settlement.parties), settlement.value(first)
    ends = [*((name,) for name in names), *(tuple(n for n in names if n != name) for name in names), tuple(names)]
    return replace(
        settlement,
        agreement=eq.Agreement.model_validate(document),
        contributions=dict.fromkeys(names, settlement.contributions[first]),
        teams=(tuple(names),),
        exact=False,
        stable_rho=None,
        coalitions=tuple(CoalitionValue(one, single if len(one) == 1 else whole, 10, 1.0, 9.0) for one in ends),
        shapley=dict.fromkeys(names, settlement.shapley[first]),
        shapley_covariance=tuple(tuple(0.01 * (i == j) for j in range(parties)) for i in range(parties)),
        curve=tuple(replace(point, team=tuple(names)) for point in settlement.curve),
        awards={name: replace(award, party=name) for name in names},
    )


def test_a_party_is_told_what_the_mediator_cannot_know(settled: Settlement) -> None:
    """Own rows are the yardstick; a report that has not seen them says so, and how to compare at home."""
    page = render(settled, party="north")
    assert "Is it better than your own rows?" in page
    assert "equipoise party compare reward.nc TABLE -o home.html" in page
    assert "Is it better than your own rows?" not in render(settled)
