"""What the documents say is true: commands run, snippets run, names exist."""

import doctest
import importlib
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

import equipoise.guarantee

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
NOTATION = (ROOT / "docs" / "notation.md").read_text(encoding="utf-8")


def test_readme_snippet_runs(tmp_path: Path) -> None:
    (snippet,) = re.findall(r"```python\n(.*?)```", README, re.S)
    assert len(snippet.strip().splitlines()) <= 25
    result = subprocess.run([sys.executable, "-c", snippet], cwd=tmp_path, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    epsilon, spent, converged, *_ = result.stdout.split()
    assert converged == "True"
    assert float(epsilon) == pytest.approx(4.89, abs=0.02)
    assert float(spent) == 0.5


def test_readme_commands_run(tmp_path: Path) -> None:
    commands = [line for block in re.findall(r"```console\n(.*?)```", README, re.S) for line in block.splitlines()]
    ours = [shlex.split(line, comments=True)[1:] for line in commands if line.startswith("equipoise")]
    assert len(ours) == 7
    table = "\n".join(
        ["age,bmi,blood_pressure,progression"] + [f"{30 + k},{20 + k},{80 + k},{9 * k}" for k in range(30)]
    )
    (tmp_path / "north.csv").write_text(table + "\n")
    for command in ours:
        result = subprocess.run(
            [sys.executable, "-m", "equipoise", *command], cwd=tmp_path, capture_output=True, text=True
        )
        assert result.returncode == 0, (command, result.stderr)
    assert (tmp_path / "north.submission.json").exists()


def test_make_targets_named_in_the_documents_exist() -> None:
    makefile = (ROOT / "Makefile").read_text()
    text = README + (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    targets = set(re.findall(r"(?:^ *|`)make ([a-z]+)", text, re.M))
    assert {"demo", "test", "check", "slow", "bench"} <= targets
    for target in targets:
        assert re.search(rf"^{target}:", makefile, re.M), target


def test_links_lead_somewhere() -> None:
    for document in [ROOT / "README.md", *ROOT.glob("docs/**/*.md")]:
        for link in re.findall(r"\]\(([^)#]+)\)", document.read_text(encoding="utf-8")):
            if not link.startswith("http"):
                assert (document.parent / link).exists(), f"{document.name}: {link}"


def test_names_in_the_notation_exist() -> None:
    names = re.findall(r"`(equipoise[\w.]+)`", NOTATION)
    assert len(names) > 12
    for name in names:
        assert _exists(name), name


def test_a_wrong_name_in_the_notation_would_be_noticed() -> None:
    assert not _exists("equipoise.guarantee.Guarantee.epsilom")
    assert not _exists("equipoise.nothing")


def _exists(name: str) -> bool:
    parts = name.split(".")
    for cut in range(len(parts), 0, -1):
        try:
            found: object = importlib.import_module(".".join(parts[:cut]))
        except ModuleNotFoundError:
            continue
        for part in parts[cut:]:
            fields = {**getattr(found, "model_fields", {}), **getattr(found, "__dataclass_fields__", {})}
            if not hasattr(found, part) and part not in fields:
                return False
            found = getattr(found, part, None)
        return True
    return False


def test_docstring_examples_run() -> None:
    result = doctest.testmod(equipoise.guarantee)
    assert result.attempted > 0
    assert result.failed == 0


def test_documented_exit_codes_are_the_codes() -> None:
    from equipoise import errors

    table = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")
    documented = {int(code) for code in re.findall(r"^\| (\d+) \|", table, re.M)}
    classes = [v for v in vars(errors).values() if isinstance(v, type) and issubclass(v, errors.EquipoiseError)]
    assert {value.exit_code for value in classes} <= documented


def test_no_machine_path_or_package_index_is_committed() -> None:
    listing = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True)
    files = listing.stdout.splitlines() or [str(path) for path in ROOT.glob("*/**/*.py")]
    assert len(files) > 40
    pattern = re.compile("/(ho" "me|ro" "ot|wo" "rk)/[a-z]|index-" "url|py" r"pi\.org|files\.python" "hosted")
    for name in files:
        if (ROOT / name).exists():
            assert not pattern.search((ROOT / name).read_text(encoding="utf-8")), name
    constraints = (ROOT / "constraints.txt").read_text().splitlines()
    assert all(re.fullmatch(r"[A-Za-z0-9._-]+==[A-Za-z0-9.!+_-]+", line) for line in constraints)
