"""Property tests: no deadlines (machines are noisy), and the same examples on every CI run; locally they vary."""

import os

from hypothesis import settings

settings.register_profile("local", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "local")
