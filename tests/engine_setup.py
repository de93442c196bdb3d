"""The engine works in double precision, and tests share one cache of compiled programs."""

import os
from pathlib import Path

os.environ.setdefault("EQUIPOISE_CACHE_DIR", str(Path(__file__).parents[1] / ".pytest_cache" / "jax"))

import jax

from equipoise.inference.runtime import use_compilation_cache

jax.config.update("jax_enable_x64", True)
use_compilation_cache()
