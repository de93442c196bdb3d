"""Members' and operators' commands, against a real service and in a shared folder."""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest
import typer

import rounds
from client.listening import Commands, listening
from equipoise.agreement import Agreement
from equipoise.client.connection import RefusedError
from equipoise.client.membership import Membership
from equipoise.errors import (
    AgreementError,
    MediationError,
    PrivacyError,
    ServiceError,
    SubmissionError,
    VerificationError,
)
from equipoise.mediation.mediator import mediate
from equipoise.party.release import release
from equipoise.protocol.keys import public_hex
from equipoise.protocol.receipts import Receipt, RewardReceipt
from equipoise.protocol.submission import Submission
from equipoise.report import write_reports
from equipoise_service.context import Context
from equipoise_service.options import Options
from equipoise_service.rules import authentication, people, results, settlements
from equipoise_service.rules.access import Actor
from program import Terminal, run
from service.api.society import settle
from service.world import key_of

OPTIONS: dict[str, Any] = {"draws": 500, "precision": 1.0}


def agreement_text(kind: str) -> str:
    """Between two parties."""
    members = '[[parties]]\nname = "north"\n[[parties]]\nname = "south"\n'
    privacy = "[privacy]\norder = 2\nmax_epsilon = 100.0\n"
    return f'format = 1\ntitle = "Two practices"\n[model]\n{rounds.MODELS[kind]}\n{privacy}{members}'


AGREEMENT = agreement_text("bernoulli")  # the quickest to settle


