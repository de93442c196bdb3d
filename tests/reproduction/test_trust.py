"""What experiments may do with rows, no party may: nothing on the way to a real release knows of them."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import equipoise

SOURCE = Path(equipoise.__file__).parent


def imported(path: Path) -> set[str]:
    """Modules that a file imports, anywhere in it."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return found


def test_the_library_imports_no_experiment() -> None:
    importers = [path for path in SOURCE.rglob("*.py") if any("equipoise_paper" in name for name in imported(path))]
    assert not importers


@pytest.mark.process
def test_releasing_loads_no_experiment(tmp_path: Path) -> None:
    code = (
        "import sys, numpy as np, equipoise as eq\n"
        "from equipoise.agreement.templates import example_agreement\n"
        "agreement = eq.Agreement.parse(example_agreement('gaussian'))\n"
        "eq.release(agreement, np.full(9, 120.0), party='north', epsilon=1, ledger='l').check(agreement)\n"
        "print(*sys.modules, sep='\\n')"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    loaded = result.stdout.split()
    assert "equipoise.party.release" in loaded
    assert not [name for name in loaded if name.startswith("equipoise_paper")]
