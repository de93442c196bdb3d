"""What the documents say is true: commands run, snippets run, names exist, and the site stands by itself."""

import importlib
import os
import re
import runpy
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from filelock import FileLock

import equipoise
from pages import ROOT, Reader, Step, steps_of

README_PAGE = ROOT / "README.md"
README = README_PAGE.read_text(encoding="utf-8")
NOTATION = (ROOT / "docs" / "notation.md").read_text(encoding="utf-8")
PAGES = [README_PAGE, *sorted(ROOT.glob("docs/**/*.md"))]
ROUND = "docs/tutorials/operator.md"  # how-to pages use its files: their setup copies them from $ROUND
FIRST_READ = [README_PAGE, *sorted(ROOT.glob("docs/tutorials/*.md"))]  # by newcomers, in an empty folder
SHOWN_WHOLE = [*FIRST_READ, *(ROOT / "docs" / name for name in ("index.md", "service.md", "howto/bounds.md"))]

SOURCES = sorted((ROOT / "packages").glob("*/src/*"))

# Everything in the documents that is shown as a command or a snippet and is not run here.
NOT_RUN = {
    ("README.md", "make demo"),
    ("README.md", "make test"),
    ("README.md", "make demo-service"),
    ("docs/index.md", "pip install equipoise"),
    ("docs/service.md", "make demo-service"),
    ("docs/service.md", "pip install equipoise-service"),
    ("docs/service.md", "equipoise worker --data mediator"),
    ("docs/service.md", "equipoise worker --data mediator --database postgresql://equipoise@db.example.org/equipoise"),
    (
        "docs/service.md",
        "equipoise serve --data mediator --database postgresql://equipoise:SECRET@db.example.org/equipoise",
    ),
    (
        "docs/service.md",
        "equipoise serve --data mediator --host 0.0.0.0 --port 443 --tls-cert cert.pem --tls-key key.pem --public-url https://mediator.example.org",
    ),
    ("docs/howto/clusters.md", "pip install 'equipoise[distributed]'"),
    ("docs/reproduction.md", "equipoise reproduce tradeoff-syn naive-syn"),
    ("docs/reproduction.md", "equipoise reproduce all --full"),
}


def _name(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def _steps(page: Path) -> list[Step]:
    return [step for step in steps_of(page) if not step.left_out]


@pytest.fixture(scope="session")
def settled(tmp_path_factory: pytest.TempPathFactory) -> Callable[[], Path]:
    """The folder of the operator's tutorial once it has been read: once for all pages and test processes."""
    base = tmp_path_factory.getbasetemp()
    place = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "settled-round"

    def read() -> Path:
        outcome = place / ".outcome"
        with FileLock(f"{place}.lock"):
            if not outcome.exists():
                place.mkdir()
                try:
                    with Reader(ROOT / ROUND, place) as reader:
                        reader.read()
                    outcome.write_text("")
                except Exception as error:
                    outcome.write_text(str(error) or repr(error), encoding="utf-8")
        problem = outcome.read_text(encoding="utf-8")
        assert not problem, problem
        return place

    return read


@pytest.mark.slow
@pytest.mark.process
@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, marks=pytest.mark.first if page.parent.name == "tutorials" else (), id=_name(page))
        for page in PAGES[1:]
        if _steps(page)
    ],
)
def test_what_a_page_says_works(page: Path, tmp_path: Path, settled: Callable[[], Path]) -> None:
    if _name(page) == ROUND:
        settled()
        return
    hidden = "".join(step.text for step in steps_of(page) if step.kind == "setup")
    extra = {"ROUND": str(settled())} if "$ROUND" in hidden else {}
    if "$SOURCE" in hidden:  # a page that changes the package has a copy of it
        extra |= {"SOURCE": str(ROOT), "PYTHONPATH": str(tmp_path / "packages" / "equipoise" / "src")}
    with Reader(page, tmp_path, extra, roughly="$ROUND" not in hidden) as reader:  # a round goes on as it began
        reader.read()


@pytest.mark.slow
@pytest.mark.process
@pytest.mark.first
def test_what_the_readme_says_works(tmp_path: Path) -> None:
    (snippet,) = [step.text for step in _steps(README_PAGE) if step.kind == "python"]
    assert len(snippet.strip().splitlines()) <= 26
    with Reader(README_PAGE, tmp_path, roughly=True) as reader:
        printed, *others = reader.read()
    assert len(others) >= 8
    assert "Settlement of 2 parties" in printed
    assert "Reward of south" in printed
    assert (tmp_path / "settled" / "for" / "north" / "reward.nc").exists()
    assert (tmp_path / "predictions.csv").exists()


