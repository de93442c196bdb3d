"""Whose is what in the folder of a settlement.

What lies in the folder itself is the operator's: everybody's values, the journal, the secret of added noise. Each party
has a folder of its own in `for/`, with its reward and its report, to be sent to it or opened to it. Files are readable
by the operator alone until then; others may pass through the folder, since parties may be let into theirs, but not
list it.
"""

from pathlib import Path

SETTLEMENT = "settlement.json"
REPORT = "report.html"
REWARD = "reward.nc"
PARTIES = "for"
PASSABLE, PRIVATE = 0o711, 0o700


def folder_of(folder: Path, party: str) -> Path:
    """Where everything for a party is."""
    return folder / PARTIES / party


def make_folder_of(folder: Path, party: str) -> Path:
    """The same, made if it is not there; folders that are there keep their permissions."""
    make_passable(folder / PARTIES)
    own = folder_of(folder, party)
    own.mkdir(mode=PRIVATE, exist_ok=True)
    return own


def make_passable(folder: Path) -> None:
    """A folder, and those it is in, if they are not there."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    folder.mkdir(mode=PASSABLE, exist_ok=True)


def places_of_reward(folder: Path, party: str) -> tuple[Path, ...]:
    """Where a party's reward may be; versions up to 0.6 had all of them in one folder."""
    return folder_of(folder, party) / REWARD, folder / "rewards" / f"{party}.nc"


def places_of_report(folder: Path, party: str) -> tuple[Path, ...]:
    """Where a party's report may be."""
    return folder_of(folder, party) / REPORT, folder / "reports" / f"{party}.html"
