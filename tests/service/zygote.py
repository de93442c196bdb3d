"""A program that makes workers and servers by forking, so that fifty of them do not import everything fifty times.

Its arguments are a data folder, a database ("" for the folder's own), a lease and "naive" or "auto". For every line it
reads it forks a worker, or a server if the line has a port, and says its number. Naive posteriors are drawn directly:
a settlement by them goes through all the same steps in a tenth of the time.
"""

import os
import signal
import sys
import tempfile
import threading
import warnings
from pathlib import Path
from unittest import mock

import arviz

from equipoise.mediation.task import task_of
from equipoise_service import serving
from equipoise_service.context import Context
from equipoise_service.jobs import runner, worker  # noqa: F401 (the first is imported late by the second)
from equipoise_service.rules import settlements
from equipoise_service.settings import Rates, Settings


def main() -> None:
    folder, url, lease, method = sys.argv[1:]
    if method == "naive":
        mock.patch.object(
            settlements, "task_of", lambda *args, **options: task_of(*args, **options, method="naive")
        ).start()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the dead are not waited for
    warnings.simplefilter("ignore")  # Python 3.12 warns of forks where BLAS has threads
    with tempfile.TemporaryDirectory() as place:  # imports much, and looks through all that is installed
        arviz.from_dict({"x": [[0.0]]}).to_netcdf(str(Path(place) / "x.nc"))
    for line in sys.stdin:
        child = os.fork()
        if not child:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            if line.strip():
                where = serving.Deployment(Path(folder), url or None, port=int(line))
                settings = Settings(rates=Rates.of(1e6))
                serving.serve(where, settings, worker=False, announce=lambda _url, _link, _fingerprint: None)
            context = Context.open(Path(folder), url or None)
            worker.run(context, stop=threading.Event(), lease=float(lease), idle=0.05)
        sys.stdout.write(f"{child}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
