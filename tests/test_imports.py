"""Imports are lazy, and the party's side never needs the mediator's machinery."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import rounds
from at_home import with_others
from reward_posteriors import some_reward

BLOCK = """
import sys

class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("jax", "jaxlib", "arviz", "fastapi", "sqlalchemy", "matplotlib"):
            raise AssertionError(f"{name} was imported")

sys.meta_path.insert(0, Refuse())
"""


# A mediator needs ArviZ, to write rewards.
BLOCK_JAX = BLOCK.replace('("jax", "jaxlib", "arviz", "fastapi", "sqlalchemy", "matplotlib")', '("jax", "jaxlib")')


def run(code: str, *, cwd: Path, block: str = BLOCK) -> str:
    result = subprocess.run([sys.executable, "-c", block + code], capture_output=True, text=True, cwd=cwd)
    assert result.returncode == 0, result.stderr
    return result.stdout


@pytest.mark.process
def test_help_loads_nothing_heavy(tmp_path: Path) -> None:
    loaded = run(
        "from equipoise.cli.app import app\n"
        "try:\n    app(['--help'])\nexcept SystemExit:\n    pass\n"
        "print(*sys.modules, sep='\\n')",
        cwd=tmp_path,
    )
    heavy = {"numpy", "scipy", "pyarrow", "opendp", "pydantic", "cryptography", "sklearn", "pandas", "rich"}
    assert "typer" in loaded.split()
    assert not heavy & set(loaded.split())


@pytest.mark.process
def test_importing_the_package_loads_only_the_package(tmp_path: Path) -> None:
    loaded = run("import equipoise\nprint(*sys.modules, sep='\\n')", cwd=tmp_path).split()
    assert {name for name in loaded if name.startswith("equipoise")} == {"equipoise"}
    assert "numpy" not in loaded


@pytest.mark.process
def test_a_whole_release_never_imports_jax(tmp_path: Path) -> None:
    run(
        "import numpy as np, equipoise as eq\n"
        "from equipoise.agreement.templates import example_agreement\n"
        "agreement = eq.Agreement.parse(example_agreement('gaussian'))\n"
        "eq.release(agreement, np.full(9, 120.0), party='north', epsilon=1, ledger='l').check(agreement)\n",
        cwd=tmp_path,
    )


@pytest.mark.process
def test_using_a_reward_never_imports_jax(tmp_path: Path) -> None:
    """A party predicts with what it got; the sampler that made it is the mediator's, and takes seconds to load."""
    some_reward("linear").save(tmp_path / "north.nc")
    (tmp_path / "rows.csv").write_text("age,bmi\n50,25\n")
    run(
        "import equipoise as eq\nassert len(eq.Reward.load('north.nc').predict([[50, 25]])) == 1\n"
        "from equipoise.cli.app import app\n"
        "try:\n    app(['predict', 'north.nc', '--data', 'rows.csv'])\nexcept SystemExit:\n    pass\n",
        cwd=tmp_path,
    )


@pytest.mark.process
def test_a_model_at_home_never_imports_jax(tmp_path: Path) -> None:
    drawn = 0.3 * np.random.default_rng(0).normal(size=(16, 100, 4))
    with_others("linear", drawn).save(tmp_path / "north.nc")
    rows = {"age": [50.0, 60.0, 70.0], "bmi": [25.0, 30.0, 35.0], "progression": [150.0, 200.0, 250.0]}
    run(
        f"import equipoise as eq\neq.combine('north.nc', {rows})\neq.compare('north.nc', {rows}, folds=2)", cwd=tmp_path
    )


@pytest.mark.process
def test_a_partys_commands_never_import_jax(tmp_path: Path) -> None:
    """Nor what a mediator or a server needs, but for `party advise`, which draws charts."""
    own = ("agreement", "join", "submit", "status", "fetch", "login", "predict", "party")
    run(
        "from importlib import import_module\n"
        "from equipoise.cli.app import COMMANDS, Command\n"
        f"for name in {own}:\n"
        "    one = COMMANDS[name]\n"
        "    for key, command in ({name: one} if isinstance(one, Command) else one.commands).items():\n"
        "        if key != 'advise':\n"
        "            import_module(command.module, 'equipoise.cli')\n",
        cwd=tmp_path,
    )


@pytest.mark.process
@pytest.mark.parametrize("kind", ["categorical", "linear"])
def test_a_mediator_never_imports_jax(kind: str, tmp_path: Path) -> None:
    """Rounds are settled, coalitions sampled and advice given by NumPy alone."""
    (tmp_path / "agreement.toml").write_text(rounds.agreement_text(kind, 2))
    for one in rounds.submissions(rounds.agreement(kind, 2), tmp_path, (8.0, 2.0)):
        one.save(tmp_path / f"{one.party}.json")
    run(
        "import equipoise as eq\n"
        "from equipoise.mediation.advice import advise\n"
        "agreement = eq.Agreement.load('agreement.toml')\n"
        "sent = [eq.Submission.load(f'{party}.json') for party in agreement.party_names]\n"
        "settlement = eq.mediate(agreement, sent, draws=640, precision=1.0, progress=False, folder='out')\n"
        "assert len(settlement.awards) == 2\n"
        "assert eq.infer(agreement, sent, method='naive', draws=640, progress=False).converged\n"
        "advise(agreement, party='north', rows=50, epsilons=[1.0], simulations=2, progress=False)\n",
        cwd=tmp_path,
        block=BLOCK_JAX,
    )


@pytest.mark.process
def test_arvizs_remark_of_the_day_is_not_ours_to_show(tmp_path: Path) -> None:
    """It is said once a day, wherever ArviZ keeps the date: here, never before."""
    code = "from equipoise.inference.posterior import load_arviz\nload_arviz()"
    found = subprocess.run(
        [sys.executable, "-W", "error::FutureWarning", "-c", code],
        env={**os.environ, "XDG_CACHE_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert (found.returncode, found.stderr) == (0, "")


@pytest.mark.process
def test_the_block_blocks(tmp_path: Path) -> None:
    result = subprocess.run(
        [sys.executable, "-c", BLOCK + "import matplotlib"], capture_output=True, text=True, cwd=tmp_path
    )
    assert "matplotlib was imported" in result.stderr


@pytest.mark.process
def test_reading_submissions_never_imports_the_party_side(tmp_path: Path) -> None:
    """What the mediator needs to receive a submission must not drag in the code that sees rows."""
    loaded = run(
        "import equipoise.protocol.submission, equipoise.agreement.explanation\nprint(*sys.modules, sep='\\n')",
        cwd=tmp_path,
    ).split()
    assert not [name for name in loaded if name.startswith("equipoise.party")]


def test_public_names_are_all_there() -> None:
    import equipoise

    for name in equipoise.__all__:
        assert getattr(equipoise, name) is not None
    assert set(equipoise.__all__) == set(dir(equipoise))
