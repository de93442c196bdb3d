"""`python -m equipoise` is `equipoise`."""

from equipoise.cli import main

main()
