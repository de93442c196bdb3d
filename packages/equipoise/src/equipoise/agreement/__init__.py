"""What parties agree to: the document, how it is checked, explained and begun from a template."""

from equipoise.agreement.document import Agreement

__all__ = ["Agreement"]
