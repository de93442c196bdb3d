"""Fair incentives for private collaborative machine learning.

Names are loaded when first used, so that `import equipoise` is instant and a party's machine never loads what only a
mediator needs.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from equipoise._version import __version__

if TYPE_CHECKING:
    from equipoise.agreement import Agreement
    from equipoise.client.home.compare import Comparison, compare
    from equipoise.client.home.model import HomeModel, combine
    from equipoise.errors import (
        AgreementError,
        BudgetError,
        ClippingWarning,
        ConvergenceError,
        EquipoiseError,
        GuaranteeError,
        InferenceError,
        KeyFileError,
        LedgerError,
        MediationError,
        PrivacyError,
        SubmissionError,
        TableError,
    )
    from equipoise.estimate import Estimate
    from equipoise.inference.infer import infer, infer_batch, infer_exact
    from equipoise.inference.posterior import Posterior
    from equipoise.inference.scenario import Scenario
    from equipoise.mediation.advice import Advice, advise
    from equipoise.mediation.mediator import mediate
    from equipoise.mediation.settings import SettlementSettings
    from equipoise.mediation.settlement import Settlement
    from equipoise.mediation.what_if import WhatIf, what_if
    from equipoise.models.guarantee import Guarantee
    from equipoise.party.ledger import Ledger
    from equipoise.party.release import preview, release, resend
    from equipoise.protocol.submission import Submission
    from equipoise.reward.model import Reward
    from equipoise.simulate import simulate_round
    from equipoise.valuation.surprise import similarity, surprise

__all__ = [
    "Advice",
    "Agreement",
    "AgreementError",
    "BudgetError",
    "ClippingWarning",
    "Comparison",
    "ConvergenceError",
    "EquipoiseError",
    "Estimate",
    "Guarantee",
    "GuaranteeError",
    "HomeModel",
    "InferenceError",
    "KeyFileError",
    "Ledger",
    "LedgerError",
    "MediationError",
    "Posterior",
    "PrivacyError",
    "Reward",
    "Scenario",
    "Settlement",
    "SettlementSettings",
    "Submission",
    "SubmissionError",
    "TableError",
    "WhatIf",
    "__version__",
    "advise",
    "combine",
    "compare",
    "infer",
    "infer_batch",
    "infer_exact",
    "mediate",
    "preview",
    "release",
    "resend",
    "similarity",
    "simulate_round",
    "surprise",
    "what_if",
]

_ERRORS = (
    "AgreementError",
    "BudgetError",
    "ClippingWarning",
    "ConvergenceError",
    "EquipoiseError",
    "GuaranteeError",
    "InferenceError",
    "KeyFileError",
    "LedgerError",
    "MediationError",
    "PrivacyError",
    "SubmissionError",
    "TableError",
)
_HOMES = {
    **dict.fromkeys(_ERRORS, "equipoise.errors"),
    "Advice": "equipoise.mediation.advice",
    "Agreement": "equipoise.agreement",
    "Comparison": "equipoise.client.home.compare",
    "Estimate": "equipoise.estimate",
    "Guarantee": "equipoise.models.guarantee",
    "HomeModel": "equipoise.client.home.model",
    "Ledger": "equipoise.party.ledger",
    "Posterior": "equipoise.inference.posterior",
    "Reward": "equipoise.reward.model",
    "Scenario": "equipoise.inference.scenario",
    "Settlement": "equipoise.mediation.settlement",
    "SettlementSettings": "equipoise.mediation.settings",
    "Submission": "equipoise.protocol.submission",
    "WhatIf": "equipoise.mediation.what_if",
    "advise": "equipoise.mediation.advice",
    "combine": "equipoise.client.home.model",
    "compare": "equipoise.client.home.compare",
    "infer": "equipoise.inference.infer",
    "infer_batch": "equipoise.inference.infer",
    "infer_exact": "equipoise.inference.infer",
    "mediate": "equipoise.mediation.mediator",
    "preview": "equipoise.party.release",
    "release": "equipoise.party.release",
    "resend": "equipoise.party.release",
    "similarity": "equipoise.valuation.surprise",
    "simulate_round": "equipoise.simulate",
    "surprise": "equipoise.valuation.surprise",
    "what_if": "equipoise.mediation.what_if",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'equipoise' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
