"""What was decided in an exported round, checked against what went in, what came out, and the rules."""

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path

from equipoise.agreement import Agreement
from equipoise.client.export_archive import SETTLEMENT, Archive
from equipoise.errors import VerificationError
from equipoise.reward.model import Reward
from equipoise.settlement import Contribution, Settlement
from equipoise.wire import Submission


class SettledRound:
    """The settlement of an export."""

    def __init__(self, archive: Archive) -> None:
        self.archive = archive
        self.document = archive.document(SETTLEMENT)
        self.settlement = Settlement.parse(self.document, name=SETTLEMENT)

    def check_inputs(
        self, agreement: Agreement, submissions: Mapping[str, Submission], logged: Sequence[str | None]
    ) -> None:
        """Refuse a settlement of other inputs, or another than the one the log says was decided."""
        settlement = self.settlement
        if settlement.agreement.identity != agreement.identity:
            raise VerificationError(f"the settlement is of agreement {settlement.agreement.identity}, not of this one")
        if odd := sorted(set(settlement.contributions) ^ set(submissions)):
            raise VerificationError(f"{odd[0]!r} is in the settlement or among the submissions, but not in both")
        for party, submission in submissions.items():
            if settlement.contributions[party] != Contribution.of(submission):
                raise VerificationError(
                    f"the settlement used another submission of {party!r} than the one that is here"
                )
        if not logged or logged[-1] != settlement.decisions:
            said = "nothing of a settlement" if not logged else f"{str(logged[-1])[:16]}…"
            raise VerificationError(
                f"the decisions are {settlement.decisions[:16]}…, but the log says {said}: the settlement was changed"
            )

    @cached_property
    def with_rewards(self) -> Settlement:
        """The settlement with everybody's reward, each the one that was decided."""
        awards = dict(self.settlement.awards)
        if odd := sorted(set(awards) ^ set(self.archive.parties_in("rewards"))):
            raise VerificationError(f"of {odd[0]!r} there is an award without a reward, or a reward without an award")
        with tempfile.TemporaryDirectory(prefix="equipoise-") as folder:
            path = Path(folder) / "reward.nc"
            for party, award in awards.items():
                with path.open("wb") as file:
                    file.writelines(self.archive.chunks(f"rewards/{party}.nc"))
                reward = Reward.load(path)
                if (reward.party, reward.digest) != (party, award.digest):
                    raise VerificationError(f"the reward of {party!r} is not the one that was decided")
                awards[party] = replace(award, reward=reward)
        return replace(self.settlement, awards=awards)

    def check_audit(self) -> str:
        """Refuse verdicts that do not follow from the settlement and the very draws of the rewards.

        Reasons are words, which versions may choose differently; verdicts are compared.
        """
        try:
            said = {one["code"]: one["verdict"] for one in self.document["audit"]["findings"]}
        except (KeyError, TypeError) as error:
            raise VerificationError(f"the audit in the settlement cannot be read ({error!r})") from error
        found = {one.code: str(one.verdict) for one in self.with_rewards.audit}
        for code in sorted(set(said) | set(found)):
            if said.get(code) != found.get(code):
                raise VerificationError(
                    f"the audit says of {code}: {said.get(code)}; checked again, it is: {found.get(code)}"
                )
        counts = [f"{list(found.values()).count(verdict)} {verdict}" for verdict in dict.fromkeys(found.values())]
        return ", ".join(counts)

    def check_again(self, submissions: Mapping[str, Submission], *, force: bool) -> str:
        """Settle anew with the same options, and refuse other decisions."""
        from equipoise.mediator import mediate

        recorded = self.settlement
        options = dict(recorded.options)
        if options.get("mechanism") == "noise" and options.get("noise_secret") is None:
            raise VerificationError("rewards were made by noise, and the export has not the secret it was drawn from")
        try:
            anew = mediate(recorded.agreement, list(submissions.values()), **options, force=force, progress=False)
        except TypeError as error:
            raise VerificationError(f"the options of the settlement are not those of this version ({error})") from error
        if anew.decisions != recorded.decisions:
            then, here = recorded.environment, anew.environment
            other = [f"{name} {then.get(name)} then, {one} here" for name, one in here.items() if then.get(name) != one]
            why = f"; versions differ, which alone can do that: {', '.join(other)}" if other else ""
            raise VerificationError(f"settling again decides otherwise ({anew.decisions[:16]}…){why}")
        return f"decisions {anew.decisions}"
