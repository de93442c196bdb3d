"""Double precision and a shared compilation cache."""

import engine_setup  # noqa: F401
