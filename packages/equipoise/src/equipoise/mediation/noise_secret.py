"""Secret that the noise of rewards is drawn from: given, stored in a folder, or derived from the operator's secret.

A party that knows the noise in its reward can remove it. So the noise comes from the operating system, not from the
seed, and neither rewards nor the settlement contain its secret.

The noise of *degraded* rewards is one path for each release, in every settlement of an operator. If two settlements had
independent paths, a party with rewards of both could average the noise away. Every operator therefore has one secret,
in a file that only the operator can read, and each agreement's secret is derived from it (HKDF). So the same releases
always get the same path, in whatever folder they are settled. The secret of one agreement, given to an auditor, reveals
nothing about the others. A settlement's folder keeps a copy, which takes precedence: with it the round can be settled
again on another machine. Each line of that file has a secret, the mechanism and the identity of the agreement that it
is for; up to version 0.14 it had a single secret for all.
"""

import os
import secrets
import stat
from contextlib import suppress
from pathlib import Path

from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from equipoise._util.files import replaced_file, write_new_file
from equipoise._util.ownership import find_intruder
from equipoise._util.user_folders import make_private_folder, user_folder
from equipoise.errors import MediationError
from equipoise.inference.scenario import PATH_DIGITS
from equipoise.mediation.settings import WITH_NOISE, Mechanism, SettlementSettings

SECRET = "noise.secret"  # noqa: S105  (a name of a file)
OPERATOR_SECRET = "operator.secret"  # noqa: S105
CONFIG_VARIABLE = "EQUIPOISE_CONFIG_DIR"


def noise_secret_of(mechanism: Mechanism, given: str | None, folder: Path | None, identity: str) -> str | None:
    """Return the secret of a settlement's noise, for the agreement with this identity; None if there is no noise."""
    if mechanism not in WITH_NOISE:
        if given is not None:
            raise MediationError("a noise secret is for rewards made by noise; leave it out")
        return None
    if given is not None:
        return _long_enough(mechanism, given)
    if folder is None:
        return _new_secret(mechanism, identity)
    path = folder / SECRET
    try:
        lines = path.read_text(encoding="ascii").splitlines() if path.exists() else []
        if path.exists() and not lines:
            raise ValueError("it is empty")
        kept = [secret for secret, *bound in map(str.split, lines) if bound in ([], [mechanism, identity])]
        if not kept:
            kept = [_new_secret(mechanism, identity)]
            with replaced_file(path, mode=0o600) as partial:
                partial.write_text("\n".join([*lines, f"{kept[0]} {mechanism} {identity}", ""]), encoding="ascii")
        return _long_enough(mechanism, SettlementSettings.of(None, {"noise_secret": kept[0]}).noise_secret or "")
    except (OSError, ValueError, MediationError) as error:
        raise MediationError(
            f"cannot use {str(path)!r} ({error}). Keep it, or restore it: with another secret, the noise of rewards "
            "that were handed out could be averaged away. Delete it only if there are none"
        ) from error


def config_folder() -> Path:
    """Return the user's folder for configuration, or the one that `EQUIPOISE_CONFIG_DIR` names."""
    chosen = os.environ.get(CONFIG_VARIABLE)
    if not chosen:
        return user_folder("config")
    if not Path(chosen).is_absolute():
        raise MediationError(
            f"{CONFIG_VARIABLE} is {chosen!r}, another folder in every working directory, with another secret; give a "
            "path from the root"
        )
    return Path(chosen)


def _new_secret(mechanism: Mechanism, identity: str) -> str:
    """Make a secret.

    For degraded rewards, derive the one that all settlements of the agreement by this operator share.
    """
    if mechanism != "degraded":
        return secrets.token_hex(32)
    label = b"equipoise degraded rewards " + identity.encode("ascii")
    return HKDF(SHA256(), length=32, salt=None, info=label).derive(_operator_secret()).hex()


def _operator_secret() -> bytes:
    """Read the operator's secret, or make it; refuse one that another user could have read or written."""
    try:
        folder = config_folder()
        make_private_folder(folder)
        # The owner of a link in the path could redirect it later.
        folder = folder.resolve()
        path = folder / OPERATOR_SECRET
        if not path.exists():
            # Another process may make it at the same time.
            with suppress(FileExistsError):
                write_new_file(path, secrets.token_hex(32).encode(), mode=0o600)
        intruder = find_intruder(folder)
        mode = path.stat().st_mode
        if os.name != "nt" and intruder is None and mode & (stat.S_IRWXG | stat.S_IRWXO):
            intruder = f"others can read {str(path)!r} (mode {stat.S_IMODE(mode):03o})"
        secret = bytes.fromhex(path.read_text(encoding="ascii"))
    except (OSError, RuntimeError, ValueError) as error:
        raise MediationError(
            f"the operator's secret cannot be kept ({getattr(error, 'strerror', None) or error}): degraded rewards "
            f"need it, so that two settlements of the same releases share their noise. Give a folder of your own with "
            f"{CONFIG_VARIABLE}, or the secret itself (noise_secret=)"
        ) from error
    if intruder is not None or len(secret) < 32:
        raise MediationError(
            f"the operator's secret cannot be relied on: {intruder or 'it is too short'}. See that the folder "
            f"{str(folder)!r} and the file in it are yours alone (chmod 700, chmod 600), or give another folder with "
            f"{CONFIG_VARIABLE}"
        )
    return secret


def _long_enough(mechanism: Mechanism, secret: str) -> str:
    """Return a secret; refuse short ones for degraded rewards: older versions may have written them into exports."""
    if mechanism == "degraded" and len(secret) < PATH_DIGITS:
        raise MediationError(f"degraded rewards need a secret of {PATH_DIGITS} hexadecimal digits, not {len(secret)}")
    return secret
