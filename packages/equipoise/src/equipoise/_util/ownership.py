"""Checks that no other user could have written a file or a folder of ours.

A folder is ours alone if nobody else can write into it, replace it, or could have left a file in it. Owners other than
us and the superuser are refused, and so are permissions that let others write. Above the folder, others may write into
a folder only if its sticky bit keeps them from replacing what they do not own, as in /tmp.
"""

import os
import stat
from pathlib import Path

WRITABLE = stat.S_IWGRP | stat.S_IWOTH


def find_intruder(folder: Path) -> str | None:
    """Describe who else can write a folder, anything in it or a folder above it; return None if nobody can.

    Links in the folder are refused, since others may own their targets. On Windows nothing is checked, because its
    permissions work differently.
    """
    if os.name == "nt":
        return None
    resolved = folder.resolve()
    return _find_within(resolved) or _find_above(resolved)


def _find_within(inside: Path) -> str | None:
    # Files of a folder that nobody else may enter are out of reach, whatever their own permissions are.
    is_closed = not inside.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO)
    for path in (inside, *sorted(inside.rglob("*"))):
        seen = path.lstat()
        if not _is_trusted(seen.st_uid):
            return f"{str(path)!r} belongs to {_name_of(seen.st_uid)}"
        if stat.S_ISLNK(seen.st_mode):
            return f"{str(path)!r} is a link, and others may own what it leads to"
        is_reachable = path == inside or not is_closed
        if is_reachable and seen.st_mode & WRITABLE:
            return f"others can write {str(path)!r} (mode {stat.S_IMODE(seen.st_mode):03o})"
    return None


def _find_above(inside: Path) -> str | None:
    for path in inside.parents:
        seen = path.stat()
        if not _is_trusted(seen.st_uid):
            return f"{str(path)!r}, which it is in, belongs to {_name_of(seen.st_uid)}"
        foreign = stat.S_IWOTH | (0 if _is_own_group(seen.st_gid) else stat.S_IWGRP)
        if seen.st_mode & foreign and not seen.st_mode & stat.S_ISVTX:
            return f"others can replace folders in {str(path)!r} (mode {stat.S_IMODE(seen.st_mode):03o})"
    return None


def _is_own_group(group: int) -> bool:
    """Return whether a group is the private one that many systems give a user: of their name, with no other member.

    The name matters because a directory service may not list all members of a group.
    """
    # Windows has neither module.
    import grp
    import pwd

    try:
        me, entry = pwd.getpwuid(os.geteuid()), grp.getgrgid(group)
    except KeyError:
        return False
    others = {user.pw_name for user in pwd.getpwall() if user.pw_gid == group} | set(entry.gr_mem)
    return group == me.pw_gid and entry.gr_name == me.pw_name and others <= {me.pw_name}


def _is_trusted(owner: int) -> bool:
    return owner in (os.geteuid(), 0)


def _name_of(owner: int) -> str:
    # Windows does not have this module.
    import pwd

    try:
        return f"the user {pwd.getpwuid(owner).pw_name!r}"
    except KeyError:
        return f"the user with the number {owner}"
