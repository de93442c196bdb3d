"""Documents that are run: a markdown page read into steps, and the steps run as a reader would.

- A ```console block is given to bash line by line; lines that end in a backslash are joined. A line must succeed unless
  it ends in a comment like `# exit 5`. A line that ends in & stays in the background until the page is done.
- ```python blocks of a page share one process and its names, in order with the console blocks.
- A comment `<!-- write: FILE -->` before a block of any other language puts the block into that file.
- A comment `<!-- setup … -->` holds shell commands that readers need not see: it puts files in place.
- A comment `<!-- not run: reason -->` before a block leaves it out, and so is a line that begins with `make`.
- `equipoise mediate` may be told to settle with less precision than readers have, where no other page goes on with it.
- Blocks of other languages are shown only.
"""

import json
import os
import re
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Self

ROOT = Path(__file__).parents[1]
LANGUAGES = {"python", "console", "text", "toml"}

Kind = Literal["setup", "console", "python", "write"]

_FENCE = re.compile(r"^( *)```(\w*)\s*$")
_NOTE = re.compile(r"^ *<!-- (not run|write): (.*?) -->\s*$")
_EXIT = re.compile(r"#.*?\bexit (\d+)$")
_ROUGHLY = ("equipoise mediate ", "equipoise mediate --draws 1000 --precision 0.3 ")

# Runs python blocks: one JSON string [file, line, code] comes in on a line, an empty line goes out for each that ran.
_DRIVER = """
import json, os, sys
answers = os.fdopen(int(sys.argv.pop()), "w")
names = {"__name__": "__main__"}
for request in sys.stdin:
    file, line, code = json.loads(request)
    exec(compile("\\n" * (line - 1) + code, file, "exec"), names)
    sys.stdout.flush()
    print(file=answers, flush=True)
"""


@dataclass(frozen=True)
class Step:
    """Something a reader of a page does; `line` is where its text begins."""

    kind: Kind
    text: str
    line: int
    file: str = ""
    left_out: str = ""


def steps_of(page: Path) -> list[Step]:
    """All steps of a page, in order."""
    lines = page.read_text(encoding="utf-8").splitlines()
    found: list[Step] = []
    note: tuple[str, str] = ("", "")
    at = 0
    while at < len(lines):
        fence, remark = _FENCE.match(lines[at]), _NOTE.match(lines[at])
        if lines[at].strip() == "<!-- setup":
            end = lines.index("-->", at)
            found.append(Step("setup", _body(lines[at + 1 : end]), at + 2))
            at = end
        elif remark:
            note = (remark[1], remark[2])
        elif fence:
            end = next(k for k in range(at + 1, len(lines)) if lines[k].strip() == "```")
            found += _block(fence[2], _body(lines[at + 1 : end]), at + 2, note, page)
            note, at = ("", ""), end
        elif lines[at].strip() and note[0]:
            raise ValueError(f"{page.name}:{at + 1}: a comment {note[0]!r} must stand right before a block")
        at += 1
    return found


def _body(lines: list[str]) -> str:
    return textwrap.dedent("\n".join(lines)) + "\n"


def _block(language: str, text: str, line: int, note: tuple[str, str], page: Path) -> Iterator[Step]:
    if language not in LANGUAGES:
        raise ValueError(f"{page.name}:{line}: a block of {language or 'no language'}; use one of {sorted(LANGUAGES)}")
    reason = note[1] if note[0] == "not run" else ""
    if note[0] == "write":
        yield Step("write", text, line, file=note[1])
    elif language == "python":
        yield Step("python", text, line, left_out=reason)
    elif language == "console":
        offset = 0
        for command in re.findall(r"(?:.*\\\n)*.*\n", text):
            if command.strip() and not command.lstrip().startswith("#"):
                joined = re.sub(r"\\\n\s*", "", command).strip()
                left_out = reason or ("make" if joined.startswith("make ") else "")
                yield Step("console", joined, line + offset, left_out=left_out)
            offset += command.count("\n")


