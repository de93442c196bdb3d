"""For tests that call parts of Gibbs sampling themselves: double precision, and its options of the compiler."""

from functools import partial

import jax

from equipoise_paper.runtime import compiler_options

jax.config.update("jax_enable_x64", True)

jit = partial(jax.jit, compiler_options=compiler_options())
