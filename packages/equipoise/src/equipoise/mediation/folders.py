"""Layout and permissions of a settlement's folder.

Files in the folder itself are for the operator: the settlement with everybody's values, the journal, the secret of
added noise. Each party has a folder of its own in `for/`, with its reward and its report, to be sent or opened to it.
Until then only the operator can read files. Other users may pass through the folder, so that the operator can give
them access to their own, but they cannot list it.
"""

from pathlib import Path

SETTLEMENT = "settlement.json"
REPORT = "report.html"
REWARD = "reward.nc"
PARTIES = "for"
PASSABLE, PRIVATE = 0o711, 0o700


def folder_of(folder: Path, party: str) -> Path:
    """Return the folder with everything for a party."""
    return folder / PARTIES / party


def make_folder_of(folder: Path, party: str) -> Path:
    """Make a party's folder if it does not exist, and return it; existing folders keep their permissions."""
    make_passable(folder / PARTIES)
    own = folder_of(folder, party)
    own.mkdir(mode=PRIVATE, exist_ok=True)
    return own


def make_passable(folder: Path) -> None:
    """Make a folder that others may pass through, and its parents, if they do not exist."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    folder.mkdir(mode=PASSABLE, exist_ok=True)


def places_of_reward(folder: Path, party: str) -> tuple[Path, ...]:
    """Return paths to look for a party's reward at; versions up to 0.6 had all rewards in one folder."""
    return folder_of(folder, party) / REWARD, folder / "rewards" / f"{party}.nc"


def places_of_report(folder: Path, party: str) -> tuple[Path, ...]:
    """Return paths to look for a party's report at."""
    return folder_of(folder, party) / REPORT, folder / "reports" / f"{party}.html"
