"""Double precision and a shared compilation cache for every test of the engine."""

import engine_setup  # noqa: F401
