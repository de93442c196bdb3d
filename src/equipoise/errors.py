"""Every error a user can cause, as one tree.

A message names the offending value and the remedy. Each class carries the exit code that the command line uses, so
that a script can tell a bad table from a refused spend; the codes are part of the documented interface.
"""


class EquipoiseError(Exception):
    """Root of everything Equipoise raises on purpose."""

    exit_code = 1


class AgreementError(EquipoiseError):
    """The agreement is malformed, or the request does not fit it."""

    exit_code = 3


class TableError(EquipoiseError):
    """The private table cannot be read as the agreement demands."""

    exit_code = 4


class PrivacyError(EquipoiseError):
    """The requested guarantee or spend is refused."""

    exit_code = 5


class GuaranteeError(PrivacyError):
    """The numbers do not describe a privacy guarantee."""


class LedgerError(PrivacyError):
    """The ledger cannot be used: broken chain, unreadable file, locked by another process."""


class BudgetError(LedgerError):
    """The spend would exceed the cap, or touches columns whose public bounds have changed."""


class SubmissionError(EquipoiseError):
    """A submission is malformed, forged or does not belong to this agreement."""

    exit_code = 6


class ClippingWarning(UserWarning):
    """Much of a column lies outside its agreed bounds."""


class KeyFileWarning(UserWarning):
    """A signing key is open to others on its machine."""


class KeyFileError(EquipoiseError):
    """A signing key cannot be read, or is not the one the agreement names."""

    exit_code = 7


class InferenceError(EquipoiseError):
    """A posterior cannot be computed as asked."""

    exit_code = 8


class ConvergenceError(InferenceError):
    """The chains of a posterior do not agree well enough to be relied on."""


class MediationError(EquipoiseError):
    """A round cannot be settled as asked, or a settlement cannot be read."""

    exit_code = 9


class ExperimentError(EquipoiseError):
    """An experiment of the paper cannot be run as asked, or its data cannot be had."""

    exit_code = 10


class ServiceError(EquipoiseError):
    """A service cannot be reached, refuses what is asked, or cannot be started as asked."""

    exit_code = 11


class VerificationError(EquipoiseError):
    """What was received or exported is not what its signatures and digests say."""

    exit_code = 12
