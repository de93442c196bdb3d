"""The catalogue of the paper's figures and tables, with a function that makes each of them."""

import json
import platform
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from time import perf_counter

from equipoise._util.cores import usable_cores
from equipoise._version import __version__
from equipoise_paper import settings as paper
from equipoise_paper import sources
from equipoise_paper.contents import CALIH, DIAB, SETTINGS, SYN, Item
from equipoise_paper.contours import contours
from equipoise_paper.control import (
    MONOTONE,
    PROBLEMATIC,
    control,
    problematic,
    read_tempered,
    scan,
    vary_control,
)
from equipoise_paper.effort import FULL, Effort, Tick
from equipoise_paper.outcome import Outcome, runs_file
from equipoise_paper.posteriors import prior_loss
from equipoise_paper.settings import NOISE_SEED, Setting
from equipoise_paper.sweep import USUAL, Run, Variation, read_runs, vary_epsilon
from equipoise_paper.tables import coverage, samples, thinning
from equipoise_paper.tradeoffs import larger_improvement, trade_off, without_noise_awareness

ANY_NOISE = 1
THINNED_SAMPLES = {"quick": 3_200, "full": 30_000}
STRONGER_ORDER = 10.0
# The other parties' ε in the experiments in which a party gains more.
WEAKER_OTHERS = 2.0


@dataclass
class Bench:
    """The environment of experiments: effort, data and folder. It caches settings and sweeps that several share."""

    effort: Effort
    folder: Path
    data: Path | None = None
    tick: Tick = lambda _what: None
    _settings: dict[str, Setting] = field(default_factory=dict)
    _sweeps: dict[tuple[str, str, Variation], list[Run]] = field(default_factory=dict)

    def look_for_data(self, items: Sequence[Item]) -> None:
        """Load all data that the items need, so that missing data are noticed now, not after an hour."""
        for setting, table in ((CALIH, sources.HOUSING), (DIAB, sources.DIABETES)):
            if any(setting in item.data for item in items):
                sources.load(table, self.data)

    def setting(self, name: str) -> Setting:
        """Return one of the paper's three data sets, by name."""
        if name not in self._settings:
            self.tick(f"{name}: preparing the data")
            if name == SYN:
                self._settings[name] = paper.syn()
            else:
                self._settings[name] = paper.calih(self.data) if name == CALIH else paper.diab(self.data)
        return self._settings[name]

    def sweep(self, name: str, variation: Variation = USUAL, change: str = "", *, afresh: bool = False) -> list[Run]:
        """Return a sweep of one party's ε, after applying `change` to the setting.

        Unless `afresh` is set, the numbers of an earlier sweep in the folder are reused.
        """
        key = (name, change, variation)
        if key not in self._sweeps and not afresh and (known := self._known(name, variation, change)):
            self._sweeps[key] = known
        if key not in self._sweeps:
            setting = self.setting(name)
            if change == "halved":
                setting = setting.halved()
            elif change == "order":
                setting = replace(setting, order=STRONGER_ORDER)
            self._sweeps[key] = vary_epsilon(setting, self.effort, variation, tick=self.tick)
        return self._sweeps[key]

    def _known(self, name: str, variation: Variation, change: str) -> list[Run] | None:
        """Read the usual sweep of a setting, if the folder has it."""
        if change or variation != USUAL:
            return None
        path = self.recorded(f"tradeoff-{name.lower()}", name)
        return read_runs(path) if path else None

    def recorded(self, item: str, setting: str) -> Path | None:
        """Return the path of an item's runs, if the folder has them from the same version and effort."""
        path, numbers = self.folder / f"{item}.json", self.folder / runs_file(item)
        if not (path.is_file() and numbers.is_file()):
            return None
        record = json.loads(path.read_text(encoding="utf-8"))
        same = record["settings"] == {setting: self.effort.described(self.setting(setting))}
        return numbers if same and record["version"] == __version__ else None


