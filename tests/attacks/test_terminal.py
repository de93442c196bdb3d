"""Words of others that would steer the terminal: titles, names and messages are shown with such letters written out."""

import ast
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

import equipoise.cli
import rounds
from equipoise._util.text import visible
from equipoise.protocol.keys import create_key
from program import run

NASTY = "fine\x1b]0;owned\x07\x1b[2J\u202emoc.live\x9b31m\r\x7f\u2066"
SHOWN = r"fine\u001b]0;owned\u0007\u001b[2J\u202emoc.live\u009b31m\r\u007f\u2066"
AGREEMENT = f"title = {json.dumps(NASTY)}\n{rounds.agreement_text('bernoulli', 2)}"


def clean(text: str) -> str:
    assert not set(text) & set(NASTY) - set("fine]0;owned[2Jmoc.live31m")
    return text


def join_the_folder(home: Path) -> None:
    (home / "agreement.toml").write_text(AGREEMENT, encoding="utf-8")
    run("join", home, "--party", "north", cwd=home)


def test_titles(tmp_path: Path) -> None:
    join_the_folder(tmp_path)
    assert SHOWN in clean(run("status", cwd=tmp_path).stdout)
    assert SHOWN in clean(run("agreement", "check", "agreement.toml", cwd=tmp_path).stdout)
    said = clean(run("status", "--json", cwd=tmp_path).stdout)
    assert json.loads(said)["rounds"][0]["title"] == NASTY  # scripts get what it is


def test_columns(tmp_path: Path) -> None:
    text = rounds.agreement_text("linear", 2).replace('"x"', json.dumps(NASTY))
    (tmp_path / "agreement.toml").write_text(text, encoding="utf-8")
    assert SHOWN in clean(run("agreement", "check", "agreement.toml", cwd=tmp_path, COLUMNS="300").stdout)


def test_parties(tmp_path: Path) -> None:
    (tmp_path / "agreement.toml").write_text(AGREEMENT.replace('"north"', json.dumps(NASTY)), encoding="utf-8")
    said = clean(run("agreement", "check", "agreement.toml", cwd=tmp_path, code=3).stderr)
    assert "parties[0].name" in said


@pytest.fixture
def hostile() -> Iterator[str]:
    """A service that answers every question with such a message."""

    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = json.dumps({"error": {"code": "no", "message": NASTY}}).encode()
            self.send_response(403)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Answer) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_messages_of_a_service(hostile: str, tmp_path: Path) -> None:
    create_key(tmp_path / "north.key")
    note = {"format": "equipoise-membership", "version": 1, "place": hostile, "service": "ab" * 32, "name": "north"}
    note |= {"role": "party", "key": "north.key", "ledger": None, "agreement": None, "ca": None}
    (tmp_path / "equipoise.json").write_text(json.dumps(note))
    assert SHOWN in clean(run("status", cwd=tmp_path, code=11).stderr)


def test_letters_of_all_languages_stay() -> None:
    for text in ("Zürich\tκ = ½\n", "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645", "\U0001f469\u200d\U0001f52c"):
        assert visible(text) == text


def test_nothing_is_printed_past_it() -> None:
    """All printing is in `cli/output.py`, but for predictions as CSV, which see to it themselves."""
    for path in Path(equipoise.cli.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "typer":
                assert node.attr not in ("echo", "secho") or path.name == "output.py", path
