"""See whether the version, the changelog, the citation and the tags tell one story.

    python scripts/release_check.py                 what every commit needs (part of `make check`)
    python scripts/release_check.py --tag v1.2.3    what a release needs: also that `make exhaustive` passed

Prints every contradiction, with the remedy, and exits with 1 if there is one. Needs no package but PyYAML.
"""

import argparse
import datetime
import re
import subprocess
import sys
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[1]
HEADING = re.compile(r"^## (\S+) — (\d{4}-\d{2}-\d{2})$", re.M)
SEMVER = re.compile(r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)")


def problems(root: Path, *, tags: list[str], tag: str | None = None) -> list[str]:
    """Every contradiction in a checkout; `tag` is the one about to be released."""
    version = _version_of(root)
    if not SEMVER.fullmatch(version):
        return [f"_version.py: {version!r} is not MAJOR.MINOR.PATCH"]
    found = [*_changelog(root, version), *_citation(root, version), *_distributions(root, version)]
    sections = {heading[1] for heading in HEADING.finditer(_read(root, "CHANGELOG.md"))}
    strange = [one for one in tags if one.removeprefix("v") not in sections]
    found += [f"the tag {one} has no section in CHANGELOG.md; write one, or remove the tag" for one in strange]
    return found if tag is None else [*found, *_release(root, version, tag)]


def _version_of(root: Path) -> str:
    stated = re.search(r'__version__ = "(.*)"', _read(root, "packages/equipoise/src/equipoise/_version.py"))
    assert stated is not None
    return stated[1]


def _changelog(root: Path, version: str) -> list[str]:
    text = _read(root, "CHANGELOG.md")
    all_headings = re.findall(r"^## .*$", text, re.M)
    dated = list(HEADING.finditer(text))
    if len(dated) != len(all_headings):
        wrong = [line for line in all_headings if not HEADING.fullmatch(line)]
        return [f"CHANGELOG.md: {line!r} is not '## VERSION — YYYY-MM-DD'" for line in wrong]
    found = []
    if not dated or dated[0][1] != version:
        newest = dated[0][1] if dated else "nothing"
        found.append(f"CHANGELOG.md begins with {newest}, _version.py says {version}; add a section or correct one")
    order = [tuple(map(int, heading[1].split("."))) for heading in dated]
    if order != sorted(set(order), reverse=True):
        found.append("CHANGELOG.md: versions do not fall from one section to the next")
    dates = [datetime.date.fromisoformat(heading[2]) for heading in dated]
    if dates != sorted(dates, reverse=True):
        found.append("CHANGELOG.md: dates do not fall from one section to the next")
    return found


def _citation(root: Path, version: str) -> list[str]:
    citation = yaml.safe_load(_read(root, "CITATION.cff"))
    newest = HEADING.search(_read(root, "CHANGELOG.md"))
    found = []
    if str(citation["version"]) != version:
        found.append(f"CITATION.cff cites version {citation['version']}, _version.py says {version}")
    if newest and str(citation["date-released"]) != newest[2]:
        found.append(f"CITATION.cff says {citation['date-released']}, the changelog's newest section {newest[2]}")
    return found


def _distributions(root: Path, version: str) -> list[str]:
    found = []
    for path in sorted(root.glob("packages/equipoise-*/pyproject.toml")):
        text, name = path.read_text(encoding="utf-8"), path.parent.name
        if f'\nversion = "{version}"' not in text:
            found.append(f"{name}: its pyproject.toml does not say version {version}, as _version.py does")
        if f'"equipoise=={version}"' not in text:
            found.append(f"{name}: its pyproject.toml does not require equipoise=={version}")
    return found


def _release(root: Path, version: str, tag: str) -> list[str]:
    found = []
    if tag != f"v{version}":
        found.append(f"the tag {tag} is not v{version}, the version in _version.py")
    runs = re.findall(r"^\| ([a-z ]+) \| (\S+) \| .*`(.*)` \|$", _read(root, "tests/exhaustive.md"), re.M)
    open_ones = [test for result, of, test in runs if (result, of) != ("passed", version)]
    if open_ones or not runs:
        found.append(
            f"{len(open_ones)} of {len(runs)} tests in tests/exhaustive.md have not passed with {version}; run `make "
            f"exhaustive` and commit the file"
        )
    return found


def _read(root: Path, name: str) -> str:
    return (root / name).read_text(encoding="utf-8")


def main() -> int:
    """Print what is wrong; the exit code says whether something is."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--tag", help="the tag about to be released")
    tag: str | None = parser.parse_args().tag or None
    listing = subprocess.run(["git", "tag", "--list", "v*"], cwd=ROOT, capture_output=True, text=True, check=False)
    found = problems(ROOT, tags=listing.stdout.split(), tag=tag)
    for problem in found:
        sys.stderr.write(f"{problem}\n")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
