"""Libraries of extras: used if they are there, and named with the remedy if not."""

import math
import sys
from pathlib import Path

import pytest

from equipoise._util.optional import import_optional
from equipoise.errors import EquipoiseError


def test_a_library_that_is_there() -> None:
    assert import_optional("math", extra="arviz") is math


def test_one_that_is_not_names_the_extra() -> None:
    with pytest.raises(EquipoiseError, match=r"needs nowhere, .* `pip install 'equipoise\[arviz\]'`"):
        import_optional("nowhere", extra="arviz")


def test_one_that_is_broken_keeps_its_own_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "broken_library.py").write_text("import nowhere_either\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(ModuleNotFoundError, match="nowhere_either"):
        import_optional("broken_library", extra="arviz")
    assert "broken_library" not in sys.modules
