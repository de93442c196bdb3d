"""Public names explain themselves: numpydoc sections that fit the signatures, and examples that run."""

import dataclasses
import doctest
import inspect
import re
import shutil
import zipfile
from collections.abc import Callable, Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import equipoise as eq
from reward_posteriors import some_reward

PUBLIC = {name: getattr(eq, name) for name in eq.__all__ if name != "__version__"}
FUNCTIONS = {name: one for name, one in PUBLIC.items() if not isinstance(one, type)}
CLASSES = {name: one for name, one in PUBLIC.items() if isinstance(one, type)}
INFERENCE = {"infer", "infer_batch", "infer_exact", "similarity", "surprise"}
LONG = INFERENCE | {"advise", "mediate", "simulate_round", "what_if"}
SECTIONS = ("Parameters", "Attributes", "Returns", "Raises", "Examples")

AGREEMENT = """
format = 2
[model]
kind = "linear"
features = [{ name = "age", bounds = [18, 90] }, { name = "bmi", bounds = [15, 50] }]
target = { name = "progression", bounds = [0, 400] }
[privacy]
max_epsilon = 2.0
[[parties]]
name = "north"
[[parties]]
name = "south"
"""


def _sections(docstring: str) -> dict[str, str]:
    """The text below each numpydoc heading."""
    parts = re.split(r"^(\w+)\n-{3,}\n", docstring, flags=re.M)
    assert set(parts[1::2]) <= set(SECTIONS), parts[1::2]
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def _named(section: str) -> set[str]:
    """Names that a section of parameters or attributes describes."""
    heads = [line.split(" : ")[0] for line in section.splitlines() if re.match(r"[\w*]", line)]
    return {name.strip().lstrip("*") for head in heads for name in head.split(",")}


def _members(cls: type) -> Iterator[tuple[str, Any]]:
    """Public methods and properties that a class defines itself, as functions."""
    for name, member in vars(cls).items():
        function = getattr(member, "__func__", None) or getattr(member, "fget", None)
        if isinstance(member, cached_property):
            function = member.func
        found = function or member
        if not name.startswith("_") and inspect.isfunction(found):
            yield name, found


def _check(what: str, function: Callable[..., Any], *, whole: bool) -> None:
    """A summary that is a sentence, and sections for just the parameters; all of them if `whole`."""
    text = inspect.getdoc(function)
    assert text, f"{what} has no docstring"
    assert re.search(r"[.!?:]$", text.split("\n\n")[0].strip()), f"{what}: the summary is no sentence"
    sections, signature = _sections(text), inspect.signature(function)
    if whole or "Parameters" in sections:
        assert _named(sections.get("Parameters", "")) == set(signature.parameters) - {"self", "cls"}, what
    if whole and signature.return_annotation not in (None, "None"):
        assert "Returns" in sections, what


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_says_what_it_takes_returns_and_raises(name: str) -> None:
    _check(name, FUNCTIONS[name], whole=True)
    assert {"Raises", "Examples"} <= set(_sections(inspect.getdoc(FUNCTIONS[name]) or ""))


@pytest.mark.parametrize("name", CLASSES)
def test_a_class_explains_its_fields_and_its_methods(name: str) -> None:
    cls = CLASSES[name]
    text = inspect.cleandoc(vars(cls).get("__doc__") or "")
    assert text, f"{name} has no docstring of its own"
    fields = getattr(cls, "model_fields", None) or (
        [field.name for field in dataclasses.fields(cls)] if dataclasses.is_dataclass(cls) else []
    )
    missing = [field for field in fields if not re.search(rf"^{field}\b|, {field}\b.* : |`{field}`", text, re.M)]
    assert not missing, f"{name} does not explain {missing}"
    for method, function in _members(cls):
        _check(f"{name}.{method}", function, whole=False)


def test_a_docstring_that_does_not_fit_would_be_noticed() -> None:
    def function(one: int, other: int) -> int:
        """Add.

        Parameters
        ----------
        one, another : int
            Numbers.
        """
        return one + other

    with pytest.raises(AssertionError):
        _check("function", function, whole=False)
    assert {"load", "audit", "values", "value"} <= {name for name, _ in _members(eq.Settlement)}


def _folder(place: Path) -> Path:
    """What examples speak of: an agreement, a table, a reward, a settled round."""
    place.mkdir()
    (place / "agreement.toml").write_text(AGREEMENT, encoding="utf-8")
    rng = np.random.default_rng(0)
    rows = np.column_stack([np.arange(60), rng.uniform(20, 80, 60), rng.uniform(18, 40, 60), rng.uniform(50, 300, 60)])
    np.savetxt(place / "north.csv", rows, "%.4g", ",", header="id,age,bmi,progression", comments="")
    some_reward("linear").save(place / "reward.nc")
    with zipfile.ZipFile(Path(__file__).parent / "fixtures" / "0.6.0.zip") as archive:
        archive.extractall(place, [name for name in archive.namelist() if name.startswith("settlement/")])
    (place / "settlement").rename(place / "out")
    return place


def test_examples_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As they stand, each in a folder of its own; those that would take long are there to be read."""
    finder = doctest.DocTestFinder(exclude_empty=True)
    runner = doctest.DocTestRunner(optionflags=doctest.REPORT_ONLY_FIRST_FAILURE)
    ready, ran = _folder(tmp_path / "ready"), 0
    for name, one in PUBLIC.items():
        for example in finder.find(one, name, globs={"eq": eq}):
            left_out = [line.options.get(doctest.SKIP, False) for line in example.examples]
            assert all(left_out) if name in LONG else not any(left_out), example.name
            place = tmp_path / example.name
            shutil.copytree(ready, place)
            monkeypatch.chdir(place)
            printed: list[str] = []
            assert not runner.run(example, out=printed.append).failed, "".join(printed)
            ran += not all(left_out)
    assert ran >= 15
