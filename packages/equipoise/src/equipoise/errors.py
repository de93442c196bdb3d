"""Tree of all errors that a user can cause.

A message names the offending value and the remedy. Each class carries the exit code that the command line uses, so
that a script can tell a bad table from a refused spend; the codes are part of the documented interface.
"""


class EquipoiseError(Exception):
    """Root of everything Equipoise raises on purpose; `exit_code` is what the command line then ends with."""

    exit_code = 1


class AgreementError(EquipoiseError):
    """The agreement is malformed, or what is asked for does not fit it.

    Raised when an agreement is read, and when a party, a guarantee or a number is not within it.
    """

    exit_code = 3


class TableError(EquipoiseError):
    """A table cannot be read as the agreement demands: a missing column, a cell that is no number, no rows.

    Raised for a private table before anything is spent, by `release` also if many of its values lie outside the agreed
    bounds, and for rows to predict.
    """

    exit_code = 4


class PrivacyError(EquipoiseError):
    """The requested guarantee or spend is refused, or the party did not confirm it."""

    exit_code = 5


class GuaranteeError(PrivacyError):
    """The numbers do not describe a privacy guarantee, such as an ε that is not positive."""


class LedgerError(PrivacyError):
    """The ledger cannot be used: it was changed, cannot be read or written, or another process holds it."""


class BudgetError(LedgerError):
    """The ledger refuses a spend: above its cap, a second one under an agreement, or of columns with changed bounds."""


class SubmissionError(EquipoiseError):
    """A submission is malformed, forged or does not belong to this agreement; raised when it is read or checked."""

    exit_code = 6


class ClippingWarning(UserWarning):
    """Many values of a column lie outside its agreed bounds; `release` warns if it was allowed to clip them."""


class CacheWarning(UserWarning):
    """Other users of the machine can write to the folder for compiled programs, so it is not used."""


class KeyFileWarning(UserWarning):
    """Other users of the machine can read a signing key."""


class KeyFileError(EquipoiseError):
    """A signing key cannot be read or written, or is not the one the agreement names for the party."""

    exit_code = 7


class InferenceError(EquipoiseError):
    """A posterior cannot be computed or used as asked: an unknown method or parameter, no submissions, a κ beyond 1."""

    exit_code = 8


class ConvergenceError(InferenceError):
    """The chains of a posterior do not agree well enough to be relied on; more draws, or `force`, are the remedies."""


class MediationError(EquipoiseError):
    """A round cannot be settled as asked, or a settlement or a reward cannot be read or used as asked."""

    exit_code = 9


class ExperimentError(EquipoiseError):
    """An experiment of the paper cannot be run as asked, or its data cannot be had."""

    exit_code = 10


class ServiceError(EquipoiseError):
    """A service cannot be reached, refuses what is asked, or cannot be started as asked."""

    exit_code = 11


class VerificationError(EquipoiseError):
    """Received or exported data contradict their signatures or digests."""

    exit_code = 12


class RepetitionError(EquipoiseError):
    """A settlement cannot be repeated exactly here: a secret is missing, or versions or processors differ.

    Nothing that was checked speaks against the settlement.
    """

    exit_code = 13
