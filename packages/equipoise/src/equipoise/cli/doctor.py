"""`equipoise doctor`: checks of this machine. Each states its finding and, if that is bad, the remedy.

A *failed* check means that some command will not work, or must not be trusted; a *warning*, that it will be slow or
needs a look. Nothing here changes anything, and no check needs another one to have succeeded.
"""

import importlib
import importlib.metadata
import platform
import secrets
import shutil
import sys
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Annotated, Literal

import typer

from equipoise._util.display import Table
from equipoise._util.text import counted
from equipoise._version import __version__
from equipoise.cli.options import JsonOption
from equipoise.cli.output import print_json, print_lines, print_table
from equipoise.errors import EquipoiseError

Status = Literal["ok", "warning", "failed"]

LIBRARIES = {  # as installed: as imported, and who needs it
    "arviz": ("arviz", "rewards"),
    "cryptography": ("cryptography", "signatures"),
    "filelock": ("filelock", "ledgers"),
    "h5netcdf": ("h5netcdf", "rewards"),
    "h5py": ("h5py", "rewards"),
    "jinja2": ("jinja2", "reports"),
    "joblib": ("joblib", "the mediator"),
    "matplotlib": ("matplotlib", "charts"),
    "numpy": ("numpy", "everything"),
    "opendp": ("opendp", "releases"),
    "pyarrow": ("pyarrow", "tables"),
    "pydantic": ("pydantic", "agreements"),
    "scikit-learn": ("sklearn", "rewards"),
    "scipy": ("scipy", "the mediator"),
}
NOISE_SCALE, NOISE_DRAWS = 1_000.0, 4_000
LOW_DISK, LOW_MEMORY = 2**30, 2 * 2**30
RELEASED = datetime(2025, 1, 1, tzinfo=UTC)  # a clock that shows an earlier date is wrong


@dataclass(frozen=True)
class Check:
    """The result of a check; `remedy` is empty if nothing needs doing."""

    name: str
    status: Status
    found: str
    remedy: str = ""

    def to_json(self) -> dict[str, str]:
        """Return the result for `--json`."""
        return asdict(self)


