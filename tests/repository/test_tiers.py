"""Tests are held to their marks, runs are written down, and workflows call targets that exist."""

import re
import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import jax.numpy as jnp
import pytest
import yaml

import record
import tiers
from pages import ROOT


def item(*marks: str) -> Any:
    return SimpleNamespace(get_closest_marker=lambda name: name if name in marks else None)


@pytest.mark.process
def test_a_process_is_noticed() -> None:
    subprocess.run([sys.executable, "-c", ""], check=True)
    with pytest.raises(AssertionError, match=r"this test starts a process \(subprocess.Popen .*\); mark it process"):
        tiers._hold(item("engine"))
    tiers._hold(item())  # each is told once


@pytest.mark.engine
def test_a_compilation_is_noticed() -> None:
    jnp.arange(17.0).sum().block_until_ready()
    with pytest.raises(AssertionError, match=r"this test compiles programs with JAX \(.*\); mark it engine"):
        tiers._hold(item("process"))


def test_what_is_marked_may() -> None:
    tiers._seen.update({"engine": "a program", "process": "sh"})
    tiers._hold(item("engine", "process"))


def test_a_run_in_parts_is_written_down() -> None:
    first = record.page("", ["a[1]", "b", "c"], {"a[1]": ("passed", 12.4), "b": ("failed", 1.0)}, "abc")
    assert re.search(r"^\| passed \| [\d.]+ \| [\d-]+ \| abc \| 12 \| `a\[1\]` \|$", first, re.M)
    assert "| not run | – | – | – | – | `c` |" in first
    second = record.page(first, ["b", "c"], {"b": ("passed", 2.0)}, "def")
    assert [line.split(" | ")[0] for line in second.splitlines()[-3:]] == ["| passed", "| passed", "| not run"]
    assert second.count("abc") == second.count("def") == 1


def test_workflows_and_hooks_call_what_exists() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yml").read_text(encoding="utf-8"))
    steps = [step["run"] for job in workflow["jobs"].values() for step in job["steps"] if "run" in step]
    targets = {target for step in steps for target in re.findall(r"make ([a-z-]+)", step)}
    assert {"check", "test", "slow", "release-check"} <= targets
    assert all(re.search(rf"^{target}:", makefile, re.M) for target in targets)
    hooks = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8"))
    checks = makefile.split("\ncheck:")[1].split("\n\n")[0]
    for hook in hooks["repos"][0]["hooks"]:
        program = hook["entry"].split()[0].rsplit("/", 1)[-1]
        assert program in checks, program


def test_issue_forms_are_forms() -> None:
    for path in (ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml"):
        form = yaml.safe_load(path.read_text(encoding="utf-8"))
        if path.name != "config.yml":
            assert {"name", "description", "body"} <= set(form)
            assert all(field["type"] in ("markdown", "textarea") for field in form["body"])
