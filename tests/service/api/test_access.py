"""Every request that the API knows, by everybody who could make it: one table says who gets what."""

from typing import Any

import pytest

from service.api.society import ROLES, Society

# Who asks: nobody, a party of the agreement that is not invited, two parties, the auditor, the operator, one revoked.
WHO = ("nobody", "west", "north", "south", "anne", "olga", "gone")

ANYONE = (200,) * 7
SIGNED_IN = (401, 200, 200, 200, 200, 200, 401)
OVERSEERS = (401, 403, 403, 403, 200, 200, 401)
OPERATOR = (401, 403, 403, 403, 403, 200, 401)
MEMBERS = (401, 404, 200, 200, 200, 200, 401)
OWN = (401, 404, 200, 200, 403, 403, 401)


def operator_gets(status: int) -> tuple[int, ...]:
    """The operator alone is let in, and told that it cannot be done now: nothing changes."""
    return tuple(status if answer == 200 else answer for answer in OPERATOR)


# The round is settled, the person waits, and bodies are such that nobody changes anything others rely on.
TABLE: dict[tuple[str, str], tuple[int, ...]] = {
    ("GET", "/v1/service"): ANYONE,
    ("GET", "/v1/health"): ANYONE,
    ("GET", "/v1/people"): OVERSEERS,
    ("POST", "/v1/people"): (401, 202, 202, 202, 202, 202, 202),  # with the own key, which is known: nothing new
    ("POST", "/v1/people/clearing"): OPERATOR,  # none are as old as that
    ("GET", "/v1/me"): SIGNED_IN,
    ("POST", "/v1/people/{person}/approval"): operator_gets(409),  # the fingerprint is another's
    ("POST", "/v1/people/{person}/refusal"): operator_gets(409),
    ("POST", "/v1/people/{person}/revocation"): operator_gets(409),
    ("POST", "/v1/operators"): (401,) * 7,  # with a wrong secret
    ("POST", "/v1/tokens"): SIGNED_IN,
    ("DELETE", "/v1/tokens"): (401, 204, 204, 204, 204, 204, 401),
    ("POST", "/v1/sign-in"): SIGNED_IN,
    ("GET", "/v1/rounds"): SIGNED_IN,
    ("POST", "/v1/rounds"): operator_gets(422),  # not an agreement
    ("GET", "/v1/rounds/{round}"): MEMBERS,
    ("GET", "/v1/rounds/{round}/agreement"): MEMBERS,
    ("POST", "/v1/rounds/{round}/invitations"): operator_gets(409),
    ("POST", "/v1/rounds/{round}/closing"): operator_gets(409),
    ("PUT", "/v1/rounds/{round}/submission"): (401, 404, 409, 409, 403, 403, 401),
    ("GET", "/v1/rounds/{round}/submission"): OWN,
    ("GET", "/v1/rounds/{round}/receipt"): OWN,
    ("POST", "/v1/rounds/{round}/settlement"): operator_gets(409),
    ("GET", "/v1/rounds/{round}/settlement"): MEMBERS,
    ("DELETE", "/v1/rounds/{round}/settlement"): operator_gets(409),
    ("GET", "/v1/rounds/{round}/results"): OVERSEERS,
    ("GET", "/v1/rounds/{round}/reward"): OWN,
    ("GET", "/v1/rounds/{round}/reward-receipt"): OWN,
    ("GET", "/v1/rounds/{round}/report"): MEMBERS,
    ("GET", "/v1/rounds/{round}/summary"): MEMBERS,
    ("GET", "/v1/rounds/{round}/audit"): MEMBERS,
    ("GET", "/v1/rounds/{round}/export"): OPERATOR,
    ("GET", "/v1/events"): OVERSEERS,
    ("GET", "/v1/rounds/{round}/chain"): MEMBERS,
}


def body(method: str, path: str, who: str) -> Any:
    roles = {**ROLES, "olga": "operator", "nobody": "party"}
    bodies: dict[tuple[str, str], Any] = {
        ("POST", "/v1/people"): {"name": who, "role": roles[who]},
        ("POST", "/v1/people/{person}/approval"): {"fingerprint": "0" * 32},
        ("POST", "/v1/people/{person}/refusal"): {"fingerprint": "0" * 32},
        ("POST", "/v1/people/clearing"): {"before": 0},
        ("POST", "/v1/operators"): {"secret": "x" * 43, "name": who},
        ("POST", "/v1/rounds"): {"agreement": "title = 'none'"},
        ("POST", "/v1/rounds/{round}/invitations"): {"party": "west"},
        ("PUT", "/v1/rounds/{round}/submission"): {},
        ("POST", "/v1/rounds/{round}/settlement"): {},
    }
    return bodies.get((method, path), b"")


