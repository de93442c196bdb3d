"""Settlements show themselves, and answer in the words people try."""

from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest

import equipoise as eq
from equipoise.mediation.advice import Advice, Choice


@pytest.mark.engine
def test_a_settlement_fits_a_screen(settled: eq.Settlement) -> None:
    lines = repr(settled).splitlines()
    assert len(lines) <= 20
    assert max(map(len, lines)) <= 120
    assert "north" in repr(settled)
    ElementTree.fromstring(settled._repr_html_().replace("&#160;", " "))


@pytest.mark.engine
def test_a_settlement_as_a_frame(settled: eq.Settlement) -> None:
    frame = settled.to_frame()
    assert list(frame.index) == ["north", "south", "west"]
    assert frame.loc["north", "shapley"] == settled.shapley["north"].value == float(settled.shapley["north"])
    assert frame.loc["west", "attained_error"] == settled.awards["west"].attained.error


@pytest.mark.engine
def test_coalitions_and_promises_by_name(settled: eq.Settlement) -> None:
    assert settled.value(["north", "south"]) == settled.value("north", "south")
    assert settled.value([]) == eq.Estimate(0.0, 0.0)
    with pytest.raises(eq.MediationError, match="there is no promise 'XX'; promises are V1, P1"):
        _ = settled.audit["XX"]


@pytest.mark.engine
def test_paths_in_place_of_objects(settled: eq.Settlement, sent: list[eq.Submission], tmp_path: Path) -> None:
    paths = []
    for one in sent:
        paths.append(tmp_path / f"{one.party}.json")
        one.save(paths[-1])
    with pytest.raises(eq.AgreementError, match=r"cannot read the agreement 'A\.toml'"):
        eq.mediate("A.toml", paths)
    with pytest.raises(eq.AgreementError, match=r"cannot read the agreement 'A\.toml'"):
        eq.release("A.toml", {}, party="north", epsilon=1, ledger=tmp_path / "l")
    with pytest.raises(eq.MediationError, match="rho = 2 is not a fairness exponent"):
        eq.mediate(settled.agreement, paths, rho=2)
    with pytest.raises(TypeError, match="there is no setting 'roh'"):
        eq.mediate(settled.agreement, paths, roh=0.5)


def test_advice_leads_with_predictions_in_the_targets_unit() -> None:
    value = eq.Estimate(2.0, 0.1)
    choice = Choice(1.0, 0.5, 4.89, value, value, value, value, 1.0, 0.9, 0.5, 0.75, 300.0, 240.0)
    choice = replace(choice, quality_own_rows=0.6, quality_at_home=0.8, gain_at_home=eq.Estimate(0.1, 0.01))
    advice = Advice("north", 500, {}, 1e-6, "max", (choice,), None, 8, 0, 2.0, 0.8, "progression", 400.0, 200.0)
    title, headers, _, row, note, verdict = repr(advice).splitlines()
    assert title == "Advice to north with 500 rows, from 8 imagined rounds"
    assert headers.split()[5:] == [
        "Rényi",
        "ε",
        "±progression",
        "known",
        "own",
        "rows",
        "→",
        "at",
        "home",
        "alone",
        "Shapley",
        "value",
        "reward",
    ]
    assert row.split()[:12] == ["4.89", "1", "150", "→", "120", "50%", "→", "75%", "60%", "→", "80%", "2.00"][:12]
    assert "±200 if nothing is known, ±100 if all is" in note
    assert verdict.startswith("Worth it: ")
    ElementTree.fromstring(advice._repr_html_().replace("&#160;", " "))
    labels = replace(advice, choices=(replace(choice, width_alone=None, width_reward=None),), width_prior=None)
    assert "progression" not in repr(labels)