@pytest.mark.parametrize("page", PAGES[1:], ids=_name)
def test_a_page_that_goes_on_from_the_tutorial_says_so(page: Path) -> None:
    """Its set-up puts files in place that a reader has only after the tutorial."""
    text = page.read_text(encoding="utf-8")
    before, _, hidden = text.partition("<!-- setup")
    if "$ROUND" in hidden.partition("-->")[0]:
        assert "tutorials/operator.md" in before, "say where the files come from, before the first command"


@pytest.mark.parametrize("page", SHOWN_WHOLE, ids=_name)
def test_a_first_page_leans_on_nothing_a_reader_has_not(page: Path) -> None:
    """What is read first is run as it stands, above: no hidden block, and a file that is shown is named in words."""
    lines = page.read_text(encoding="utf-8").splitlines()
    for step in steps_of(page):
        where = f"{page.name}:{step.line}"
        assert step.kind != "setup", f"{where}: a reader sees no setup"
        assert step.left_out in ("", "make") or page not in FIRST_READ, f"{where}: a reader would run it"
        assert not step.text.startswith("cd "), f"{where}: a reader would stay in that folder; put it into brackets"
        if step.kind == "write":
            said = next(line for line in reversed(lines[: step.line - 2]) if line.strip() and "<!--" not in line)
            assert f"`{step.file}`" in said, f"{page.name}:{step.line}: say that this is {step.file}"


def test_what_is_not_run_is_known() -> None:
    left_out = {
        (_name(page), step.text.split("#")[0].strip().split("\n")[0])
        for page in PAGES
        for step in steps_of(page)
        if step.left_out
    }
    assert left_out == NOT_RUN


@pytest.mark.process
def test_a_page_that_is_wrong_would_be_noticed(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    for wrong in ("```python\n1 / 0\n```", "```console\nfalse\n```", "```console\nfalse # exit 2\n```"):
        page.write_text(f"```python\nx = 1\n```\n\n{wrong}\n")
        with Reader(page, tmp_path) as reader, pytest.raises(AssertionError, match=r"page\.md:6"):
            reader.read()
    page.write_text("```sh\ntrue\n```\n")
    with pytest.raises(ValueError, match="sh"):
        steps_of(page)


@pytest.mark.process
def test_steps_of_a_page(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "<!-- setup\necho 41 > number\n-->\n\n<!-- write: note.toml -->\n\n```toml\na = 1\n```\n\n"
        "```python\nn = int(open('number').read())\n```\n\n"
        "```console\n# a comment\necho \\\n  joined  # said\nexit 3  # exit 3\nsleep 600 &\n```\n\n"
        "```python\nprint(n + 1, open('note.toml').read())\n```\n\n"
        "<!-- not run: no network -->\n```console\npip install x\n```\n"
    )
    assert [(step.kind, step.left_out) for step in steps_of(page)] == [
        ("setup", ""), ("write", ""), ("python", ""), *[("console", "")] * 3, ("python", ""), ("console", "no network"),
    ]  # fmt: skip
    with Reader(page, tmp_path) as reader:
        outputs = reader.read()
        (sleeper,) = reader.background
        assert sleeper.poll() is None
    assert sleeper.poll() is not None
    assert outputs == ["", "", "", "joined\n", "", "", "42 a = 1\n\n"]


def test_make_targets_named_in_the_documents_exist() -> None:
    makefile = (ROOT / "Makefile").read_text()
    text = README + (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    targets = set(re.findall(r"(?:^ *|`)make ([a-z-]+)", text, re.M))
    assert {"demo", "test-unit", "test", "slow", "exhaustive", "coverage", "check", "bench"} <= targets
    for target in targets:
        assert re.search(rf"^{target}:", makefile, re.M), target


def test_links_lead_somewhere() -> None:
    for document in [ROOT / "README.md", *ROOT.glob("docs/**/*.md")]:
        for link in re.findall(r"\]\(([^)#]+)\)", document.read_text(encoding="utf-8")):
            if not link.startswith("http"):
                assert (document.parent / link).exists(), f"{document.name}: {link}"


def test_files_named_in_the_documents_exist() -> None:
    for document in [*PAGES, ROOT / "CONTRIBUTING.md"]:
        for file in re.findall(r"`([a-z_]+(?:/[a-z_0-9]+)+\.py)`", document.read_text(encoding="utf-8")):
            assert any((place / file).exists() for place in (ROOT, *SOURCES, *(source.parent for source in SOURCES))), (
                f"{document.name}: {file}"
            )


def test_names_in_the_notation_exist() -> None:
    names = re.findall(r"`(equipoise[\w.]+)`", NOTATION)
    assert len(names) > 12
    for name in names:
        assert _exists(name), name


def test_a_wrong_name_in_the_notation_would_be_noticed() -> None:
    assert not _exists("equipoise.models.guarantee.Guarantee.epsilom")
    assert not _exists("equipoise.nothing")


def _exists(name: str) -> bool:
    parts = name.split(".")
    for cut in range(len(parts), 0, -1):
        try:
            found: object = importlib.import_module(".".join(parts[:cut]))
        except ModuleNotFoundError:
            continue
        for part in parts[cut:]:
            fields = {**getattr(found, "model_fields", {}), **getattr(found, "__dataclass_fields__", {})}
            if not hasattr(found, part) and part not in fields:
                return False
            found = getattr(found, part, None)
        return True
    return False


def test_documented_exit_codes_are_the_codes() -> None:
    from equipoise import errors

    table = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")
    documented = {int(code) for code in re.findall(r"^\| (\d+) \|", table, re.M)}
    classes = [v for v in vars(errors).values() if isinstance(v, type) and issubclass(v, errors.EquipoiseError)]
    assert {value.exit_code for value in classes} <= documented


def test_the_reference_of_commands_is_what_the_commands_say() -> None:
    script = runpy.run_path(str(ROOT / "scripts" / "cli_page.py"))
    page = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")
    assert page == script["replaced"](page), "run `python scripts/cli_page.py`"
    assert page.count("\n#### equipoise operator ") > 10
    assert "### equipoise reproduce" in page
    assert "`--dry-run`" in page


@pytest.mark.process
def test_no_machine_path_or_package_index_is_committed() -> None:
    listing = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True)
    files = listing.stdout.splitlines() or [str(path) for path in ROOT.glob("*/**/*.py")]
    assert len(files) > 40
    pattern = re.compile("/(ho" "me|ro" "ot|wo" "rk)/[a-z]|index-" "url|py" r"pi\.org|files\.python" "hosted")
    for name in files:
        if (ROOT / name).exists():
            assert not pattern.search((ROOT / name).read_text(encoding="latin-1")), name  # reads pictures, too
    constraints = (ROOT / "constraints.txt").read_text().splitlines()
    assert all(re.fullmatch(r"[A-Za-z0-9._-]+==[A-Za-z0-9.!+_-]+", line) for line in constraints)


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("documentation") / "site"
    result = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
    )
    assert result.returncode == 0, result.stderr
    return folder


