"""Version, changelog, citation and tags: what agrees passes, and every contradiction is named."""

import importlib.util
import shutil
from pathlib import Path
from types import ModuleType

import pytest

from equipoise._version import __version__
from pages import ROOT

PAPER = "packages/equipoise-paper/pyproject.toml"
FILES = ("CHANGELOG.md", "CITATION.cff", "packages/equipoise/src/equipoise/_version.py", PAPER)


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("release_check", ROOT / "scripts" / "release_check.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    for name in FILES:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    (tmp_path / "tests").mkdir()
    record = f"| passed | {__version__} | 2026-11-16 | abc | 30 | `tests/test_a.py::test_b` |\n"
    (tmp_path / "tests" / "exhaustive.md").write_text(record)
    return tmp_path


def change(checkout: Path, name: str, old: str, new: str) -> None:
    text = (checkout / name).read_text(encoding="utf-8")
    assert old in text
    (checkout / name).write_text(text.replace(old, new, 1), encoding="utf-8")


def test_this_checkout_agrees_with_itself(script: ModuleType) -> None:
    assert script.problems(ROOT, tags=[]) == []


def test_a_release_that_is_in_order(script: ModuleType, checkout: Path) -> None:
    assert script.problems(checkout, tags=["v0.1.0", f"v{__version__}"], tag=f"v{__version__}") == []


@pytest.mark.parametrize(
    ("name", "old", "new", "says"),
    [
        ("packages/equipoise/src/equipoise/_version.py", __version__, "99.0.0", "CHANGELOG.md begins with"),
        ("packages/equipoise/src/equipoise/_version.py", __version__, "1.0", "is not MAJOR.MINOR.PATCH"),
        (PAPER, f'version = "{__version__}"', 'version = "0.1.0"', "does not say version"),
        (PAPER, f"equipoise=={__version__}", "equipoise>=0.1", "does not require equipoise=="),
        ("CITATION.cff", f"version: {__version__}", "version: 0.0.1", "CITATION.cff cites version 0.0.1"),
        ("CITATION.cff", "date-released: 2", "date-released: 1", "the changelog's newest section"),
        ("CHANGELOG.md", "## 0.1.0 — 2026-11-15", "## 0.1.0, November", "is not '## VERSION"),
        ("CHANGELOG.md", "## 0.1.0 —", "## 9.1.0 —", "versions do not fall"),
        ("CHANGELOG.md", "## 0.1.0 — 2026-11-15", "## 0.1.0 — 2036-11-15", "dates do not fall"),
    ],
)
def test_contradictions(script: ModuleType, checkout: Path, name: str, old: str, new: str, says: str) -> None:
    change(checkout, name, old, new)
    assert any(says in problem for problem in script.problems(checkout, tags=[]))


def test_what_a_tag_needs(script: ModuleType, checkout: Path) -> None:
    assert any("has no section" in problem for problem in script.problems(checkout, tags=["v0.0.9"]))
    assert any("is not v" in problem for problem in script.problems(checkout, tags=[], tag="v9.9.9"))
    change(checkout, "tests/exhaustive.md", "| passed |", "| not run |")
    (problem,) = script.problems(checkout, tags=[], tag=f"v{__version__}")
    assert "run `make exhaustive`" in problem
