"""For tests that call the engine's parts themselves: double precision, and programs that compile as the engine's do."""

from functools import partial

import jax

from equipoise.inference.runtime import compiler_options

jax.config.update("jax_enable_x64", True)

jit = partial(jax.jit, compiler_options=compiler_options(0))
