"""Choice of the engine that simulates rounds of an agreement."""

from equipoise.agreement import Agreement
from equipoise.mediation.advice.families import FamilyEngine
from equipoise.mediation.advice.imagined import Engine
from equipoise.mediation.advice.regressions import RegressionEngine
from equipoise.models.regression import Regression


def engine_of(agreement: Agreement) -> Engine:
    """Choose the engine of an agreement's kind of model."""
    return RegressionEngine(agreement) if isinstance(agreement.model, Regression) else FamilyEngine(agreement)