def doctor(
    ledger: Annotated[
        list[Path] | None, typer.Option(help="A ledger to verify; repeat for each.", readable=False)
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Check the installation, the noise, and ledgers. Exit code 1 if a check failed.

    Example: equipoise doctor --ledger north.ledger
    """
    checks = examine(tuple(ledger or ()))
    failed = [check for check in checks if check.status == "failed"]
    if as_json:
        print_json({"fit": not failed, "checks": [check.to_json() for check in checks]})
    else:
        print_table(
            Table(
                "What was checked",
                ("check", "result", "found"),
                [(check.name, check.status, check.found) for check in checks],
                numeric_from=9,
            )
        )
        for check in checks:
            if check.status != "ok":
                print_lines(f"{check.name} {check.status}: {check.found}. Remedy: {check.remedy}.", bullet=True)
        if all(check.status == "ok" for check in checks):
            print_lines("Everything is as it should be.")
    if failed:
        raise typer.Exit(1)


def examine(ledgers: Sequence[Path] = ()) -> list[Check]:
    """Run all checks, with an additional one for each ledger."""
    checks: list[tuple[str, Callable[[], Check]]] = [
        ("Python", check_python),
        ("Equipoise", check_version),
        ("libraries", check_libraries),
        ("randomness", check_randomness),
        ("noise", check_noise),
        ("disk", check_disk),
        ("memory", check_memory),
        ("clock", check_clock),
    ]
    results = [_guarded(name, check) for name, check in checks]
    return results + [_guarded(f"ledger {path}", partial(check_ledger, path)) for path in ledgers]


def _guarded(name: str, check: Callable[[], Check]) -> Check:
    """Run a check; report any exception as a failure, since a broken installation can fail anywhere."""
    try:
        return check()
    except EquipoiseError as error:
        return Check(name, "failed", *_split(str(error)))
    except Exception as error:
        return Check(name, "failed", f"{type(error).__name__}: {error}", "reinstall Equipoise in a fresh environment")


def _split(message: str) -> tuple[str, str]:
    """Split one of our error messages into finding and remedy, which stands last."""
    finding, _, remedy = message.rpartition("; ")
    return (finding, remedy) if finding else (message, "")


def check_python() -> Check:
    """Report the Python version and refuse a 32-bit one; the installer has checked that it is recent enough."""
    finding = f"{platform.python_implementation()} {platform.python_version()} on {platform.platform(terse=True)}"
    if sys.maxsize < 2**62:
        return Check(
            "Python", "failed", f"{finding}, 32 bits", "install a 64-bit Python: statistics are 64-bit integers"
        )
    return Check("Python", "ok", finding)


def check_version() -> Check:
    """Report the version of Equipoise and its folder."""
    return Check("Equipoise", "ok", f"{__version__} in {Path(__file__).parent}")


def check_libraries(libraries: Iterable[str] = tuple(LIBRARIES)) -> Check:
    """Check that all required libraries can be imported."""
    versions, broken = [], []
    for name in libraries:
        module, needed_by = LIBRARIES[name]
        try:
            with warnings.catch_warnings():
                # Announced changes of a library are not a fault of this installation.
                warnings.simplefilter("ignore", FutureWarning)
                importlib.import_module(module)
            versions.append(f"{name} {importlib.metadata.version(name)}")
        except Exception as error:
            # A broken wheel can raise any exception.
            broken.append(f"{name} (for {needed_by}): {error}")
    if broken:
        return Check(
            "libraries", "failed", "; ".join(broken), "install them again: pip install --force-reinstall equipoise"
        )
    return Check("libraries", "ok", ", ".join(versions))


def check_randomness() -> Check:
    """Check that the operating system's random generator answers and does not repeat itself."""
    drawn = [secrets.token_bytes(32) for _ in range(64)]
    ones = sum(byte.bit_count() for part in drawn for byte in part)
    expected = 64 * 32 * 8 / 2
    if len(set(drawn)) < len(drawn) or abs(ones - expected) > 6 * (expected / 2) ** 0.5:
        return Check("randomness", "failed", "the operating system repeats itself", "release nothing on this machine")
    return Check("randomness", "ok", "the operating system's generator answers")


def check_noise() -> Check:
    """Check that the variance of the mechanism's noise is as promised, within six standard errors."""
    from equipoise.party.mechanism import noise_scale, perturb

    sensitivity = 1_000
    zcdp = sensitivity**2 / (2 * NOISE_SCALE**2)
    noise = perturb([0] * NOISE_DRAWS, sensitivity=sensitivity, zcdp=zcdp)
    expected = noise_scale(sensitivity, zcdp) ** 2
    ratio = sum(value * value for value in noise) / NOISE_DRAWS / expected
    finding = f"OpenDP's discrete Gaussian: variance {ratio:.2f} times what it should be, over {NOISE_DRAWS:,} draws"
    if abs(ratio - 1) > 6 * (2 / NOISE_DRAWS) ** 0.5 or len(set(noise)) < NOISE_DRAWS / 4:
        return Check("noise", "failed", finding, "release nothing on this machine; reinstall OpenDP and check again")
    return Check("noise", "ok", finding)


def check_disk() -> Check:
    """Check that the current folder's disk has room for settlements and rewards."""
    free = shutil.disk_usage(".").free
    finding = f"{_size(free)} free in {Path.cwd()}"
    if free < LOW_DISK:
        return Check("disk", "warning", finding, f"make room: a settlement of ten parties may need {_size(LOW_DISK)}")
    return Check("disk", "ok", finding)


def check_memory() -> Check:
    """Check that there is memory for the mediator's engine; the party's side needs very little."""
    free = _free_memory()
    if free is None:
        return Check("memory", "ok", "this system does not say how much is free")
    if free < LOW_MEMORY:
        return Check("memory", "warning", f"{_size(free)} free", "close other programs before mediating")
    return Check("memory", "ok", f"{_size(free)} free")


def _free_memory() -> int | None:
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:"))
    except (OSError, StopIteration, ValueError):
        return None


def check_clock(now: datetime | None = None) -> Check:
    """Check the clock: ledger entries carry the time, and one that is years off confuses their auditors."""
    now = now or datetime.now(UTC)
    finding = f"{now:%Y-%m-%d %H:%M} UTC"
    if not RELEASED <= now < RELEASED.replace(year=RELEASED.year + 50):
        return Check("clock", "warning", finding, "set the clock: ledgers and settlements carry the time")
    return Check("clock", "ok", finding)


def check_ledger(path: Path) -> Check:
    """Check that a ledger's chain is intact and its cap is kept."""
    from equipoise.party.ledger import ROUNDING, Ledger

    name = f"ledger {path}"
    history = Ledger(path).read()
    spends = counted(len(history.spends), "spend")
    if obstacle := history.account.obstacle:
        return Check(name, "failed", f"chain intact, {spends}, of units that do not add up", obstacle)
    finding = f"chain intact, {spends}, zCDP {history.total_zcdp:.4g} of {history.cap_zcdp:.4g} for {history.unit}"
    if history.total_zcdp > history.cap_zcdp * ROUNDING:
        return Check(name, "failed", f"{finding}: above its cap", "find out who wrote to it; restore it from a backup")
    if history.unfinished:
        cut = counted(len(history.unfinished), "spend")
        return Check(
            name, "warning", f"{finding}; {cut} cut off before a submission was stored", "they count: release --again"
        )
    return Check(name, "ok", finding)


def _size(number: float) -> str:
    for unit in ("bytes", "kB", "MB", "GB"):
        if number < 1000 or unit == "GB":
            break
        number /= 1000
    return f"{number:,.0f} {unit}" if unit == "bytes" else f"{number:,.1f} {unit}"
