"""Rounds: made from an agreement, seen by whom they concern."""

from fastapi import Request

from equipoise.agreement import Agreement
from equipoise.service.rules import rounds
from equipoise.service.rules.access import require
from equipoise.service.web.api.routes import answers, new_router
from equipoise.service.web.api.shapes import AgreementShape, Invitation, NewRound, Round, Rounds, RoundShape
from equipoise.service.web.auth import SignedIn, context_of

router = new_router("rounds")


@router.get("/rounds", responses=answers(401, 403))
def all_rounds(request: Request, actor: SignedIn) -> Rounds:
    """The rounds you may see: all for the operator and the auditor, those it is invited to for a party."""
    return Rounds(rounds=[RoundShape.of(view) for view in rounds.listed(context_of(request), actor)])


@router.post("/rounds", status_code=201, responses=answers(401, 403, 409, 415))
def create(request: Request, new: NewRound, actor: SignedIn) -> RoundShape:
    """Make a round from an agreement in TOML. For the operator."""
    context = context_of(request)
    require(actor, "create-rounds")  # before the agreement is read, which takes longer than this
    made = rounds.create(context, actor, Agreement.parse(new.agreement), invite=new.invite)
    return RoundShape.of(rounds.seen(context, actor, made))


@router.get("/rounds/{round}", responses=answers(401, 403, 404))
def one_round(request: Request, round: Round, actor: SignedIn) -> RoundShape:  # noqa: A002
    """One round, and who has submitted."""
    return RoundShape.of(rounds.seen(context_of(request), actor, round))


@router.get("/rounds/{round}/agreement", responses=answers(401, 403, 404))
def agreement(request: Request, round: Round, actor: SignedIn) -> AgreementShape:  # noqa: A002
    """What all parties of a round sign up to. Compare its identity with that of the file you agreed to."""
    view = rounds.seen(context_of(request), actor, round)
    return AgreementShape(identity=view.identity, agreement=view.agreement.model_dump(mode="json"))


@router.post("/rounds/{round}/invitations", responses=answers(401, 403, 404, 409, 415))
def invite(request: Request, round: Round, invitation: Invitation, actor: SignedIn) -> RoundShape:  # noqa: A002
    """Let a party of the agreement see the round and submit. For the operator."""
    context = context_of(request)
    rounds.invite(context, actor, round, invitation.party)
    return RoundShape.of(rounds.seen(context, actor, round))


@router.post("/rounds/{round}/closing", responses=answers(401, 403, 404, 409))
def close(request: Request, round: Round, actor: SignedIn) -> RoundShape:  # noqa: A002
    """End an open round without settling it. For the operator."""
    context = context_of(request)
    rounds.close(context, actor, round)
    return RoundShape.of(rounds.seen(context, actor, round))
