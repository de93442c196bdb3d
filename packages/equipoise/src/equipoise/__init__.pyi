"""The public names and where they are, for `lazy_loader`, type checkers and editors."""

from ._version import __version__ as __version__
from .agreement import Agreement as Agreement
from .client.home.compare import Comparison as Comparison
from .client.home.compare import compare as compare
from .client.home.model import HomeModel as HomeModel
from .client.home.model import combine as combine
from .errors import AgreementError as AgreementError
from .errors import BudgetError as BudgetError
from .errors import ClippingWarning as ClippingWarning
from .errors import ConvergenceError as ConvergenceError
from .errors import EquipoiseError as EquipoiseError
from .errors import GuaranteeError as GuaranteeError
from .errors import InferenceError as InferenceError
from .errors import KeyFileError as KeyFileError
from .errors import LedgerError as LedgerError
from .errors import MediationError as MediationError
from .errors import PrivacyError as PrivacyError
from .errors import SubmissionError as SubmissionError
from .errors import TableError as TableError
from .estimate import Estimate as Estimate
from .inference.infer import infer as infer
from .inference.infer import infer_batch as infer_batch
from .inference.infer import infer_exact as infer_exact
from .inference.posterior import Posterior as Posterior
from .inference.scenario import Scenario as Scenario
from .mediation.advice import Advice as Advice
from .mediation.advice import advise as advise
from .mediation.mediator import mediate as mediate
from .mediation.settings import SettlementSettings as SettlementSettings
from .mediation.settlement import Settlement as Settlement
from .mediation.what_if import WhatIf as WhatIf
from .mediation.what_if import what_if as what_if
from .models.guarantee import Guarantee as Guarantee
from .party.ledger import Ledger as Ledger
from .party.options import ReleaseOptions as ReleaseOptions
from .party.release import preview as preview
from .party.release import release as release
from .party.release import resend as resend
from .protocol.submission import Submission as Submission
from .reward.model import Reward as Reward
from .simulate import simulate_round as simulate_round
from .valuation.surprise import similarity as similarity
from .valuation.surprise import surprise as surprise

__all__: list[str]
