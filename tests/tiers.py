"""Which tests run when: `make test-unit`, `make test`, `make slow`, `make exhaustive`. A pytest plugin.

A test is a unit test unless it is marked otherwise, and is held to its marks: one that makes JAX compile something
without the mark `engine`, or starts a process without the mark `process`, fails and says so. Tests that settle rounds
or sample posteriors for a second or more have the mark `engine` too, which nothing but their length shows. Hence
`make test-unit`, which runs what has no mark, stays as quick as it is.

A fixture that settles a round says so (`needs_engine`), and its tests are marked for it.

Tests are spread over workers in groups, so that what one has settled or compiled serves the next: tests of the engine
by file, by the fixture they look at, or by the name in a mark `group`; all others one by one. What takes minutes is
marked `first` and begins before all others, with its group, so that no worker is left alone with it at the end; then
come the engine's. (This is what `--dist loadgroup` of pytest-xdist is for, which pytest 9.2 has broken.)
"""

import functools
import json
import sys
from collections.abc import Callable, Generator
from typing import Any, TypeVar

import pytest
from xdist.scheduler import LoadScopeScheduling

import run_folder

MARKS = {
    "engine": "settles rounds or samples posteriors for a second or more, or compiles programs with JAX",
    "process": "starts a process",
    "statistical": "takes seconds of releases, draws or searches without either",
    "slow": "takes long, or needs a database server or a browser; run by `make slow` and by CI",
    "exhaustive": "takes too long for CI; run by `make exhaustive` before a release",
    "first": "takes a minute or more: begins before the others",
}
_STARTS = {"os.exec", "os.fork", "os.forkpty", "os.posix_spawn", "os.system", "subprocess.Popen"}
# Started by `platform`, and by Matplotlib when it first lists a machine's fonts: by whichever test comes first.
_ASKED_ONCE = (("uname",), ("fc-list",))
GROUPS = "groups.json"
LONGEST = ("rounds", "gaussian", "infer")  # groups that begin first
_COMPILED = "/jax/core/compile/backend_compile_duration"
_DONE = {"engine": "compiles programs with JAX", "process": "starts a process"}

_seen: dict[str, str] = {}  # marks that were needed, and what for
_Function = TypeVar("_Function", bound=Callable[..., Any])


def needs_engine(group: str, *, slow: bool = False) -> Callable[[_Function], _Function]:
    """Below `@pytest.fixture`: tests that use the fixture have the mark `engine`, and run where it was built."""

    def mark(function: _Function) -> _Function:
        function.engine = (group, slow)  # type: ignore[attr-defined]
        return function

    return mark


def pytest_configure(config: pytest.Config) -> None:
    for name, meaning in MARKS.items():
        config.addinivalue_line("markers", f"{name}: {meaning}")
    config.addinivalue_line("markers", "group(name): tests of the engine that run in the same worker")
    sys.addaudithook(_note_process)


def _note_process(event: str, arguments: tuple[Any, ...]) -> None:
    if event in _STARTS and arguments[:1] not in _ASKED_ONCE:
        _seen["process"] = f"{event} {arguments[0] if arguments else ''}".strip()


def _note_program(event: str, duration_secs: float, **kwargs: str | int) -> None:
    if event == _COMPILED:
        _seen["engine"] = str(kwargs.get("fun_name", "a program"))


@pytest.hookimpl(tryfirst=True)  # before pytest-xdist tells the main process that this worker is ready
def pytest_collection_finish(session: pytest.Session) -> None:
    if "jax" in sys.modules:
        from jax import monitoring

        monitoring.register_event_duration_secs_listener(_note_program)
    if hasattr(session.config, "workerinput"):  # tell the main process, which sees names alone
        groups = {item.nodeid: _group_of(item) for item in session.items}
        fresh = run_folder.path() / f"groups-{session.config.workerinput['workerid']}"
        fresh.write_text(json.dumps(groups), encoding="utf-8")
        fresh.rename(run_folder.path() / GROUPS)


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadScopeScheduling:
    config.option.loadscopereorder = False  # keep our order
    return _ByGroup(config, log)


class _ByGroup(LoadScopeScheduling):  # type: ignore[misc]
    @functools.cached_property
    def _groups(self) -> dict[str, str]:
        found: dict[str, str] = json.loads((run_folder.path() / GROUPS).read_text(encoding="utf-8"))
        return found

    def _split_scope(self, nodeid: str) -> str:
        return self._groups[nodeid]


@pytest.hookimpl(tryfirst=True)  # before `-m` chooses
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        group, slow = _engine_of_fixtures(item)
        if group:
            item.add_marker(pytest.mark.engine)
        if slow:
            item.add_marker(pytest.mark.slow)
        if "postgres_url" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.process)
            item.add_marker(pytest.mark.slow)
    items.sort(key=_rank)  # stable: files stay together


def _group_of(item: pytest.Item) -> str:
    named = item.get_closest_marker("group")
    if named is not None:
        return str(named.args[0])
    file = item.nodeid.split("::", maxsplit=1)[0]
    return _engine_of_fixtures(item)[0] or (file if item.get_closest_marker("engine") else item.nodeid)


def _engine_of_fixtures(item: pytest.Item) -> tuple[str, bool]:
    assert isinstance(item, pytest.Function)
    for definitions in item._fixtureinfo.name2fixturedefs.values():
        found: tuple[str, bool] | None = getattr(definitions[-1].func, "engine", None)
        if found is not None:
            return found
    return "", False


def _rank(item: pytest.Item) -> int:
    if item.get_closest_marker("first"):
        return -2
    if item.get_closest_marker("engine"):
        return -1 if _group_of(item) in LONGEST else 0
    return 1 if item.get_closest_marker("process") or item.get_closest_marker("statistical") else 2


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Generator[None, object, object]:
    _seen.clear()
    result = yield
    _hold(item)
    return result


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    result = yield
    _hold(item)
    return result


def _hold(item: pytest.Item) -> None:
    wrong = {mark: what for mark, what in _seen.items() if not item.get_closest_marker(mark)}
    _seen.clear()
    if wrong:
        done = " and ".join(f"{_DONE[mark]} ({what})" for mark, what in wrong.items())
        raise AssertionError(f"this test {done}; mark it {', '.join(wrong)}, or keep it from doing that")
