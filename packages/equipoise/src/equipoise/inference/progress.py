"""The progress of long work: a bar on a terminal, a line now and then elsewhere."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from equipoise._util.text import duration

Tick = Callable[[float], None]  # called with the number of scenarios that have gone on by a round
Show = Callable[["Meter"], None]

FEW = 3  # scenarios to time before the rest is estimated
QUIET = 30.0  # seconds between lines of one phase


class Meter:
    """The state of long work, in rounds of chains: `planned` in all, `done`, and its current phase.

    Work found in the journal of an earlier run is done, but took no time; `left` is estimated from sampled work alone.
    """

    def __init__(self, planned: float, show: Show) -> None:
        self.planned, self.done, self._sampled = planned, 0.0, 0.0
        self.label, self.number, self._found, self._of_phase, self._rounds = "", 0, 0, 0.0, 1.0
        self._show, self._begun, self._spent, self._first = show, 0.0, 0.0, 0.0
        self.is_late = False  # True if this phase takes more rounds than were planned

    @contextmanager
    def phase(self, label: str, scenarios: int, rounds: float) -> Iterator[Tick]:
        """Show a phase that samples `scenarios`, each of `rounds` on average; yield the function to call after each."""
        self.label, self._rounds = label, rounds
        self.number, self._of_phase, self._found = scenarios + self._found, float(self._found * rounds), 0
        self.planned = max(self.planned, self.done + scenarios * rounds)
        expected = self.done + scenarios * rounds
        self._begun = monotonic()
        self._show(self)
        yield self._tick
        self._spent += monotonic() - self._begun
        self._begun, self.is_late = 0.0, False
        # Chains that agree late take more rounds than planned.
        self.done = expected

    def _tick(self, rounds: float) -> None:
        # Start the clock here, because the first scenario takes longer.
        if not self._sampled:
            self._begun, self._first = monotonic(), rounds
        self._sampled += rounds
        self.is_late = self._of_phase >= self.number * self._rounds
        self._of_phase = min(self._of_phase + rounds, self.number * self._rounds)
        self.done = min(self.done + rounds, self.planned)
        self._show(self)

    def skip(self, scenarios: int, rounds: float) -> None:
        """Count scenarios of the coming phase as done, because a journal has them; `rounds` are of all of them."""
        self._found = scenarios
        self.done += rounds
        self.planned = max(self.planned, self.done)

    def expect(self, rounds: float) -> None:
        """Replan: `rounds` are left from here on."""
        self.planned = self.done + rounds

    @property
    def finished(self) -> int:
        """The number of scenarios of this phase that are finished."""
        return int(self._of_phase / self._rounds + 1e-6)

    @property
    def left(self) -> float | None:
        """The estimated seconds left, if work goes on at its pace since the first scenario was finished.

        It is None before a few scenarios are finished, and once a phase takes more rounds than were planned: its last
        scenarios may go on for long, because their chains do not agree yet.
        """
        timed = self._sampled - self._first
        if timed < FEW * self._rounds or self.is_late:
            return None
        spent = self._spent + (monotonic() - self._begun if self._begun else 0.0)
        return spent * max(0.0, self.planned - self.done) / timed

    @property
    def words(self) -> str:
        """The phase, and its progress."""
        return f"{self.label}: {self.finished} of {self.number}" if self.finished else self.label


@contextmanager
def meter(wanted: bool | None, planned: float) -> Iterator[Meter | None]:
    """Yield a meter that is shown on standard error, or None.

    On a terminal it is a bar, unless `wanted` is false. Elsewhere it is a line at the beginning of every phase and
    twice a minute if `wanted` is true, and nothing if it is None.
    """
    console = Console(stderr=True)
    if wanted is False or (wanted is None and not console.is_terminal):
        yield None
        return
    if not (console.is_terminal or console.is_jupyter):
        yield Meter(planned, _lines())
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.fields[left]}"),
    )
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("", total=planned, left="")

        def show(state: Meter) -> None:
            bar.update(
                task, description=state.words, completed=state.done, total=state.planned, left=_left(state).strip()
            )

        yield Meter(planned, show)


@contextmanager
def phase_of(progress: bool | Meter | None, label: str, scenarios: int, rounds: float) -> Iterator[Tick | None]:
    """Show a phase of the work on a meter, or on a new one of its own."""
    if isinstance(progress, Meter):
        with progress.phase(label, scenarios, rounds) as tick:
            yield tick
        return
    with meter(progress, scenarios * rounds) as own:
        if own is None:
            yield None
            return
        with own.phase(label, scenarios, rounds) as tick:
            yield tick


def _lines() -> Show:
    """Return a function that prints a meter's state as lines."""
    console = Console(stderr=True)
    begun = said = monotonic()
    seen: set[str] = set()

    def show(state: Meter) -> None:
        nonlocal said
        now = monotonic()
        if state.label in seen and now - said < QUIET:
            return
        gone = "" if state.label not in seen else f", {duration(now - begun)} gone"
        seen.add(state.label)
        said = now
        console.print(f"{state.words}{gone}{_left(state)}", markup=False, highlight=False, soft_wrap=True)

    return show


def _left(state: Meter) -> str:
    if state.is_late:
        return ", longer than planned: some chains do not agree yet"
    return "" if state.left is None else f", about {duration(state.left)} left"