@pytest.fixture
def command(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Commands:
    return Commands(tmp_path, capsys, monkeypatch)


@pytest.fixture
def context(tmp_path: Path) -> Iterator[Context]:
    made = Context.open(tmp_path / "service")
    yield made
    made.close()


@pytest.fixture
def url(context: Context) -> Iterator[str]:
    with listening(context) as address:
        yield address


def write_table(path: Path, seed: int, kind: str = "bernoulli") -> None:
    columns = rounds.table(kind, 200, seed)
    rows = zip(*columns.values(), strict=True)
    path.write_text("\n".join(",".join(map(str, row)) for row in (tuple(columns), *rows)) + "\n")


def operator_of(command: Commands, context: Context, url: str, folder: Path) -> Commands:
    olga = command.at(folder)
    link = f"{url}/first#{people.first_operator_secret(context)}"
    assert olga("join", link, "--party", "olga")["state"] == "approved"
    (folder / "agreement.toml").write_text(AGREEMENT)
    return olga


def test_the_front_page_shows_a_command_that_works(command: Commands, url: str, tmp_path: Path) -> None:
    shown = re.search(r"^equipoise (join .*?)</code>", httpx.get(url).text, re.MULTILINE)
    assert shown is not None
    assert command.at(tmp_path / "home")(*shlex.split(shown[1]))["state"] == "requested"


def test_an_operator_of_the_browser_gets_a_key(command: Commands, context: Context, url: str, tmp_path: Path) -> None:
    secret = people.first_operator_secret(context)
    ann = people.claim_first_operator(context, secret, name="ann")
    cookies = {"equipoise_session": authentication.start_session(context, ann)}
    shown = re.search(r"equipoise (join .*--role operator)", httpx.get(url, cookies=cookies).text)
    assert shown is not None
    home = command.at(tmp_path / "home")
    asked = home(*shlex.split(shown[1]))
    assert asked["state"] == "requested"
    [waiting] = [one for one in people.list_people(context, ann) if one.state == "requested"]
    people.decide(context, ann, waiting.id, approve=True, fingerprint=asked["fingerprint"])
    assert "/sign-in#" in home("login")["url"]
    assert home("operator", "people")[0]["name"] == "ann"
    assert "no-key" not in httpx.get(url, cookies=cookies).text


def test_the_operator_clears_all_that_wait(command: Commands, context: Context, url: str, tmp_path: Path) -> None:
    """Also those that came while the service's clock was a year ahead."""
    olga = operator_of(command, context, url, tmp_path / "olga")
    ahead = replace(context, clock=lambda: context.clock() + 365 * 24 * 3_600_000)
    for name, asked in (("eve", context), ("mallory", ahead)):
        people.ask_to_join(asked, name=name, role="party", public_key=public_hex(key_of(name)))
    assert olga("operator", "clear")["dropped"] == 2
    assert [one["name"] for one in olga("operator", "people")] == ["olga"]
    assert olga("operator", "clear")["dropped"] == 0


@pytest.mark.engine
def test_a_whole_round(command: Commands, context: Context, url: str, tmp_path: Path) -> None:
    olga = operator_of(command, context, url, tmp_path / "olga")
    homes = {name: command.at(tmp_path / name) for name in ("north", "south")}
    joined = {name: home("join", url, "--party", name) for name, home in homes.items()}
    assert joined["north"]["state"] == "requested"
    said = homes["north"].said("join", url, "--party", "north")
    assert joined["north"]["fingerprint"].upper() in said
    assert joined["north"]["service"] in said
    assert "waiting for approval" in homes["north"].said("status")
    with pytest.raises(ServiceError, match="nobody asked to join.*waiting are: north, south") as refused:
        olga("operator", "approve", joined["north"]["service"])
    assert joined["north"]["fingerprint"] not in str(refused.value)
    for one in joined.values():
        assert olga("operator", "approve", one["fingerprint"].upper().replace("-", " "))["state"] == "approved"
    assert [one["state"] for one in olga("operator", "people")] == ["approved"] * 3
    assert "north" in olga.said("operator", "people")

    with pytest.raises(ServiceError, match="in no round yet"):
        homes["north"]("submit", "north.csv", "--epsilon", 5)
    made = olga("operator", "create", "agreement.toml", "--no-invite")
    assert olga("operator", "invite", made["round"], "north")["party"] == "north"
    olga("operator", "invite", made["round"], "south")
    assert made["identity"] == Agreement.parse(AGREEMENT).identity

    for seed, (name, home) in enumerate(homes.items()):
        write_table(home.folder / f"{name}.csv", seed)
        assert home("submit", f"{name}.csv", "--epsilon", 5, "--dry-run")["would_send"]["count"] == 200
        assert not (home.folder / f"{name}.ledger").exists()
        assert home("submit", f"{name}.csv", "--epsilon", 5)["spent"]
    receipt = (tmp_path / "north" / "north.receipt.json").read_bytes()
    Receipt.parse(receipt).check(context.public_key)
    _resend(homes["north"], receipt)
    assert "2 of 2 submitted, you too" in homes["north"].said("status")
    assert "epsilon 5" in olga.said("operator", "rounds")
    with pytest.raises(ServiceError, match="not yet"):
        homes["north"]("fetch")

    assert olga("operator", "start", made["round"], "--draws", 500, "--precision", 1)["state"] == "settling"
    (seen,) = homes["north"]("status")["rounds"]
    assert (seen["state"], seen["progress"]["stage"]) == ("settling", None)
    assert olga("operator", "cancel", made["round"])["state"] == "open"
    with pytest.raises(ServiceError, match="not settling: cancelled"):
        olga("operator", "watch", made["round"])
    olga("operator", "start", made["round"], "--draws", 500, "--precision", 1, "--rho", "max")
    settle(context, made["round"])
    assert olga("operator", "watch", made["round"])["state"] == "settled"
    _fetch(homes["north"], made["round"])

    _export(olga, made["round"], homes["north"], joined["north"])
    assert homes["north"]("login")["url"].startswith(f"{url}/sign-in#")
    assert olga("operator", "revoke", "north")["state"] == "revoked"
    assert homes["north"]("status")["state"] == "revoked"
    with pytest.raises(ServiceError, match=r"revoked 'north'.*--key NEW\.key.*--membership"):
        homes["north"]("join", url, "--party", "north")


def _export(olga: Commands, round_id: str, north: Commands, joined: dict[str, str]) -> None:
    export = olga("operator", "export", round_id, "-o", "round.zip")["export"]
    own = north.folder / "north.receipt.json"
    found = olga("verify", export, "--receipt", own, "--service", joined["service"])
    assert found["genuine"]
    assert "The export is consistent" in olga.said("verify", export)
    with pytest.raises(VerificationError, match="not by"):
        olga("verify", export, "--service", joined["fingerprint"])
    for arguments in (("none.zip",), (export, "--receipt", own, "--receipt", "none.json")):
        with pytest.raises(typer.BadParameter, match="there is no file 'none"):
            olga("verify", *arguments)
    (olga.folder / "half.zip").write_bytes((olga.folder / export).read_bytes()[:1000])
    with pytest.raises(VerificationError, match="is not an export.*get it again from the operator"):
        olga("verify", "half.zip")


def _resend(north: Commands, receipt: bytes) -> None:
    """Whatever way it is sent again, the bytes are the same, nothing is spent, and the receipt is the same."""
    ledger = (north.folder / "north.ledger").read_bytes()
    Submission.model_validate(json.loads(ledger.splitlines()[-1])["submission"]).save(north.folder / "copy.json")
    for arguments in (("north.csv", "--epsilon", 5), ("north.csv",), (), ("copy.json",)):
        assert not north("submit", *arguments)["spent"]
    assert (north.folder / "north.receipt.json").read_bytes() == receipt
    assert north.said("submit", "north.csv").startswith("Sent again what was released before; north.csv was not read.")
    assert "Submitted for north" in north.said("submit")
    assert (north.folder / "north.ledger").read_bytes() == ledger
    with pytest.raises(PrivacyError, match="at epsilon 5, not 6"):
        north("submit", "north.csv", "--epsilon", 6)
    (north.folder / "north.receipt.json").write_text("of another round")
    kept = Path(north("submit")["receipt"])
    assert kept.name == f"north.{Receipt.parse(receipt).round}.receipt.json"
    assert (north.folder / kept).read_bytes() == receipt
    (north.folder / "north.receipt.json").write_bytes(receipt)


def _fetch(north: Commands, round_id: str) -> None:
    found = north("fetch", "--wait")
    files = {"reward": "north.nc", "receipt": "north.reward-receipt.json", "report": "north.report.html"}
    known = {"party": "north", "round": round_id, "title": "Two practices", "deviations": [], **files}
    receipt = RewardReceipt.parse((north.folder / files["receipt"]).read_bytes())
    assert found == {**known, "decisions": receipt.decisions}
    assert f"round {round_id} “Two practices” is north.nc" in " ".join(north.said("fetch").split())
    reward = (north.folder / "north.nc").read_bytes()
    assert north("fetch") == found
    (north.folder / "north.nc").write_bytes(b"something else")
    with pytest.raises(MediationError, match="another file"):
        north("fetch")
    north("fetch", "-o", "again.nc")
    assert (north.folder / "again.nc").read_bytes() == reward
    _fetch_beside(north, round_id, reward)
    assert not list(north.folder.glob(".*partial"))


def _fetch_beside(north: Commands, round_id: str, reward: bytes) -> None:
    """What has the name and is of another round stays."""
    other = reward + b"\0"  # another file that reads as a reward
    (north.folder / "north.nc").write_bytes(other)
    (north.folder / "north.report.html").write_text("of another round")
    found = north("fetch")
    assert (found["reward"], found["report"]) == (f"north.{round_id}.nc", f"north.{round_id}.report.html")
    assert (north.folder / found["reward"]).read_bytes() == reward
    assert (north.folder / "north.nc").read_bytes() == other
    assert (north.folder / "north.report.html").read_text() == "of another round"
    assert north("fetch") == found


def test_the_operators_own_things(command: Commands, context: Context, url: str, tmp_path: Path) -> None:
    olga = operator_of(command, context, url, tmp_path / "olga")
    assert (tmp_path / "olga" / "equipoise.json").stat().st_mode & 0o777 == 0o600
    used = f"{url}/first#{'x' * 43}"
    assert olga("join", used, "--party", "olga")["state"] == "approved"  # by this key, so that no link is needed
    assert olga("operator", "backup", "--data", context.folder, "-o", tmp_path / "copy")["backup"]
    assert (tmp_path / "copy" / "service.key").exists()
    with pytest.raises(ServiceError, match="no data folder"):
        olga("operator", "backup", "-o", tmp_path / "copy2")
    with pytest.raises(ServiceError, match="nobody called 'north' is approved"):
        olga("operator", "revoke", "north")
    with pytest.raises(ServiceError, match="32 digits in eight groups; got 31$"):
        olga("operator", "approve", "2c26-b46b-68ff-c68f-f99b-453c-1d30-413")
    with pytest.raises(ServiceError, match="got 32, and l is none of 0 to 9"):
        olga("operator", "approve", "2c26-b46b-68ff-c68f-f99b-453c-1d30-4l34")


def test_joining(command: Commands, context: Context, url: str, tmp_path: Path) -> None:
    with pytest.raises(ServiceError, match="do not join"):
        command("join", url, "--party", "north", "--fingerprint", "0" * 32)
    assert not (tmp_path / "equipoise.json").exists()
    with pytest.raises(ServiceError, match="no role 'king'"):
        command("join", url, "--party", "north", "--role", "king")
    with pytest.raises(ServiceError, match="cannot be a name"):
        command("join", url, "--party", "../north")
    with pytest.raises(ServiceError, match="makes an operator"):
        command("join", f"{url}/first#secret", "--party", "north", "--role", "auditor")
    with pytest.raises(RefusedError, match="one-time link was used"):
        command("join", f"{url}/first#{'x' * 43}", "--party", "olga")
    first = command("join", url, "--party", "ada", "--role", "auditor", "--note", "of the ministry")
    assert (first["state"], first["key"], first["ledger"]) == ("requested", "ada.key", None)
    assert command("join", url, "--party", "ada", "--role", "auditor") == first
    with pytest.raises(ServiceError, match=r"membership of 'ada' \(auditor\)"):
        command("join", url, "--party", "north")
    with pytest.raises(ServiceError, match="parties submit"):
        command("submit", "north.csv", "--epsilon", 1)
    with pytest.raises(ServiceError, match="rewards are fetched by their parties"):
        command("fetch")
    with pytest.raises(RefusedError, match="not approved"):
        command("login")


def test_a_service_that_moved(command: Commands, context: Context, url: str, tmp_path: Path) -> None:
    first = command("join", url, "--party", "north")
    with listening(context) as moved:
        assert command("join", moved, "--party", "north") == first | {"place": moved}
    assert Membership.load(tmp_path / "equipoise.json").url == moved
    assert command("join", url, "--party", "north") == first
    with (
        closing(Context.open(tmp_path / "another")) as another,
        listening(another) as elsewhere,
        pytest.raises(ServiceError, match="membership of 'north'.*choose another file"),
    ):
        command("join", elsewhere, "--party", "north")
    assert Membership.load(tmp_path / "equipoise.json").url == url


def test_who_compares_the_fingerprint(command: Commands, context: Context, url: str, tmp_path: Path) -> None:
    link = f"{url}/first#{people.first_operator_secret(context)}"
    assert "Tell the parties this fingerprint" in command.at(tmp_path / "olga").said("join", link, "--party", "olga")
    assert "Compare it with what" in command.at(tmp_path / "north").said("join", url, "--party", "north")


def test_an_agreement_that_is_not_the_known_one(command: Commands, context: Context, url: str, tmp_path: Path) -> None:
    olga = operator_of(command, context, url, tmp_path / "olga")
    north = command.at(tmp_path / "north")
    (tmp_path / "other.toml").write_text(AGREEMENT.replace("max_epsilon = 100.0", "max_epsilon = 1.0"))
    joined = north("join", url, "--party", "north", "--agreement", "../other.toml")
    olga("operator", "approve", joined["fingerprint"])
    made = olga("operator", "create", "agreement.toml")
    write_table(tmp_path / "north" / "north.csv", 0)
    submit = ("submit", "north.csv", "--epsilon", 0.5)
    with pytest.raises(AgreementError, match=f"{made['identity']}, but the one you joined with is"):
        north(*submit)
    assert not (tmp_path / "north" / "north.ledger").exists()
    (tmp_path / "north" / "equipoise.json").unlink()
    north("join", url, "--party", "north")
    (tmp_path / "north" / "agreement.toml").write_text((tmp_path / "other.toml").read_text())
    with pytest.raises(AgreementError, match=r"yours \(agreement\.toml\)"):
        north(*submit)
    with pytest.raises(PrivacyError, match="has no finished release.*--epsilon E"):
        north("submit", "--agreement", "../olga/agreement.toml")
    with pytest.raises(AgreementError, match="--epsilon E .*100 is the agreed maximum.*--zcdp R or --approx E D"):
        north("submit", "north.csv", "--agreement", "../olga/agreement.toml")
    olga("operator", "close", made["round"])
    with pytest.raises(ServiceError, match="closed, not open"):
        north(*submit, "--agreement", "../olga/agreement.toml")
    assert not (tmp_path / "north" / "north.ledger").exists()


def test_submitting_gets_a_second_look(tmp_path: Path) -> None:
    """On a terminal; what was released before is sent again without a question, for it costs nothing."""
    shared = tmp_path / "shared"
    shared.mkdir()
    (shared / "agreement.toml").write_text(agreement_text("linear"))
    write_table(tmp_path / "north.csv", 0, "linear")
    run("join", "shared", "--party", "north", cwd=tmp_path)
    submit = ("submit", "north.csv", "--epsilon", 1)
    refused = run(*submit, cwd=tmp_path, code=5, typed=Terminal("n\n"))
    assert "Spend this? [y/N]" in refused.stderr
    assert not (tmp_path / "north.ledger").exists()
    assert not list(shared.rglob("*.submission.json"))
    assert "Submitted for north" in run(*submit, cwd=tmp_path, typed=Terminal("y\n")).stdout
    assert "Spend this?" not in run(*submit, cwd=tmp_path, typed=Terminal("")).stderr
    (tmp_path / "south.csv").write_text("x,y\n" + "9,1\n" * 30)
    run("join", "shared", "--party", "south", "--membership", "south.json", cwd=tmp_path)
    clipped = ("submit", "south.csv", "--epsilon", 1, "--membership", "south.json")
    assert "100% of the first values of 'x'" in run(*clipped, cwd=tmp_path, code=4).stderr
    assert not (tmp_path / "south.ledger").exists()
    assert "NEW ledger" in run(*clipped, "--allow-clipping", "--yes", cwd=tmp_path, typed=Terminal("")).stderr


def test_another_partys_submission(command: Commands, tmp_path: Path) -> None:
    place = tmp_path / "round"
    place.mkdir()
    (place / "agreement.toml").write_text(AGREEMENT)
    with pytest.raises(AgreementError, match="'east' is not a party"):
        command("join", "round", "--party", "east")
    north, south = command.at(tmp_path / "north"), command.at(tmp_path / "south")
    assert north("join", "../round", "--party", "north")["state"] == "approved"
    south("join", "../round", "--party", "south")
    write_table(tmp_path / "south" / "south.csv", 1)
    assert south("submit", "south.csv", "--epsilon", 5)["receipt"] is None
    sent = "../round/submissions/south.submission.json"
    with pytest.raises(SubmissionError, match="of 'south', not of 'north'"):
        north("submit", sent)
    (tmp_path / "south" / "south.ledger.key").unlink()
    south("join", "../round", "--party", "south")
    with pytest.raises(SubmissionError, match="not with yours"):
        south("submit", sent)
    with pytest.raises(ServiceError, match="where no service answers"):
        north("login")


SCRIPT = {
    "join": 'equipoise join "$PLACE" --party north',
    "submit": "equipoise submit north.csv --epsilon 50",
    "fetch": "equipoise fetch --wait -o reward.nc --report report.html\n"
    "equipoise predict reward.nc --party north --data north.csv -o predictions.csv",
}


def run_script(step: str, home: Path, place: str) -> None:
    """A part of the script by a shell, with the program on its path."""
    program = f'equipoise() {{ "{sys.executable}" -m equipoise "$@"; }}\nset -e\n'
    environment = {**os.environ, "PLACE": place}
    done = subprocess.run(
        ["sh", "-c", program + SCRIPT[step]], cwd=home, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


def south_submission(folder: Path) -> bytes:
    """What the other party submits, released at home."""
    return release(
        Agreement.parse(agreement_text("linear")), rounds.table("linear", 200, 1), party="south", epsilon=50.0,
        ledger=folder / "south.ledger",
    ).to_json()  # fmt: skip


@pytest.mark.process
@pytest.mark.engine
@pytest.mark.slow
@pytest.mark.exhaustive
def test_the_same_script_on_a_folder_and_on_a_service(
    command: Commands, context: Context, url: str, tmp_path: Path
) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    (shared / "agreement.toml").write_text(agreement_text("linear"))
    south = south_submission(tmp_path)
    folder, service = tmp_path / "by_folder", tmp_path / "by_service"
    folder.mkdir()
    write_table(folder / "north.csv", 0, "linear")
    run_script("join", folder, str(shared))
    run_script("submit", folder, str(shared))
    service.mkdir()  # the same party, who has released before
    for name in ("north.csv", "north.ledger", "north.ledger.key"):
        shutil.copy(folder / name, service / name)
    run_script("join", service, url)
    olga = operator_of(command, context, url, tmp_path / "olga")
    (waiting,) = [one for one in olga("operator", "people") if one["state"] == "requested"]
    olga("operator", "approve", waiting["fingerprint"])
    made = olga("operator", "create", shared / "agreement.toml")["round"]
    run_script("submit", service, url)

    (shared / "submissions" / "south.submission.json").write_bytes(south)
    paths = sorted((shared / "submissions").iterdir())
    settlement = mediate(
        Agreement.load(shared / "agreement.toml"),
        [Submission.load(path) for path in paths],
        folder=shared / "settlement",
        processes=1,
        **OPTIONS,
    )
    write_reports(settlement, shared / "settlement")
    settlements.start(context, Actor(1, "olga", "operator", None), made, Options(**OPTIONS))
    with context.database.writing(exclusive=True) as session:
        results.store(session, context, made, settlement)

    run_script("fetch", folder, str(shared))
    run_script("fetch", service, url)
    files = {path.name for path in folder.iterdir() if path.suffix != ".lock"}  # of a release
    receipts = {"north.receipt.json", "reward.reward-receipt.json"}
    assert {path.name for path in service.iterdir()} == files | receipts
    predictions = (folder / "predictions.csv").read_text()
    assert len(predictions.splitlines()) == 201
    assert (service / "predictions.csv").read_text() == predictions


@pytest.mark.process
def test_help_loads_no_network(tmp_path: Path) -> None:
    code = (
        "import sys\nfrom equipoise.cli.app import app\n"
        "for arguments in (['--help'], ['operator', '--help']):\n"
        "    try:\n        app(arguments)\n    except SystemExit:\n        pass\n"
        "assert not {'httpx', 'numpy', 'uvicorn', 'sqlalchemy'} & set(sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_a_lost_connection_costs_nothing(
    command: Commands, context: Context, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The service is away after the release; the next run sends the very bytes that were paid for."""
    olga = operator_of(command, context, url, tmp_path / "olga")
    north = command.at(tmp_path / "north")
    olga("operator", "approve", north("join", url, "--party", "north")["fingerprint"])
    olga("operator", "create", "agreement.toml")
    write_table(tmp_path / "north" / "north.csv", 0)
    from equipoise.client.service_round import ServiceRound

    def lost(self: ServiceRound, data: bytes) -> None:
        raise ServiceError("the connection was lost")

    with monkeypatch.context() as patch:
        patch.setattr(ServiceRound, "submit", lost)
        with pytest.raises(ServiceError, match="lost"):
            north("submit", "north.csv", "--epsilon", 5)
    ledger = (tmp_path / "north" / "north.ledger").read_bytes()
    assert ledger
    assert not north("submit", "north.csv", "--epsilon", 5)["spent"]
    assert (tmp_path / "north" / "north.ledger").read_bytes() == ledger
