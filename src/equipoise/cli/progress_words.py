"""How far a settlement is, in a few words."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from equipoise.client.exchange import Progress


def progress_words(progress: "Progress") -> str:
    """Stage, how much of it is done, and the time left as far as it can be told."""
    words = progress.stage or "waiting for a worker"
    if progress.planned:
        words += f", {progress.done} of {progress.planned}"
    if progress.left_s is not None:
        words += f", about {duration(progress.left_s)} left"
    return words


def duration(seconds: float) -> str:
    """Seconds as people say them."""
    if seconds < 90:
        return f"{max(1, round(seconds))} s"
    if seconds < 90 * 60:
        return f"{round(seconds / 60)} min"
    return f"{seconds / 3600:.1f} h"
