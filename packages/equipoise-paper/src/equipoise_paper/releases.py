"""Submissions with noise from a seed, for experiments that compare several ε with the same noise; never for real rows.

The noise is z σ(ε) with the same z for every ε, like that of a fixed random seed in the paper. Signatures are genuine,
so that the library processes these submissions like any others.
"""

from dataclasses import dataclass

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from equipoise._util.canonical import sha256_hex
from equipoise.agreement import Agreement
from equipoise.models import layout_of
from equipoise.models.guarantee import Guarantee
from equipoise.party.statistics import ExactStatistic, exact_statistic
from equipoise.protocol.submission import FORMAT, VERSION, StatedGuarantee, Submission
from equipoise_paper.settings import PARTIES, Setting


@dataclass(frozen=True)
class Sender:
    """A party of the setting at an ε, under a name: one party may take part several times, at several ε."""

    party: str
    epsilon: float
    name: str


def statistics_of(setting: Setting) -> dict[str, ExactStatistic]:
    """Compute every party's exact statistic."""
    layout = layout_of(setting.agreement(PARTIES))
    statistics = {}
    for party, (features, targets) in setting.tables.items():
        labels = targets.astype(np.int64) if setting.kind == "logistic" else targets
        columns = {f"x{number}": values for number, values in enumerate(features.T)}
        statistics[party] = exact_statistic(layout, {**columns, "y": labels})
    return statistics


def submissions(setting: Setting, senders: list[Sender], noise_seed: int) -> tuple[Agreement, list[Submission]]:
    """Return an agreement of the senders, and the submission of each under it."""
    agreement = setting.agreement([sender.name for sender in senders])
    layout = layout_of(agreement)
    statistics = statistics_of(setting)
    sent = []
    for sender in senders:
        exact = statistics[sender.party]
        guarantee = Guarantee(order=setting.order, epsilon=sender.epsilon)
        unit = np.random.default_rng([noise_seed, PARTIES.index(sender.party)]).normal(size=len(layout))
        scale = layout.noise_steps(guarantee)
        key = Ed25519PrivateKey.from_private_bytes(bytes.fromhex(sha256_hex(f"{noise_seed} {sender.name}".encode())))
        unsigned = Submission(
            format=FORMAT,
            version=VERSION,
            agreement=agreement.identity_digest,
            party=sender.name,
            id=sha256_hex(f"{setting.name} {noise_seed} {sender!r}".encode()),
            guarantee=StatedGuarantee(order=guarantee.order, epsilon=guarantee.epsilon),
            count=exact.count,
            statistic=[value + round(scale * z) for value, z in zip(exact.values, unit.tolist(), strict=True)],
            public_key=key.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw).hex(),
            signature="0" * 128,
        )
        sent.append(unsigned.model_copy(update={"signature": key.sign(unsigned.signed_bytes()).hex()}))
    return agreement, sent


def plain_submissions(
    setting: Setting, epsilons: dict[str, float], noise_seed: int
) -> tuple[Agreement, list[Submission]]:
    """Return an agreement and submissions in which every party takes part once, under its own name."""
    return submissions(setting, [Sender(party, epsilons[party], party) for party in PARTIES], noise_seed)