def operations(everybody: Society) -> set[tuple[str, str]]:
    document = everybody.caller.app.openapi()
    return {(method.upper(), path) for path, methods in document["paths"].items() for method in methods}


def test_every_request_has_a_row(everybody: Society) -> None:
    assert operations(everybody) == set(TABLE)


@pytest.mark.parametrize("who", WHO)
def test_everybody_gets_what_the_table_says(everybody: Society, who: str) -> None:
    found = {}
    for method, path in TABLE:
        target = path.replace("{round}", everybody.settled).replace("{person}", str(everybody.waiting))
        key = everybody.keys.get(who)
        if (method, path) == ("DELETE", "/v1/tokens"):
            answer = everybody.caller.call(method, target, token=everybody.tokens.get(who))
        else:
            answer = everybody.caller.call(method, target, body(method, path, who), key=key)
        found[method, path] = answer.status
        if answer.status >= 400:
            assert set(answer.json["error"]) == {"code", "message"}
    assert found == {row: expected[WHO.index(who)] for row, expected in TABLE.items()}


def test_a_token_is_as_good_as_a_signature_and_no_better(everybody: Society) -> None:
    token = everybody.caller.call("POST", "/v1/tokens", key=everybody.keys["south"]).json["token"]
    call = everybody.caller.call
    assert call("GET", "/v1/me", token=token).json["name"] == "south"
    assert call("GET", "/v1/events", token=token).status == 403
    for longer in ("/v1/tokens", "/v1/sign-in"):  # what would outlive it needs the key
        assert call("POST", longer, token=token).status == 401
    assert call("GET", "/v1/me", token=token, key=everybody.keys["north"]).status == 401
    assert call("DELETE", "/v1/tokens", token=token).status == 204
    assert call("GET", "/v1/me", token=token).code == "not-signed-in"


def test_cookies_sign_nobody_in(everybody: Society) -> None:
    token = everybody.caller.call("POST", "/v1/tokens", key=everybody.keys["anne"]).json["token"]
    cookie = {"cookie": f"equipoise_session={token}"}
    assert everybody.caller.call("GET", "/v1/me", headers=cookie).status == 401


def test_a_round_that_is_not_there_looks_like_one_that_is_not_for_you(everybody: Society) -> None:
    missing, hidden = (
        everybody.caller.call("GET", f"/v1/rounds/{name}", key=everybody.keys["west"])
        for name in ("0" * len(everybody.settled), everybody.settled)
    )
    assert (missing.status, missing.code) == (hidden.status, hidden.code) == (404, "not-found")
    assert (
        missing.json["error"]["message"].replace("0" * len(everybody.settled), everybody.settled)
        == (hidden.json["error"]["message"])
    )


def test_each_party_gets_its_own_reward_and_report(everybody: Society) -> None:
    rewards = {}
    for name, other in (("north", "south"), ("south", "north")):
        answer = everybody.caller.call("GET", f"/v1/rounds/{everybody.settled}/reward", key=everybody.keys[name])
        rewards[name] = answer.body
        assert answer.headers["content-type"] == "application/x-netcdf"
        assert f"{name}.nc" in answer.headers["content-disposition"]
        report = everybody.caller.call("GET", f"/v1/rounds/{everybody.settled}/report", key=everybody.keys[name])
        assert "sandbox" in report.headers["content-security-policy"]
        mine, others = (everybody.submissions[one] for one in (name, other))
        own = everybody.caller.call("GET", f"/v1/rounds/{everybody.settled}/submission", key=everybody.keys[name])
        assert own.body == mine
        assert own.body != others
    assert rewards["north"] != rewards["south"]


def test_the_noise_secret_is_shown_to_nobody(everybody: Society) -> None:
    from equipoise_service.db.tables import Round

    with everybody.context.database.reading() as session:
        found = session.get(Round, everybody.settled)
    assert found is not None
    assert found.noise_secret is not None
    for who in WHO[2:6]:
        for part in ("", "/results", "/report", "/summary", "/audit", "/settlement"):
            answer = everybody.caller.call("GET", f"/v1/rounds/{everybody.settled}{part}", key=everybody.keys[who])
            assert found.noise_secret.encode() not in answer.body, (who, part)


def test_other_parties_numbers_are_hidden(everybody: Society) -> None:
    def seats(who: str) -> dict[str, Any]:
        answer = everybody.caller.call("GET", f"/v1/rounds/{everybody.settled}", key=everybody.keys[who])
        return {seat["party"]: (seat["epsilon"], seat["rows"]) for seat in answer.json["seats"]}

    assert seats("north") == {"north": (4.0, 200), "south": (None, None), "west": (None, None)}
    assert seats("anne") == {"north": (4.0, 200), "south": (4.0, 200), "west": (None, None)}
