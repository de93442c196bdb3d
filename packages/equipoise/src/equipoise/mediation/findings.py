"""Findings of `mediation/audit` and `mediation/plausibility`, as a settlement stores them."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any, Literal, Self

from equipoise.errors import MediationError

# Reason of a promise about two settlements if only one is given.
NOTHING_TO_COMPARE = "nothing to compare with: give a reference settlement"

Verdict = Literal["holds", "fails", "cannot tell"]


@dataclass(frozen=True)
class Remark:
    """Something the operator should look at; `probability` is a p-value where there is one."""

    kind: str
    parties: tuple[str, ...]
    message: str
    probability: float | None = None


@dataclass(frozen=True)
class Finding:
    """Verdict on one promise, with its reason."""

    code: str
    promise: str
    verdict: Verdict
    reason: str


@dataclass(frozen=True)
class Ranking:
    """Probability that the true Shapley value of the first party is above that of the second."""

    higher: str
    lower: str
    probability: float


@dataclass(frozen=True)
class Audit:
    """All findings, and the certainty of the order of the parties."""

    findings: tuple[Finding, ...]
    rankings: tuple[Ranking, ...]

    def __getitem__(self, code: str) -> Finding:
        for finding in self.findings:
            if finding.code == code:
                return finding
        raise MediationError(
            f"there is no promise {code!r}; promises are {', '.join(finding.code for finding in self.findings)}"
        )

    def __iter__(self) -> Iterator[Finding]:
        return iter(self.findings)

    @property
    def checked(self) -> tuple[Finding, ...]:
        """Findings without those that need a second settlement if there is only one."""
        return tuple(finding for finding in self.findings if finding.reason != NOTHING_TO_COMPARE)

    @property
    def failures(self) -> tuple[Finding, ...]:
        """Findings of broken promises."""
        return tuple(finding for finding in self.findings if finding.verdict == "fails")

    def to_json(self) -> dict[str, Any]:
        """Return the audit as plain strings and numbers."""
        return {"findings": [asdict(one) for one in self.findings], "rankings": [asdict(one) for one in self.rankings]}

    @classmethod
    def from_json(cls, document: dict[str, Any]) -> Self:
        """Read what `to_json` returned."""
        findings = tuple(Finding(**one) for one in document["findings"])
        return cls(findings, tuple(Ranking(**one) for one in document["rankings"]))
