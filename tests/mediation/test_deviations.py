"""What the agreement fixes is kept, or everything says loudly that it was not."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import equipoise as eq
import rounds
from equipoise.errors import MediationError
from equipoise.mediation.audit import audit
from equipoise.mediation.task import task_of
from equipoise.report import render
from mediation.conftest import QUICK
from tiers import needs_engine

WORDS = "rho = 0.05 was used where the agreement says 0.5"


@pytest.fixture(scope="module")
def strict() -> eq.Agreement:
    """It leaves nothing to the operator."""
    return rounds.agreement("linear", reward="rho = 0.5")


@pytest.fixture(scope="module")
def sent_strictly(strict: eq.Agreement, tmp_path_factory: pytest.TempPathFactory) -> list[eq.Submission]:
    return rounds.submissions(strict, tmp_path_factory.mktemp("ledgers"), (8.0, 2.0, 0.5))


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("deviating")


@pytest.fixture(scope="module")
@needs_engine("rounds")
def deviating(strict: eq.Agreement, sent_strictly: list[eq.Submission], place: Path) -> eq.Settlement:
    """Settled with another exponent than agreed, and saved."""
    return eq.mediate(strict, sent_strictly, rho=0.05, deviate=True, folder=place, **QUICK)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"rho": 0.05}, f'{WORDS}.*Leave rho out.*operator_may_choose = \\["rho"\\].*--deviate'),
        ({"rho": "max"}, 'rho = "max" was used where the agreement says 0.5'),
        ({"mechanism": "noise"}, 'mechanism = "noise" was used where the agreement says "tempering"'),
        ({"teams": [["north", "west"], ["south"]]}, r"2 teams were made, \{north, west\}, \{south\}, where"),
    ],
)
def test_what_is_agreed_cannot_be_changed_silently(
    strict: eq.Agreement, sent_strictly: list[eq.Submission], options: dict[str, Any], words: str, tmp_path: Path
) -> None:
    with pytest.raises(MediationError, match=words):
        eq.mediate(strict, sent_strictly, folder=tmp_path / "out", **options)
    assert not (tmp_path / "out").exists()
    (name,) = options
    left = rounds.agreement("linear", reward=f'rho = 0.5\noperator_may_choose = ["{name}"]')
    own = [one.model_copy(update={"agreement": left.identity}) for one in sent_strictly]
    with pytest.raises(eq.SubmissionError):  # whose signatures are for the other agreement
        task_of(left, own, **options)
    task_of(left, rounds.submissions(left, tmp_path, (8.0, 2.0, 0.5)), **options)


def test_saying_what_is_agreed_is_no_deviation(strict: eq.Agreement, sent_strictly: list[eq.Submission]) -> None:
    everybody = [list(strict.party_names)[::-1]]
    said = task_of(strict, sent_strictly, rho=0.5, mechanism="tempering", teams=everybody)
    assert (
        said.inputs_digest
        == task_of(strict, sent_strictly).inputs_digest
        == task_of(strict, sent_strictly, deviate=True).inputs_digest
    )


def test_a_deviation_is_a_broken_promise_everywhere(deviating: eq.Settlement, place: Path) -> None:
    assert [one.words for one in deviating.deviations] == [WORDS]
    for settlement in (deviating, eq.Settlement.load(place)):
        finding = settlement.audit["P3"]
        assert (finding.verdict, finding.reason) == ("fails", WORDS)
    assert eq.Reward.load(place / "for" / "west" / "reward.nc").deviations == (WORDS,)
    for party in (None, "west"):
        page = render(deviating, party=party)
        assert f"The agreement was not kept: {WORDS}" in page
        assert page.index('class="alarm fails"') < page.index("1 promise is broken: P3")


def test_a_deviation_that_is_hidden_is_found(deviating: eq.Settlement) -> None:
    """The options say what is agreed, then the exponent too; rewards say nothing."""
    hidden = replace(deviating, options=deviating.options | {"rho": 0.5})
    assert WORDS in audit(hidden)["P3"].reason
    denied = replace(hidden, rho=0.5)
    assert not denied.deviations
    assert audit(denied)["P3"].verdict == "fails"
    awards = {
        party: replace(award, reward=None if award.reward is None else replace(award.reward, deviations=()))
        for party, award in deviating.awards.items()
    }
    assert "the rewards of north, south, west tell otherwise" in audit(replace(deviating, awards=awards))["P3"].reason


def test_another_mechanism_is_seen_by_what_was_done(deviating: eq.Settlement) -> None:
    award = deviating.awards["west"]
    noised = replace(deviating, awards=deviating.awards | {"west": replace(award, kappa=1.0, tau=2.0)})
    assert 'mechanism = "noise" was used' in audit(noised)["P3"].reason


def test_an_exponent_that_nobody_agreed_to_share_is_not_told_to_parties(settled: eq.Settlement) -> None:
    """With it, a party could compute the largest Shapley value."""
    agreed = settled.agreement.model_copy(update={"reward": eq.Agreement.model_fields["reward"].default})
    chosen = replace(settled, agreement=agreed, rho=0.0517, options=settled.options | {"rho": 0.0517})
    (found,) = chosen.deviations
    assert (found.words, found.for_parties) == (
        'rho = 0.0517 was used where the agreement says "max"',
        'another rho was used where the agreement says "max"',
    )
    assert "0.0517" not in render(chosen, party="west")
    assert found.for_parties.replace('"', "&#34;") in render(chosen, party="west")
