"""Submissions of experiments: the same noise at every ε, genuine signatures, and a party under several names."""

import numpy as np
import pytest

from equipoise.errors import SubmissionError
from equipoise.models import layout_of
from equipoise.protocol.submission import Submission
from equipoise_paper.releases import Sender, plain_submissions, statistics_of, submissions
from equipoise_paper.settings import EPSILONS, PARTIES, Setting


def unit_noise(setting: Setting, submission: Submission, party: str) -> np.ndarray:
    """What was added to the exact statistic, in standard deviations."""
    layout = layout_of(setting.agreement(PARTIES))
    exact = np.array(statistics_of(setting)[party].values, dtype=object)
    added = np.array(submission.statistic, dtype=object) - exact  # whole numbers of any size
    return np.asarray(added.astype(float) / layout.noise_steps(submission.stated))


def test_the_noise_is_the_same_in_standard_deviations_at_every_epsilon(syn: Setting) -> None:
    found = []
    for epsilon in (0.004, 0.1, 12.5):
        _, sent = plain_submissions(syn, dict.fromkeys(PARTIES, epsilon), 5)
        found.append([unit_noise(syn, one, one.party) for one in sent])
    np.testing.assert_allclose(found[1], found[0], atol=1e-6)
    np.testing.assert_allclose(found[2], found[0], atol=1e-6)
    assert np.std(found[0]) == pytest.approx(1, abs=0.4)
    assert not np.allclose(found[0][0], found[0][1])  # parties have noise of their own
    _, others = plain_submissions(syn, EPSILONS, 6)
    assert not np.allclose(unit_noise(syn, others[0], "1"), found[0][0])


def test_submissions_are_genuine(syn: Setting, diab: Setting) -> None:
    for setting in (syn, diab):
        agreement, sent = plain_submissions(setting, EPSILONS, 5)
        assert [one.party for one in sent] == list(PARTIES)
        for one in sent:
            one.check(agreement)
            assert one.count == len(setting.tables[one.party][1])
            assert one.guarantee.epsilon == EPSILONS[one.party]
        forged = sent[0].model_copy(update={"count": sent[0].count + 1})
        with pytest.raises(SubmissionError, match="altered after it was signed"):
            forged.check(agreement)


def test_one_party_under_several_names(syn: Setting) -> None:
    senders = [Sender("1", 0.2, "1"), Sender("2", 0.1, "2-strong"), Sender("2", 10.0, "2-weak")]
    agreement, sent = submissions(syn, senders, 5)
    assert agreement.party_names == ("1", "2-strong", "2-weak")
    for one in sent:
        one.check(agreement)
    assert len({one.id for one in sent}) == len({one.public_key for one in sent}) == 3
    assert sent[1].count == sent[2].count == 200
    np.testing.assert_allclose(unit_noise(syn, sent[1], "2"), unit_noise(syn, sent[2], "2"), atol=1e-6)
