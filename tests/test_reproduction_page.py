"""The committed results of one full run, and the page that shows them."""

import importlib.util
import json
from pathlib import Path
from types import ModuleType

import pytest

from equipoise_paper.contents import ITEMS

DOCS = Path(__file__).parents[1] / "docs"
RESULTS = DOCS / "reproduction"


def _collect() -> ModuleType:
    spec = importlib.util.spec_from_file_location("collect", RESULTS / "collect.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_shows_the_results_beside_it() -> None:
    text = (DOCS / "reproduction.md").read_text(encoding="utf-8")
    assert _collect().updated(text) == text


def test_everything_was_reproduced() -> None:
    for item in ITEMS:
        record = json.loads((RESULTS / f"{item.name}.json").read_text(encoding="utf-8"))
        assert record["command"] == f"equipoise reproduce {item.name} --full"
        assert record["verdicts"]
        for name in (record["numbers"], record["runs"] or record["numbers"], *record["pictures"]):
            assert 0 < (RESULTS / name).stat().st_size < 64 * 1024


def _verdicts(name: str) -> dict[str, str]:
    record = json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))
    return {one["claim"]: one["word"] for one in record["verdicts"]}


@pytest.mark.parametrize("setting", ["syn", "calih", "diab"])
def test_trade_offs_hold_for_noise_aware_inference_and_fail_for_naive(setting: str) -> None:
    aware, naive = _verdicts(f"tradeoff-{setting}"), _verdicts(f"naive-{setting}")
    for what in ("v2", "φ2", "r2"):
        assert aware[f"{what} grows with ε2"] == "holds"
    for what in ("v2", "φ2"):
        assert naive[f"without noise-aware inference, {what} does not grow with ε2 throughout"] == "holds"
