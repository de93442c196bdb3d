"""Per-user folders of this machine, for settings and for data that can be computed again."""

import os
import sys
from pathlib import Path
from typing import Literal

# The variable that names the folder and the usual place, by purpose: elsewhere, on Windows and on macOS.
_FREEDESKTOP = {"config": ("XDG_CONFIG_HOME", "~/.config"), "cache": ("XDG_CACHE_HOME", "~/.cache")}
_WINDOWS = {"config": ("APPDATA", "~/AppData/Roaming"), "cache": ("LOCALAPPDATA", "~/AppData/Local")}
_MACOS = {"config": "~/Library/Application Support", "cache": "~/Library/Caches"}


def user_folder(purpose: Literal["config", "cache"]) -> Path:
    """Return our folder for a user's files of some purpose on this system; it is not created.

    A variable that is empty or relative counts as unset, as the freedesktop.org specification asks: a relative one
    would be another folder in every working directory.
    """
    if sys.platform == "darwin":
        base = Path(_MACOS[purpose])
    else:
        variable, usual = (_WINDOWS if sys.platform == "win32" else _FREEDESKTOP)[purpose]
        chosen = Path(os.environ.get(variable, ""))
        base = chosen if chosen.is_absolute() else Path(usual)
    return base.expanduser() / "equipoise"


def make_private_folder(folder: Path) -> None:
    """Create a folder, and missing ones above it, so that nobody else can enter them."""
    for path in (*reversed(folder.parents), folder):
        path.mkdir(mode=0o700, exist_ok=True)
