"""Who else could have written a file or a folder of ours.

A folder is ours alone if nobody else can write into it, replace it, or could have left a file in it. Owners other than
us and the superuser are refused, and so are permissions that let others write. Above the folder, others may write into
a folder only if its sticky bit keeps them from replacing what they do not own, as in /tmp.
"""

import os
import stat
from pathlib import Path

WRITABLE = stat.S_IWGRP | stat.S_IWOTH


def find_intruder(folder: Path) -> str | None:
    """Say in words who else can write a folder, the files in it or a folder above it; None if nobody can.

    Windows has other permissions, which are not looked at.
    """
    if os.name == "nt":
        return None
    inside = folder.resolve()
    entries = [inside, *sorted(inside.iterdir())]
    # Files of a folder that nobody else may enter are out of reach, whatever their own permissions are.
    is_closed = not inside.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO)
    for path in entries:
        seen = path.lstat()
        if not _is_trusted(seen.st_uid):
            return f"{str(path)!r} belongs to {_name_of(seen.st_uid)}"
        is_reachable = path == inside or not is_closed
        if is_reachable and seen.st_mode & WRITABLE and not stat.S_ISLNK(seen.st_mode):
            return f"others can write {str(path)!r} (mode {stat.S_IMODE(seen.st_mode):03o})"
    for path in inside.parents:
        seen = path.stat()
        if not _is_trusted(seen.st_uid):
            return f"{str(path)!r}, which it is in, belongs to {_name_of(seen.st_uid)}"
        # A group of one's own is what many systems give every user.
        foreign = stat.S_IWOTH | (0 if seen.st_gid == os.getgid() else stat.S_IWGRP)
        if seen.st_mode & foreign and not seen.st_mode & stat.S_ISVTX:
            return f"others can replace folders in {str(path)!r} (mode {stat.S_IMODE(seen.st_mode):03o})"
    return None


def _is_trusted(owner: int) -> bool:
    return owner in (os.geteuid(), 0)


def _name_of(owner: int) -> str:
    import pwd  # which Windows does not have

    try:
        return f"the user {pwd.getpwuid(owner).pw_name!r}"
    except KeyError:
        return f"the user with the number {owner}"
