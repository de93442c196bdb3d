"""The agreement between parties: the document, its validation, explanation and templates."""

from equipoise.agreement.document import Agreement

__all__ = ["Agreement"]
