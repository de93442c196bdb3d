"""Changes to a round that advice tries if joining is not worth it, or if noise is scaled by more than necessary.

Each change returns a situation with another agreement or other parties, or None if there is nothing to change.
Nothing is computed here: `advise` simulates rounds of the changed situation.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from equipoise.agreement import Agreement
from equipoise.mediation.advice.imagined import Assumed
from equipoise.models.columns import RegressionColumn
from equipoise.models.regression import WIDE

# Factors by which the others' numbers of rows, and their number, are multiplied.
TIMES = 4
COPIES = 2
SMALL_RHO = 0.1


class Situation(NamedTuple):
    """A round to simulate: the party that asks, the agreement, and rows and ε of all parties."""

    party: str
    agreement: Agreement
    parties: Mapping[str, Assumed]

    def agreeing(self, **sections: Any) -> "Situation":
        """Return the same round with other sections of the agreement."""
        document = {**self.agreement.model_dump(mode="json"), **sections}
        return self._replace(agreement=Agreement.model_validate(document))


Change = tuple[str, Situation]  # in words, and the round as it would then be


def narrow_reaches(now: Situation) -> Change | None:
    """State the typical range as the reach of each column whose noise is scaled by more than three times that."""
    wide = [
        column.name
        for column in now.agreement.columns
        if isinstance(column, RegressionColumn)
        and column.typical is not None
        and _width(column.scaled_range) > WIDE * _width(column.typical)
    ]
    if not wide:
        return None

    def narrowed(column: dict[str, Any]) -> dict[str, Any]:
        return {**column, "reach": column["typical"]} if column["name"] in wide else column

    model = now.agreement.model_dump(mode="json")["model"]
    model |= {"features": [*map(narrowed, model["features"])], "target": narrowed(model["target"])}
    return f"a reach of the typical range for {', '.join(wide)}", now.agreeing(model=model)


def release_most(now: Situation) -> Change | None:
    """Let all parties release at the largest ε."""
    largest = now.agreement.privacy.max_epsilon
    if all(one.epsilon == largest for one in now.parties.values()):
        return None
    parties = {name: replace(one, epsilon=largest) for name, one in now.parties.items()}
    return f"epsilon {largest:g} for everybody", now._replace(parties=parties)


def share_most(now: Situation) -> Change | None:
    """Hold back almost nothing of the others' contributions."""
    reward = now.agreement.reward
    if len(now.parties) == 1 or (reward.rule == "surplus" and reward.rho != "max" and reward.rho <= SMALL_RHO):
        return None
    section = reward.model_dump(mode="json") | {"rule": "surplus", "rho": SMALL_RHO}
    return f"the surplus rule with rho {SMALL_RHO:g}", now.agreeing(reward=section)


def enlarge_others(now: Situation) -> Change | None:
    """Let every other party have four times as many rows, as far as the agreement allows."""
    most, others = now.agreement.privacy.max_rows, _others(now)
    larger = {name: replace(one, rows=TIMES * one.rows) for name, one in others.items()}
    if not others or (most is not None and any(one.rows > most for one in larger.values())):
        return None
    return f"others with {TIMES} times as many rows", now._replace(parties={**now.parties, **larger})


def add_others(now: Situation) -> Change | None:
    """Let twice as many others take part, if their tables cannot be larger: that would gain more in less time."""
    more = {f"{name[:50]}.{copy}": one for copy in range(2, COPIES + 1) for name, one in _others(now).items()}
    if not more or not more.keys().isdisjoint(now.parties) or enlarge_others(now):
        return None
    members = now.agreement.model_dump(mode="json")["parties"] + [{"name": name} for name in more]
    return f"{COPIES} times as many others", now.agreeing(parties=members)._replace(parties={**now.parties, **more})


CHANGES: tuple[Callable[[Situation], Change | None], ...] = (
    narrow_reaches, release_most, share_most, enlarge_others, add_others,
)  # fmt: skip


def everything(now: Situation) -> Change:
    """Make all changes that apply to the situation, one after the other."""
    names = []
    for change in [change for change in CHANGES if change(now)]:
        if made := change(now):
            names.append(made[0])
            now = made[1]
    return ", ".join(names), now


def _others(now: Situation) -> dict[str, Assumed]:
    return {name: one for name, one in now.parties.items() if name != now.party}


def _width(ends: tuple[float, float]) -> float:
    return ends[1] - ends[0]
