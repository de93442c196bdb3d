"""What is believed, and predicted, before anybody has released anything."""

from equipoise.inference.infer import infer
from equipoise.reproduction.posteriors import MOST_DRAWS_TO_PREDICT_WITH, Floats
from equipoise.reproduction.releases import plain_submissions
from equipoise.reproduction.settings import EPSILONS, NOISE_SEED, Setting
from equipoise.reward.scoring import loss_on


def prior_draws(setting: Setting, number: int) -> dict[str, Floats]:
    """Parameters drawn from the prior."""
    agreement, sent = plain_submissions(setting, EPSILONS, NOISE_SEED)  # of which nothing is used but the agreement
    return dict(infer(agreement, sent, method="prior", draws=number).draws)


def prior_loss(setting: Setting) -> float:
    """MNLP of the prior on the test rows."""
    return loss_on(setting.test_rows, prior_draws(setting, MOST_DRAWS_TO_PREDICT_WITH)).value
