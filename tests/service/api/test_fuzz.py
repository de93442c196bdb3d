"""Requests made up from the API's own description: whatever comes, the answer is one that the description allows."""

import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import schemathesis
from fastapi import FastAPI
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from equipoise.protocol.requests import SIGNATURE
from equipoise_service.context import Context
from equipoise_service.rules import authentication, people, submissions
from equipoise_service.settings import Settings
from equipoise_service.web.app import create_app
from rounds import MODELS
from service.api.society import KIND, SETTINGS, Society

CHECKS: list[Any] = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
]
TEXT = f"format = 1\n[model]\n{MODELS[KIND]}\n[privacy]\nmax_epsilon = 1\n[[parties]]\nname = 'north'\n"
# Those that end a round or somebody's access come last, or the others would have nothing and nobody left to ask.
LAST = ("POST /v1/rounds/{round}/closing", "DELETE /v1/tokens", "POST /v1/people/{person}/revocation")


@pytest.fixture
def copied(everybody: Society, tmp_path: Path) -> Iterator[Context]:
    """A service of its own, with the same people and rounds."""
    shutil.copytree(everybody.context.folder, tmp_path / "data")
    context = Context.open(tmp_path / "data")
    north = authentication.actor_of_key(context, everybody.keys["north"].public)
    submissions.accept(context, north, everybody.open, everybody.submissions["north"])
    yield context
    context.close()


def app_of(context: Context) -> FastAPI:
    return create_app(context, Settings(public_url="http://testserver", rates=SETTINGS.rates))


def fuzz(everybody: Society, context: Context, examples: int) -> Counter[int]:
    """So many requests of each kind, by everybody in turn; how often each status was answered."""
    schema = schemathesis.openapi.from_asgi("/v1/openapi.json", app_of(context))
    known = [everybody.settled, everybody.open]
    tokens = {name: new_token(context, everybody, name) for name in ("olga", "north", "south", "anne")}
    statuses: Counter[int] = Counter()
    operations: list[Any] = [found.ok() for found in schema.get_all_operations()]  # type: ignore[union-attr]
    for operation in sorted(operations, key=lambda one: one.label in LAST):
        cases = operation.as_strategy(GenerationMode.POSITIVE) | operation.as_strategy(GenerationMode.NEGATIVE)

        @settings(
            max_examples=examples,
            derandomize=True,
            database=None,
            deadline=None,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        @given(case=cases, who=st.sampled_from([*tokens, None]), place=st.sampled_from([*known, *known, None]))
        def ask(case: Any, who: str | None, place: str | None) -> None:
            headers = {}
            if who is not None:
                for made_up in ("Authorization", SIGNATURE):
                    case.headers.pop(made_up, None)
                headers["Authorization"] = f"Bearer {tokens[who]}"
            if place is not None:
                make_plausible(case, place)
            response = case.call(headers=headers)
            statuses[response.status_code] += 1
            assert b"Traceback" not in response.content
            case.validate_response(response, checks=CHECKS)

        ask()
    return statuses


def make_plausible(case: Any, place: str) -> None:
    """Put what is known where it belongs, to get further than to the first refusal."""
    if "round" in case.path_parameters:
        case.path_parameters["round"] = place
    if case.operation.label == "POST /v1/rounds" and isinstance(case.body, dict):
        case.body["agreement"] = TEXT
    if case.operation.label == "POST /v1/rounds/{round}/settlement" and isinstance(case.body, dict):
        case.body["teams"] = None


def new_token(context: Context, everybody: Society, name: str) -> str:
    return authentication.new_token(context, authentication.actor_of_key(context, everybody.keys[name].public))[0]


def test_two_hundred_made_up_requests(everybody: Society, copied: Context) -> None:
    statuses = fuzz(everybody, copied, 7)
    assert statuses.total() > 180
    assert {200, 401, 403, 404, 422} <= set(statuses), statuses


@pytest.mark.parametrize(
    ("examples", "least"),
    [
        pytest.param(40, 1_000, marks=pytest.mark.slow),
        pytest.param(370, 10_000, marks=pytest.mark.exhaustive),
    ],
)
def test_many_made_up_requests(examples: int, least: int, everybody: Society, copied: Context) -> None:
    statuses = fuzz(everybody, copied, examples)
    assert statuses.total() >= least
    rare = {202} if examples > 100 else set()  # a settlement that starts
    assert {200, 201, 204, 401, 403, 404, 409, 422} | rare <= set(statuses), statuses
    assert people.has_operator(copied)


def test_the_fuzzer_finds_what_is_wrong(everybody: Society, copied: Context) -> None:
    """A route that answers what it did not declare, and one that fails, are both found."""
    for broken in (lambda: {"more": "than declared"}, lambda: 1 / 0):
        app = app_of(copied)
        app.get("/v1/broken", response_model=None, responses={200: {"model": int}})(broken)
        schema = schemathesis.openapi.from_asgi("/v1/openapi.json", app)
        case = schema["/v1/broken"]["GET"].Case()
        with pytest.raises(BaseException, match="(?s)(Response violates schema|Server error)"):
            case.validate_response(case.call(), checks=CHECKS)
