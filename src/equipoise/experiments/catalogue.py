"""Every figure and table of the paper, by name."""

import json
import platform
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from time import perf_counter

from equipoise._version import __version__
from equipoise.errors import ExperimentError
from equipoise.experiments import settings as paper
from equipoise.experiments.contours import contours
from equipoise.experiments.control import MONOTONE, PROBLEMATIC, control, problematic, scan, vary_control
from equipoise.experiments.effort import FULL, Effort
from equipoise.experiments.outcome import Outcome
from equipoise.experiments.settings import NOISE_SEED, Setting
from equipoise.experiments.sweep import USUAL, Run, Tick, Variation, read_runs, vary_epsilon
from equipoise.experiments.tables import coverage, samples, thinning
from equipoise.experiments.tradeoffs import larger_improvement, trade_off, without_noise_awareness
from equipoise.words import first_few

NAMES = ("Syn", "CaliH", "Diab")
ANY_NOISE = 1
THINNED_SAMPLES = {"quick": 3_200, "full": 30_000}
STRONGER_ORDER = 10.0
WEAKER_OTHERS = 2.0  # ε of the others where a party gains more


@dataclass
class Bench:
    """Where experiments run: their effort, data and folder. Settings and sweeps are kept for those that share them."""

    effort: Effort
    folder: Path
    data: Path | None = None
    tick: Tick = lambda _what: None
    _settings: dict[str, Setting] = field(default_factory=dict)
    _sweeps: dict[tuple[str, str, Variation], list[Run]] = field(default_factory=dict)

    def setting(self, name: str) -> Setting:
        """One of the paper's three."""
        if name not in self._settings:
            self.tick(f"{name}: preparing the data")
            if name == "Syn":
                self._settings[name] = paper.syn()
            else:
                self._settings[name] = paper.calih(self.data) if name == "CaliH" else paper.diab(self.data)
        return self._settings[name]

    def sweep(self, name: str, variation: Variation = USUAL, change: str = "", *, afresh: bool = False) -> list[Run]:
        """A party's ε varied; `change` is done to the setting first. Numbers in the folder serve unless `afresh`."""
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
        """The usual sweep of a setting, if the folder has it from the same version and as much effort."""
        path = self.folder / f"tradeoff-{name.lower()}.json"
        if change or variation != USUAL or not path.is_file():
            return None
        record = json.loads(path.read_text(encoding="utf-8"))
        same = record["settings"] == {name: self.effort.described(self.setting(name))}
        return read_runs(path.with_suffix(".csv")) if same and record["version"] == __version__ else None


@dataclass(frozen=True)
class Item:
    """A figure or table, or a few that are computed together."""

    name: str
    shows: str
    data: tuple[str, ...]
    make: Callable[[Bench, str], Outcome]


def _trade_off(setting: str, bench: Bench, name: str) -> Outcome:
    return trade_off(name, bench.sweep(setting, afresh=True), bench.folder)


def _stronger_order(setting: str, bench: Bench, name: str) -> Outcome:
    return trade_off(name, bench.sweep(setting, change="order"), bench.folder, shapley=False)


def _naive(setting: str, bench: Bench, name: str) -> Outcome:
    return without_noise_awareness(name, bench.sweep(setting, Variation(naive=True)), bench.folder)


def _larger(setting: str, variation: Variation, change: str, bench: Bench, name: str) -> Outcome:
    usual = bench.sweep(setting, Variation(party=variation.party))
    runs = bench.sweep(setting, variation, change)
    return larger_improvement(name, runs, usual, bench.folder, variation.party)


def _control(setting: str, noise_seed: int, bench: Bench, name: str) -> Outcome:
    found = vary_control(bench.setting(setting), bench.effort, noise_seed, tick=bench.tick)
    return control(name, found, bench.folder)


def _problematic(bench: Bench, name: str) -> Outcome:
    setting = bench.setting("Syn")
    found = vary_control(setting, bench.effort, PROBLEMATIC, tick=bench.tick)
    return problematic(name, setting, found, scan(setting, tick=bench.tick), bench.folder)


def _contours(bench: Bench, name: str) -> Outcome:
    return contours(name, bench.setting("Syn"), bench.effort, bench.folder, tick=bench.tick)


def _coverage(bench: Bench, name: str) -> Outcome:
    return coverage(name, [bench.setting(one) for one in NAMES], bench.effort, tick=bench.tick)


