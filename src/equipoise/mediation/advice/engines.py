"""The engine that imagines rounds of an agreement."""

from equipoise.agreement import Agreement
from equipoise.mediation.advice.imagined import Engine
from equipoise.models.regression import Regression


def engine_of(agreement: Agreement) -> Engine:
    """Choose the engine of an agreement's kind of model; that of regressions does without JAX."""
    if isinstance(agreement.model, Regression):
        from equipoise.mediation.advice.regressions import RegressionEngine

        return RegressionEngine(agreement)
    from equipoise.mediation.advice.families import FamilyEngine

    return FamilyEngine(agreement)
