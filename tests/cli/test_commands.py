"""The table of commands says what their functions say, and a settlement's options are those of its settings."""

from importlib import import_module
from typing import get_args

import pytest

from equipoise.cli.app import COMMANDS, Command
from equipoise.cli.settings import settlement_options
from equipoise.errors import MediationError
from equipoise.mediation.settings import SettlementSettings

ALL = {name: one for name, one in COMMANDS.items() if isinstance(one, Command)} | {
    f"{group} {name}": command
    for group, one in COMMANDS.items()
    if not isinstance(one, Command)
    for name, command in one.commands.items()
}


@pytest.mark.parametrize("name", ALL)
def test_the_line_of_help_is_the_first_of_the_docstring(name: str) -> None:
    command = ALL[name]
    module = import_module(f"equipoise.cli.{command.module}")
    function = getattr(module, name.rpartition(" ")[2].replace("-", "_"))
    assert function.__module__ == module.__name__
    assert function.__doc__.splitlines()[0] == command.help


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
