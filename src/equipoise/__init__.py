"""Fair incentives for private collaborative machine learning.

Names are loaded when first used, so that `import equipoise` is instant and a party's machine never loads what only a
mediator needs.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from equipoise._version import __version__

if TYPE_CHECKING:
    from equipoise.agreement import Agreement
    from equipoise.errors import (
        AgreementError,
        BudgetError,
        ClippingWarning,
        EquipoiseError,
        GuaranteeError,
        KeyFileError,
        LedgerError,
        PrivacyError,
        SubmissionError,
        TableError,
    )
    from equipoise.guarantee import Guarantee
    from equipoise.party.ledger import Ledger
    from equipoise.party.release import preview, release, resend
    from equipoise.wire import Submission

__all__ = [
    "Agreement",
    "AgreementError",
    "BudgetError",
    "ClippingWarning",
    "EquipoiseError",
    "Guarantee",
    "GuaranteeError",
    "KeyFileError",
    "Ledger",
    "LedgerError",
    "PrivacyError",
    "Submission",
    "SubmissionError",
    "TableError",
    "__version__",
    "preview",
    "release",
    "resend",
]

_ERRORS = (
    "AgreementError",
    "BudgetError",
    "ClippingWarning",
    "EquipoiseError",
    "GuaranteeError",
    "KeyFileError",
    "LedgerError",
    "PrivacyError",
    "SubmissionError",
    "TableError",
)
_HOMES = {
    **dict.fromkeys(_ERRORS, "equipoise.errors"),
    "Agreement": "equipoise.agreement",
    "Guarantee": "equipoise.guarantee",
    "Ledger": "equipoise.party.ledger",
    "Submission": "equipoise.wire",
    "preview": "equipoise.party.release",
    "release": "equipoise.party.release",
    "resend": "equipoise.party.release",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'equipoise' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