class Reader:
    """Does what a page says, in a folder of its own. As a context manager it ends what it started."""

    def __init__(self, page: Path, folder: Path, extra: dict[str, str] | None = None, *, roughly: bool = False) -> None:
        self.page, self.folder, self.roughly = page, folder, roughly
        path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
        plain = {"COLUMNS": "120", "NO_COLOR": "1", "TERM": "dumb", "MPLBACKEND": "Agg", "PATH": path}
        self.environment = {**os.environ, **plain, **(extra or {})}
        self.background: list[subprocess.Popen[bytes]] = []
        self.python: _Python | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.python is not None:
            self.python.close()
        for process in self.background:  # and what it started: it leads a session of its own
            _end(process)

    def read(self, *kinds: Kind) -> list[str]:
        """Do every step, or those of some kinds; return what each printed on standard output."""
        steps = [step for step in steps_of(self.page) if not step.left_out]
        return [self.do(step) for step in steps if not kinds or step.kind in kinds]

    def do(self, step: Step) -> str:
        """Do one step."""
        where = f"{self.page.name}:{step.line}"
        if step.kind == "write":
            (self.folder / step.file).write_text(step.text, encoding="utf-8")
            return ""
        if step.kind == "python":
            if self.python is None:
                self.python = _Python(self.folder, self.environment)
            return self.python.run(step, self.page, where)
        if step.kind == "console" and step.text.endswith("&"):
            return self._start(step.text.removesuffix("&"))
        expected = int(found[1]) if (found := _EXIT.search(step.text)) else 0
        text = step.text.replace(*_ROUGHLY) if self.roughly else step.text
        result = subprocess.run(
            ["bash", "-e", "-o", "pipefail", "-c", text],
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
        )
        assert result.returncode == expected, f"{where}: {step.text}\n{result.stdout}\n{result.stderr}"
        assert "Traceback" not in result.stderr, f"{where}: {step.text}\n{result.stderr}"
        return result.stdout

    def _start(self, command: str) -> str:
        log = (self.folder / "background.log").open("ab")
        with log:
            self.background.append(
                subprocess.Popen(
                    ["bash", "-c", f"exec {command}"],
                    cwd=self.folder,
                    env=self.environment,
                    stdout=log,
                    stderr=log,
                    start_new_session=True,
                )
            )
        return ""


class _Python:
    """One Python process for all python blocks of a page."""

    def __init__(self, folder: Path, environment: dict[str, str]) -> None:
        self.outputs = {name: folder / f".{name}" for name in ("stdout", "stderr")}
        self.seen = 0
        reading, writing = os.pipe()
        with self.outputs["stdout"].open("wb") as out, self.outputs["stderr"].open("wb") as err:
            self.process = subprocess.Popen(
                [sys.executable, "-c", _DRIVER, str(writing)],
                cwd=folder,
                env=environment,
                stdin=subprocess.PIPE,
                stdout=out,
                stderr=err,
                pass_fds=(writing,),
                start_new_session=True,
            )
        os.close(writing)
        self.answers = os.fdopen(reading)

    def run(self, step: Step, page: Path, where: str) -> str:
        assert self.process.stdin is not None
        request: Any = [str(page), step.line, step.text]
        self.process.stdin.write(json.dumps(request).encode() + b"\n")
        self.process.stdin.flush()
        ran = self.answers.readline() == "\n"
        assert ran, f"{where}:\n{self.outputs['stderr'].read_text(encoding='utf-8')[-4000:]}"
        printed = self.outputs["stdout"].read_text(encoding="utf-8")
        fresh, self.seen = printed[self.seen :], len(printed)
        return fresh

    def close(self) -> None:
        if self.process.stdin is not None:
            self.process.stdin.close()
        self.answers.close()
        try:
            self.process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            _end(self.process)


def _end(process: subprocess.Popen[bytes]) -> None:
    for number in (signal.SIGTERM, signal.SIGKILL):
        if process.poll() is None:
            os.killpg(process.pid, number)
            try:
                process.wait(timeout=20)
            except subprocess.TimeoutExpired:
                continue
