"""The form with which an operator chooses how a round is settled."""

from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from equipoise.service.options import Options
from equipoise.service.web.pages.visitors import Form


@dataclass(frozen=True)
class Choice:
    """One field: what it is called, what it means, and the values to choose from if they are few."""

    name: str
    label: str
    hint: str
    among: tuple[tuple[str, str], ...] = ()
    mode: str = "text"  # which keyboard a telephone shows
    longest: int = 40


FIELDS = (
    Choice(
        "mechanism",
        "How rewards are held back",
        "As agreed, unless the agreement leaves it to you.",
        (("", "as agreed"), ("tempering", "tempering"), ("noise", "added noise")),
    ),
    Choice(
        "rho",
        "Fairness exponent ρ",
        "As agreed if empty. If the agreement leaves it to you: above 0 and up to 1, or “max”.",
        mode="decimal",
    ),
    Choice("precision", "Precision, in nats", "Standard errors are brought below this.", mode="decimal"),
    Choice("draws", "Draws in each reward", "100 to 1,000,000.", mode="numeric"),
    Choice(
        "without",
        "Leave out",
        "Members whose submissions are not to count, separated by commas; everybody sees it.",
        longest=1_000,
    ),
)
_WHOLE = {"draws", "budget"}
_WORDS = {
    "greater_than": "must be above {gt:g}",
    "greater_than_equal": "must be {ge:g} or more",
    "less_than": "must be below {lt:g}",
    "less_than_equal": "must be {le:g} or less",
    "finite_number": "must be a finite number",
    "literal_error": "must be one of {expected}",
}


def chosen(form: Form) -> tuple[Options | None, dict[str, str]]:
    """The options of a filled-in form; otherwise what is wrong with each field."""
    document: dict[str, Any] = {name: form.get(name) == "yes" for name in ("deviate", "force")}
    mistakes: dict[str, str] = {}
    for field in FIELDS:
        text = form.get(field.name, "").strip()
        if not text:
            continue
        if field.name == "without":
            document[field.name] = [name.strip() for name in text.split(",") if name.strip()]
            continue
        if field.among or text == "max":
            document[field.name] = text
            continue
        try:
            document[field.name] = int(text.replace(",", "")) if field.name in _WHOLE else float(text)
        except ValueError:
            kind = "a whole number" if field.name in _WHOLE else "a number, written as 0.5"
            mistakes[field.name] = f"{text[:40]!r} is not {kind}."
    try:
        options = Options.model_validate(document)
    except ValidationError as error:
        for one in error.errors(include_url=False):
            name = str(one["loc"][0])
            words = _WORDS.get(one["type"], "cannot be used").format(**one.get("ctx", {}))
            mistakes.setdefault(name, f"{form.get(name, '').strip()[:40]!r} {words}.")
        return None, mistakes
    return (None if mistakes else options), mistakes