@pytest.mark.process
@pytest.mark.slow
def test_the_site_asks_no_other_host_for_anything(site: Path) -> None:
    checked = 0
    for path in site.rglob("*"):
        if path.suffix in (".html", ".css", ".svg"):
            checked += 1
            found = _requests(path.read_text(encoding="utf-8"))
            assert not [address for address in found if _elsewhere(address)], path.name
    assert checked > 30
    # Formulas are drawn by a file of the site, without its menu, the one part that could load more.
    page = (site / "concepts.html").read_text(encoding="utf-8")
    assert page.index("mathjax-settings.js") < page.index("tex-svg.js")
    assert "enableMenu: false" in (site / "assets" / "mathjax-settings.js").read_text(encoding="utf-8")
    assert "mermaid" not in page
    for notebook in (site / "notebooks").glob("*.html"):
        assert "cdnjs" not in notebook.read_text(encoding="utf-8"), notebook.name


def test_a_request_to_another_host_would_be_noticed() -> None:
    for text in (
        '<script src="https://cdn.example/x.js">',
        "<link rel=stylesheet href=//fonts.example/css>",
        "<img alt='a' src='http://a.example/b.png'>",
        '@import "https://a.example/b.css";',
        "src: url(https://a.example/b.woff)",
    ):
        assert [address for address in _requests(text) if _elsewhere(address)], text
    assert not _requests('<a href="https://example.org">')


def _requests(text: str) -> list[str]:
    """Addresses that a browser would fetch by itself: of scripts, styles, pictures and fonts, not of links."""
    value = r"""["']?([^"'\s>)]+)"""
    return [
        *re.findall(rf"<(?:script|img|iframe|source|video|audio|embed|image|use)\b[^>]*?\b(?:src|href)={value}", text),
        *re.findall(rf"<link\b[^>]*?\bhref={value}", text),
        *re.findall(rf"@import\s+(?:url\()?{value}", text),
        *re.findall(rf"url\(\s*{value}", text),
    ]


def _elsewhere(address: str) -> bool:
    return re.match(r"(\w+:)?//", address) is not None


def test_the_reference_covers_every_public_name() -> None:
    page = (ROOT / "docs" / "reference" / "python.md").read_text(encoding="utf-8")
    assert set(re.findall(r"^::: equipoise\.(\w+)$", page, re.M)) | {"__version__"} == set(equipoise.__all__)


@pytest.mark.process
@pytest.mark.slow
def test_the_reference_shows_what_docstrings_say(site: Path) -> None:
    page = (site / "reference" / "python.html").read_text(encoding="utf-8")
    for name in equipoise.__all__:
        if name != "__version__":
            assert f'id="equipoise.{name}"' in page, name
    assert "never loads on a party" in page
    assert "Settle a round" in page
