"""Every figure and table has a name and a maker, and numbers that are there serve again."""

import itertools
import json
from dataclasses import replace
from pathlib import Path

import pytest

from equipoise._version import __version__
from equipoise.errors import ExperimentError
from equipoise_paper import sources
from equipoise_paper.catalogue import MAKERS, Bench
from equipoise_paper.contents import ITEMS, SETTINGS, chosen
from equipoise_paper.effort import FULL, QUICK, Effort
from equipoise_paper.outcome import Outcome
from equipoise_paper.settings import Setting
from equipoise_paper.sweep import Run, Variation
from reproduction.small import TINY

NAMES = [item.name for item in ITEMS]


def test_names_are_unique_and_all_have_a_maker() -> None:
    assert len(set(NAMES)) == len(NAMES)
    assert set(NAMES) == set(MAKERS)


def test_every_figure_and_table_is_there() -> None:
    of_each = [
        f"{kind}-{setting.lower()}"
        for kind, setting in itertools.product(("tradeoff", "naive", "lambda10", "control"), SETTINGS)
    ]
    others = ["larger-a", "larger-b", "larger-c", "problematic-noise", "contours", "coverage", "thinning", "samples"]
    assert set(NAMES) == {*of_each, *others}


def test_items_name_the_data_they_need() -> None:
    for item in ITEMS:
        assert set(item.data) <= set(SETTINGS)
        for setting in SETTINGS:
            if item.name.endswith(f"-{setting.lower()}"):
                assert item.data == (setting,)


def test_items_are_chosen_in_the_catalogues_order() -> None:
    assert [item.name for item in chosen(["samples", "naive-syn", "samples"])] == ["naive-syn", "samples"]
    assert chosen(["all"]) == chosen(["contours", "all"]) == list(ITEMS)
    with pytest.raises(ExperimentError, match="there is no 'fig-9'") as caught:
        chosen(["naive-syn", "fig-9"])
    assert all(name in str(caught.value) for name in (*NAMES, "all"))


def test_data_are_looked_for_before_anything_is_computed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(sources.VARIABLE, raising=False)
    bench = Bench(TINY, tmp_path, tmp_path / "nowhere")
    bench.look_for_data(chosen(["tradeoff-syn", "contours"]))
    with pytest.raises(ExperimentError, match=sources.DIABETES):
        bench.look_for_data(chosen(["tradeoff-syn", "samples"]))
    with pytest.raises(ExperimentError, match=sources.HOUSING):
        bench.look_for_data(chosen(["all"]))


def saved_sweep(runs: list[Run], bench: Bench, **changed: object) -> None:
    """As `reproduce tradeoff-syn` leaves it."""
    described = {"Syn": bench.effort.described(bench.setting("Syn"))}
    record = {"settings": described, "version": __version__, **changed}
    found = Outcome.of_runs("tradeoff-syn", [run.row() for run in runs], ("epsilon",), [], [])
    replace(found, record=record).save(bench.folder)


def test_a_sweep_in_the_folder_serves_again(runs: list[Run], tmp_path: Path) -> None:
    bench = Bench(TINY, tmp_path)
    saved_sweep(runs, bench)
    known = bench.sweep("Syn")
    assert known[1].reward.value == pytest.approx(runs[1].reward.value, rel=1e-5)
    assert bench.sweep("Syn") is known


@pytest.mark.usefixtures("one_process")
def test_a_sweep_of_another_kind_does_not_serve(
    runs: list[Run], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    computed: list[tuple[float, Variation]] = []

    def compute(setting: Setting, _effort: Effort, variation: Variation, **_options: object) -> list[Run]:
        computed.append((setting.order, variation))
        return runs[:1]

    monkeypatch.setattr("equipoise_paper.catalogue.vary_epsilon", compute)
    bench = Bench(TINY, tmp_path)
    saved_sweep(runs, bench)
    assert bench.sweep("Syn", change="order") == bench.sweep("Syn", Variation(party="1")) == runs[:1]
    assert computed == [(10.0, Variation()), (2.0, Variation(party="1"))]
    assert Bench(QUICK, tmp_path).sweep("Syn") == runs[:1]  # more effort than what is there
    assert Bench(TINY, tmp_path).sweep("Syn", afresh=True) == runs[:1]
    saved_sweep(runs, bench, version="0.0.1")
    assert Bench(TINY, tmp_path).sweep("Syn") == runs[:1]
    assert len(computed) == 5


def test_the_record_says_how_much_was_computed(syn: Setting, diab: Setting) -> None:
    linear, logistic = FULL.described(syn), FULL.described(diab)
    assert (linear["sampler"], linear["chains"], linear["draws"], linear["runs"]) == ("gibbs", 16, 30_000, 5)
    assert (logistic["sampler"], logistic["draws"]) == ("moments", 10_000)
    assert json.loads(json.dumps(linear)) == linear
