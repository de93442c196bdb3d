"""Hooks of the documentation site, which mkdocs.yml names."""

import re
from typing import Any

# nbconvert adds a script that would fetch a library from another host if a notebook had diagrams.
_DIAGRAMS = re.compile(r'<script type="module">\s*document\.addEventListener\("DOMContentLoaded".*?</script>', re.S)


def on_post_page(output: str, **_: Any) -> str:
    """Remove from a built page what could ask another host for something."""
    return _DIAGRAMS.sub("", output)
