"""Mistakes in an agreement, described in the words of the file: key, value, remedy."""

import difflib
from collections.abc import Iterator
from typing import Any, get_args

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from equipoise.models import KINDS
from equipoise.models.section import Section

OPEN = "?"  # stands for an unanswered question in a draft

_REMEDIES = {
    "missing": "is missing; add it (see `equipoise agreement new`)",
    "union_tag_not_found": f"needs `kind`, one of {', '.join(KINDS)}",
}


def describe_mistakes(error: ValidationError, agreement: type[Section], document: dict[str, Any]) -> list[str]:
    """Return one line for each mistake, although pydantic reports every alternative of a union type."""
    known = {name for section in _sections(agreement) for name in section.model_fields}
    messages: dict[str, list[str]] = {}
    for detail in error.errors():
        if _is_open(detail["input"]) and detail["type"] != "extra_forbidden":
            key, message = _describe_question(detail, known, document)
        else:
            key, message = _describe(detail, known)
        messages.setdefault(key, []).append(message)
    return [
        f"{key}{' or '.join(dict.fromkeys(alternatives))}"
        for key, alternatives in messages.items()
        # A list is also called too short when what it does hold is wrong.
        if not (alternatives[0].startswith(_TOO_SHORT) and any(f"{key.split(' ')[0]}[" in other for other in messages))
    ]


def _sections(annotation: Any) -> Iterator[type[Section]]:
    """Yield every section type that a value of this annotation may hold."""
    if isinstance(annotation, type) and issubclass(annotation, Section):
        yield annotation
        for field in annotation.model_fields.values():
            yield from _sections(field.annotation)
    for part in get_args(annotation):
        yield from _sections(part)


def _is_open(value: object) -> bool:
    """Return whether a value is an unanswered question of a draft, or a list with one."""
    return value == OPEN or (isinstance(value, list) and OPEN in value)


def _describe_question(detail: ErrorDetails, known: set[str], document: dict[str, Any]) -> tuple[str, str]:
    """Return the key of an open question, without its list index, with the column it is about; then the remedy."""
    parts = _parts(detail["loc"], known)
    while parts and isinstance(parts[-1], int):
        parts.pop()
    column = ""
    model = document.get("model")
    if isinstance(model, dict) and len(parts) > 2 and parts[0] == "model":
        described = model.get(parts[1])
        if isinstance(described, list) and isinstance(parts[2], int):
            described = described[parts[2]]
        column = f"column {described['name']!r}: " if isinstance(described, dict) and "name" in described else ""
    return f"{column}{_key(parts)} ", f'is still "{OPEN}": answer this question of the draft'


def _parts(location: tuple[int | str, ...], known: set[str]) -> list[int | str]:
    """Return pydantic's path as the file has it, without the union members that pydantic also names ("linear")."""
    return [part for part in location if isinstance(part, int) or part in known]


def _key(parts: list[int | str]) -> str:
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in parts).lstrip(".")


def _describe(detail: ErrorDetails, known: set[str]) -> tuple[str, str]:
    """Return the key as the file has it, with its value if that helps; then the mistake and its remedy."""
    location, kind = detail["loc"], detail["type"]
    unknown_key = kind == "extra_forbidden"
    parts = _parts(location[: -1 if unknown_key else None], known)
    key = _key(parts)
    if unknown_key:
        name = str(location[-1])
        close = [] if name in known else difflib.get_close_matches(name, sorted(known), n=1)
        hint = f" (did you mean {close[0]!r}?)" if close else ""
        return f"{name!r} ", f"is not a key of {key or 'an agreement'}{hint}; remove or rename it"
    key = key or "agreement"
    if kind in _REMEDIES:
        return f"{key} ", _REMEDIES[kind]
    if kind == "union_tag_invalid":
        kinds = detail["ctx"]["expected_tags"].replace("'", "")
        return f"{key}.kind ", f"= {detail['ctx']['tag']!r}: choose one of {kinds}"
    if kind == "value_error":
        return f"{key}: ", detail["msg"].removeprefix("Value error, ")
    if kind in ("too_long", "too_short"):
        return f"{key} ", _wrong_length(kind, detail["ctx"])
    message = detail["msg"].replace("Input should be", "must be", 1)
    if kind == "string_pattern_mismatch":
        message = _PATTERNS.get(str(parts[-1]), message)
    return f"{key} = {_shown(detail['input'])}: ", message


def _wrong_length(kind: str, context: dict[str, Any]) -> str:
    if kind == "too_short":
        return f"{_TOO_SHORT}{context['actual_length']} values; at least {context['min_length']} are needed"
    return f"has {context['actual_length']} values; at most {context['max_length']} are allowed"


def _shown(value: object) -> str:
    try:
        text = repr(value)
    except ValueError:
        # The value is an integer too long to print.
        return "a very long number"
    return text if len(text) <= 60 else text[:57] + "..."


_TOO_SHORT = "has only "
_PATTERNS = {
    "name": "use 1 to 64 letters, digits, dots, dashes or underscores, beginning with a letter or digit",
    "public_key": "a public key is 64 lowercase hexadecimal digits, as `equipoise party keygen` prints it",
}
