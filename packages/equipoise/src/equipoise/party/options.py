"""Options of a release, beyond its agreement, table, party and ledger.

Python, the command line and the client of a round take them by name and build `ReleaseOptions`, where each is spelt
once.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from equipoise.agreement import Agreement
from equipoise.models.guarantee import Guarantee


@dataclass(frozen=True, kw_only=True)
class ReleaseOptions:
    """Options of a release; a guarantee must be stated, all others have a default.

    Parameters
    ----------
    epsilon, zcdp, approx : float, float, (float, float)
        The guarantee, stated in one of three ways: ε at the agreement's Rényi order, zCDP, or (ε, δ).
    key : path, optional
        The signing key; by default one is kept beside the ledger.
    again : bool
        Release a second time under the same agreement, which costs as much again. `resend` returns the stored
        submission for nothing.
    cap_zcdp : float, optional
        Cap of a new ledger: the most that may ever be spent.
    family : str
        For a new ledger: what its tables have in common.
    cohort : str
        Which part of the ledger's individuals the table is about, where who belongs to which part is public and nobody
        to two. The dearest cohort counts, not the sum of all.
    allow_clipping : bool
        Release although more than 20 % of a column's first values lie outside the agreed bounds; otherwise such a
        table is refused before anything is spent.

    Examples
    --------
    >>> eq.ReleaseOptions(epsilon=1.0, cohort="2026").states_guarantee
    True
    """

    epsilon: float | None = None
    zcdp: float | None = None
    approx: tuple[float, float] | None = None
    key: str | Path | None = None
    again: bool = False
    cap_zcdp: float | None = None
    family: str = ""
    cohort: str = ""
    allow_clipping: bool = False

    @classmethod
    def of(cls, options: "ReleaseOptions | None", overrides: Mapping[str, Any]) -> "ReleaseOptions":
        """Replace some options by name.

        Parameters
        ----------
        options : ReleaseOptions, optional
            Options to start from; by default all defaults.
        overrides : mapping of str to object
            New values by name.

        Returns
        -------
        ReleaseOptions

        Raises
        ------
        TypeError
            An option does not exist.
        """
        known = [field.name for field in fields(cls)]
        if unknown := sorted(set(overrides) - set(known)):
            raise TypeError(f"there is no option {unknown[0]!r} of a release; there are {', '.join(known)}")
        return replace(options or cls(), **overrides)

    @property
    def states_guarantee(self) -> bool:
        """True if a guarantee is stated, in any of the three ways."""
        return any(value is not None for value in (self.epsilon, self.zcdp, self.approx))

    def guarantee(self, agreement: Agreement) -> Guarantee:
        """Return the stated guarantee, or refuse one that is not within the agreement."""
        return agreement.guarantee(epsilon=self.epsilon, zcdp=self.zcdp, approx=self.approx)
