"""The table of commands says what their functions say, and a settlement's options are those of its settings."""

from importlib import import_module
from typing import get_args

import pytest
from typer.main import get_command

import equipoise_paper
import equipoise_service.cli
from equipoise.cli import app
from equipoise.cli.app import ELSEWHERE, Command
from equipoise.cli.settings import settlement_options
from equipoise.errors import MediationError
from equipoise.mediation.settings import SettlementSettings

COMMANDS = {**app.COMMANDS, **equipoise_service.cli.COMMANDS, **equipoise_paper.COMMANDS}
ALL = {name: one for name, one in COMMANDS.items() if isinstance(one, Command)} | {
    f"{group} {name}": command
    for group, one in COMMANDS.items()
    if not isinstance(one, Command)
    for name, command in one.commands.items()
}


@pytest.mark.parametrize("name", ALL)
def test_the_line_of_help_is_the_first_of_the_docstring(name: str) -> None:
    command = ALL[name]
    module = import_module(command.module, "equipoise.cli")
    function = getattr(module, name.rpartition(" ")[2].replace("-", "_"))
    assert function.__module__ == module.__name__
    assert function.__doc__.splitlines()[0] == command.help


def test_commands_of_other_distributions_are_registered() -> None:
    elsewhere = {**equipoise_service.cli.COMMANDS, **equipoise_paper.COMMANDS}
    assert set(ELSEWHERE) == set(elsewhere)
    (names,) = [set(group.list_commands(None)) for group in [get_command(app.app)]]  # type: ignore[attr-defined]
    assert names == set(COMMANDS)


@pytest.mark.parametrize(("name", "distribution"), ELSEWHERE.items())
def test_a_command_that_is_not_installed_names_its_distribution(
    name: str, distribution: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(app, "entry_points", lambda **_: ())
    with pytest.raises(SystemExit) as ended:
        app.app([name])
    assert ended.value.code == 2
    assert f"pip install {distribution}" in " ".join(capsys.readouterr().err.split())


def test_settings_are_options_with_their_defaults() -> None:
    seen = []

    @settlement_options("rho", "teams", "draws")
    def command(settings: SettlementSettings, other: int = 1) -> None:
        seen.append((settings, other))

    assert list(command.__annotations__) == ["rho", "teams", "draws", "other", "return"]
    assert get_args(command.__annotations__["draws"])[0] is int
    command(rho="0.5", teams=["a,b", "c"], draws=9, other=2)
    assert seen == [(SettlementSettings(rho=0.5, teams=(("a", "b"), ("c",)), draws=9), 2)]
    command(rho="max", teams=[], draws=SettlementSettings().draws, other=1)
    assert seen[1] == (SettlementSettings(rho="max"), 1)
    with pytest.raises(MediationError, match="'much' is not a fairness exponent"):
        command(rho="much", teams=None, draws=9)