def _trade_off(setting: str, bench: Bench, name: str) -> Outcome:
    return trade_off(name, bench.sweep(setting, afresh=True), bench.folder)


def _stronger_order(setting: str, bench: Bench, name: str) -> Outcome:
    return trade_off(name, bench.sweep(setting, change="order"), bench.folder, shapley=False)


def _naive(setting: str, bench: Bench, name: str) -> Outcome:
    runs = bench.sweep(setting, Variation(naive=True))
    return without_noise_awareness(name, runs, prior_loss(bench.setting(setting)), bench.folder)


def _larger(setting: str, variation: Variation, change: str, bench: Bench, name: str) -> Outcome:
    usual = bench.sweep(setting, Variation(party=variation.party))
    runs = bench.sweep(setting, variation, change)
    return larger_improvement(name, runs, usual, bench.folder, variation.party)


def _control(setting: str, noise_seed: int, bench: Bench, name: str) -> Outcome:
    rewards = vary_control(bench.setting(setting), bench.effort, noise_seed, tick=bench.tick)
    return control(name, rewards, bench.folder)


def _problematic(bench: Bench, name: str) -> Outcome:
    setting = bench.setting(SYN)
    path = bench.recorded("control-syn", SYN)
    rewards = vary_control(setting, bench.effort, PROBLEMATIC, read_tempered(path) if path else (), tick=bench.tick)
    return problematic(name, setting, rewards, scan(setting, tick=bench.tick), bench.folder)


def _contours(bench: Bench, name: str) -> Outcome:
    return contours(name, bench.setting(SYN), bench.effort, bench.folder, tick=bench.tick)


def _coverage(bench: Bench, name: str) -> Outcome:
    return coverage(name, [bench.setting(setting) for setting in SETTINGS], bench.effort, tick=bench.tick)


def _thinning(bench: Bench, name: str) -> Outcome:
    number = THINNED_SAMPLES[bench.effort.name]
    return thinning(name, bench.setting(CALIH), bench.effort, number, tick=bench.tick)


def _samples(bench: Bench, name: str) -> Outcome:
    return samples(name, bench.setting(DIAB), bench.effort, tick=bench.tick)


MAKERS: dict[str, Callable[[Bench, str], Outcome]] = {
    **{f"tradeoff-{name.lower()}": partial(_trade_off, name) for name in SETTINGS},
    **{f"naive-{name.lower()}": partial(_naive, name) for name in SETTINGS},
    **{f"lambda10-{name.lower()}": partial(_stronger_order, name) for name in SETTINGS},
    "larger-a": partial(_larger, SYN, Variation(others=WEAKER_OTHERS), ""),
    "larger-b": partial(_larger, SYN, USUAL, "halved"),
    "larger-c": partial(_larger, DIAB, Variation(party="1", others=WEAKER_OTHERS), "halved"),
    "control-syn": partial(_control, SYN, MONOTONE),
    "control-calih": partial(_control, CALIH, ANY_NOISE),
    "control-diab": partial(_control, DIAB, ANY_NOISE),
    "problematic-noise": _problematic,
    "contours": _contours,
    "coverage": _coverage,
    "thinning": _thinning,
    "samples": _samples,
}


def reproduce(item: Item, bench: Bench) -> Outcome:
    """Run one item and write its numbers, pictures and verdicts."""
    bench.folder.mkdir(parents=True, exist_ok=True)
    begun = perf_counter()
    made = MAKERS[item.name](bench, item.name)
    record = {
        "shows": item.shows,
        "command": f"equipoise reproduce {item.name}{' --full' if bench.effort is FULL else ''}",
        "settings": {name: bench.effort.described(bench.setting(name)) for name in item.data},
        "seeds": {"noise": NOISE_SEED},
        "seconds": round(perf_counter() - begun, 1),
        "machine": _machine(),
        "version": __version__,
    }
    outcome = replace(made, record=record)
    outcome.save(bench.folder)
    return outcome


def _machine() -> str:
    return f"{usable_cores()} cores, {platform.machine()}"
