"""Agreements from a hostile sender, who must not decide how long or how deep they are read."""

import time
from pathlib import Path

import pytest

import rounds
from equipoise._util.canonical import MAX_KEY_PARTS, MAX_TOML_BYTES, MAX_VALUES, strict_toml
from equipoise.agreement import Agreement
from equipoise.errors import AgreementError

HOSTILE = {
    "a key of many parts": (".".join("a" * 29_000) + " = 1", "parts"),
    "in quotes": (".".join(['"a"'] * 20_000) + " = 1", "parts"),
    "in other quotes": (".".join(["'a'"] * 20_000) + " = 1", "parts"),
    "with spaces": ("\t.  ".join(["a"] * 20_000) + " = 1", "parts"),
    "of a table": (f"[{'.'.join(['a'] * 20_000)}]", "parts"),
    "of a table in a list": (f"[[{'.'.join(['a'] * 20_000)}]]", "parts"),
    "after a string": (f'a = """x"""""\n{".".join("a" * 29_000)} = 1', "parts"),
    "many keys": ("".join(f"k{number} = 1\n" for number in range(MAX_VALUES + 1)), "keys"),
    "many values": ("a = [" + "1," * (MAX_VALUES + 1) + "]", "values"),
    "deep lists": ("a = " + "[" * 50_000, "nested too deeply"),
    "deep tables": ("a = " + "{a = " * 20_000, "nested too deeply"),
    "many bytes": ("#" * (MAX_TOML_BYTES + 1), "bytes"),
    "strings that do not end": ('"""\\' * 500_000, "Expected '='"),
    "digits": ("a = " + "1" * 100_000, "digits"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_reading_takes_no_time(name: str, tmp_path: Path) -> None:
    text, says = HOSTILE[name]
    (tmp_path / "agreement.toml").write_text(text)
    began = time.process_time()
    with pytest.raises(AgreementError, match="is not an agreement in TOML") as refused:
        Agreement.load(tmp_path / "agreement.toml")
    assert says in str(refused.value)
    assert time.process_time() - began < 10  # a minute for the first


def test_texts_may_have_dots_and_brackets() -> None:
    dots, brackets = ".".join("a" * 100), "[{" * 100
    for quote in ('"', "'", '"""', "'''"):
        text = f"# {dots} {brackets}\na = {quote}{dots} {brackets}{quote}  # {dots}\n"
        assert strict_toml(text) == {"a": f"{dots} {brackets}"}
    assert strict_toml(f"{'.'.join('a' * MAX_KEY_PARTS)} = 1")


def test_the_largest_agreement_opens() -> None:
    parties = "".join(
        f'[[parties]]\nname = "p{number}"\npublic_key = "{f"{number:04x}" * 16}"\n' for number in range(1, 10_001)
    )
    text = rounds.agreement_text("bernoulli", 0) + parties
    assert len(Agreement.parse(text).parties) == 10_000