def _thinning(bench: Bench, name: str) -> Outcome:
    number = THINNED_SAMPLES[bench.effort.name]
    return thinning(name, bench.setting("CaliH"), bench.effort, number, tick=bench.tick)


def _samples(bench: Bench, name: str) -> Outcome:
    return samples(name, bench.setting("Diab"), bench.effort, tick=bench.tick)


def _of_each(prefix: str, shows: tuple[str, str, str], make: Callable[[str, Bench, str], Outcome]) -> list[Item]:
    return [
        Item(f"{prefix}-{name.lower()}", text, (name,), partial(make, name))
        for name, text in zip(NAMES, shows, strict=True)
    ]


ITEMS: tuple[Item, ...] = (
    *_of_each(
        "tradeoff",
        (
            "Figs. 2a and 3a, and Shapley values (a): ε against value, reward and MNLP",
            "Figs. 2b and 3b, and Shapley values (b)",
            "Figs. 2c and 3c, and Shapley values (c)",
        ),
        _trade_off,
    ),
    *_of_each(
        "naive",
        ("Without noise-aware inference (a)", "Without noise-aware inference (b)", "Without noise-aware inference (c)"),
        _naive,
    ),
    Item(
        "larger-a",
        "Larger improvement (a): Syn, the others' ε is 2",
        ("Syn",),
        partial(_larger, "Syn", Variation(others=WEAKER_OTHERS), ""),
    ),
    Item(
        "larger-b",
        "Larger improvement (b): Syn, half the rows",
        ("Syn",),
        partial(_larger, "Syn", Variation(), "halved"),
    ),
    Item(
        "larger-c",
        "Larger improvement (c): Diab, party 1, the others' ε is 2, half the rows",
        ("Diab",),
        partial(_larger, "Diab", Variation(party="1", others=WEAKER_OTHERS), "halved"),
    ),
    *_of_each("lambda10", ("λ = 10 (a, d)", "λ = 10 (b, e)", "λ = 10 (c, f)"), _stronger_order),
    Item(
        "control-syn",
        "Figs. 2e, 2f and 3d: tempering against added noise",
        ("Syn",),
        partial(_control, "Syn", MONOTONE),
    ),
    Item(
        "control-calih",
        "Fig. 3e and reward control of CaliH (a-c)",
        ("CaliH",),
        partial(_control, "CaliH", ANY_NOISE),
    ),
    Item("control-diab", "Fig. 3f and reward control of Diab (a-c)", ("Diab",), partial(_control, "Diab", ANY_NOISE)),
    Item("problematic-noise", "Fig. 2d and the problematic noise realisation (a-c)", ("Syn",), _problematic),
    Item("contours", "Contours of prior, posterior and two rewards", ("Syn",), _contours),
    Item("coverage", "Table: coverage of the input space", NAMES, _coverage),
    Item("thinning", "Table: thinning against surprise", ("CaliH",), _thinning),
    Item("samples", "Table: number of samples against surprise", ("Diab",), _samples),
)


def chosen(names: list[str]) -> list[Item]:
    """Items by name, in the catalogue's order; "all" is all of them."""
    known = {item.name: item for item in ITEMS}
    if strange := [name for name in names if name not in known and name != "all"]:
        raise ExperimentError(
            f"there is no {strange[0]!r} in the paper; choose among {first_few(list(known), len(known))}, or all"
        )
    return [item for item in ITEMS if item.name in names or "all" in names]


def reproduce(item: Item, bench: Bench) -> Outcome:
    """Run one item and write its numbers, pictures and verdicts."""
    bench.folder.mkdir(parents=True, exist_ok=True)
    begun = perf_counter()
    found = item.make(bench, item.name)
    record = {
        "shows": item.shows,
        "command": f"equipoise reproduce {item.name}{' --full' if bench.effort is FULL else ''}",
        "settings": {name: bench.effort.described(bench.setting(name)) for name in item.data},
        "seeds": {"noise": NOISE_SEED},
        "seconds": round(perf_counter() - begun, 1),
        "machine": _machine(),
        "version": __version__,
    }
    outcome = replace(found, record=record)
    outcome.save(bench.folder)
    return outcome


def _machine() -> str:
    import jax

    from equipoise.cores import usable_cores

    device = jax.devices()[0]
    if device.platform != "cpu":
        return f"{device.device_kind}, {usable_cores()} cores"
    return f"{usable_cores()} cores, {platform.machine()}"
