"""Draw the pictures of the concepts page from real computations: `python docs/pictures/draw.py`, some two minutes.

The rounds are three hospitals that estimate a share of readmissions. Noise is seeded here, so that the pictures can be
drawn again; a real release has no seed.
"""

import tempfile
from collections.abc import Sequence
from pathlib import Path
from unittest import mock

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from scipy.stats import beta, gaussian_kde, norm

import equipoise as eq
from equipoise.models import layout_of
from equipoise.party.mechanism import noise_scale

HERE = Path(__file__).parent
BLACK, ORANGE, SKY, GREEN, BLUE, RED, PINK = "#000000", "#E69F00", "#56B4E9", "#009E73", "#0072B2", "#D55E00", "#CC79A7"
SHARE = 0.3  # of readmitted patients, the truth of every picture
AGREEMENT = """
format = 2
[model]
kind = "bernoulli"
target = { name = "readmitted", labels = [0, 1] }
[privacy]
order = 2
max_epsilon = 100
[[parties]]
name = "north"
[[parties]]
name = "south"
[[parties]]
name = "west"
"""

mpl.use("Agg")
mpl.rcParams.update(
    {
        "axes.spines.right": False,
        "axes.spines.top": False,
        "axes.labelsize": 12,
        "axes.titlesize": 12,
        "font.size": 11,
        "legend.frameon": False,
        "legend.fontsize": 10.5,
        "lines.linewidth": 2,
        "svg.hashsalt": "equipoise",
    }
)


def main() -> None:
    """Draw all of them."""
    agreement = eq.Agreement.parse(AGREEMENT)
    for picture in (guarantee, noise_aware, surprise, tempering, fairness):
        figure = picture(agreement)
        figure.savefig(HERE / f"{picture.__name__.replace('_', '-')}.svg", metadata={"Date": None})


def guarantee(agreement: eq.Agreement) -> Figure:
    """What the mediator sees of a count, with one patient's row as it is and with another in its place."""
    figure, axes = _figure(height=4.4, rows=2)
    for ax, epsilon in zip(axes, (0.1, 4.0), strict=True):
        deviation = float(layout_of(agreement).noise_deviations(eq.Guarantee(2, epsilon))[0])
        x = np.linspace(-11, 15, 600)
        for count, colour, style, label in ((0, BLUE, "-", "your row as it is"), (1, RED, "--", "another row instead")):
            ax.plot(x, norm.pdf(x, count, deviation), color=colour, linestyle=style, label=label)
        ax.set_title(f"ε = {epsilon:g}: noise of standard deviation {deviation:.2g}", loc="left")
        ax.set_ylabel("density")
        ax.set_ylim(0)
    axes[1].legend(loc="upper right")
    axes[1].set_xlabel("released count − true count (rows)")
    return figure


def noise_aware(agreement: eq.Agreement) -> Figure:
    """Believing a noisy count as if it were exact, and knowing about the noise."""
    rows, epsilon = 200, 0.003
    (submission,) = _submissions(agreement, [rows], [epsilon], seed=19)
    aware = eq.infer(agreement, [submission], draws=16_000, progress=False)
    count = float(submission.values(agreement)[0])
    figure, (ax,) = _figure()
    x = np.linspace(0, 1, 600)
    ax.plot(x, beta.pdf(x, 1, 1), color=BLACK, linestyle=":", label="prior")
    ax.plot(x, beta.pdf(x, 1 + count, 1 + rows - count), color=RED, linestyle="--", label="noise ignored")
    ax.plot(x, _density(aware, x), color=BLUE, label="noise-aware")
    ax.axvline(SHARE, color=GREEN, linewidth=1.5, linestyle="-.", label="truth")
    ax.set(xlabel="share of readmitted patients", ylabel="density", xlim=(0, 1), ylim=(0, 16))
    ax.legend(loc="upper right")
    ax.set_title(f"{rows} rows released at ε = {epsilon:g}", loc="left")
    return figure


def surprise(agreement: eq.Agreement) -> Figure:
    """What a release is worth on average, by ε and by the number of rows."""
    epsilons = np.geomspace(1e-5, 1.0, 8)
    figure, (ax,) = _figure()
    for rows, colour, marker in ((100, ORANGE, "o"), (1_000, BLUE, "s"), (10_000, GREEN, "^")):
        means = []
        for epsilon in epsilons:
            found = []
            for seed in range(6):
                one = _submissions(agreement, [rows], [float(epsilon)], seed=seed)
                posterior = eq.infer(agreement, one, draws=2_000, seed=seed, progress=False)
                found.append(eq.surprise(agreement, posterior).value)
            means.append(float(np.mean(found)))
        ax.plot(epsilons, means, color=colour, marker=marker)
        ax.annotate(
            f"{rows:,} rows", (1.0, means[-1]), xytext=(0, 8), textcoords="offset points", ha="right", color=colour
        )
    ax.set(xscale="log", xlabel="ε (Rényi order 2); larger is less private", ylabel="value (nats)", ylim=(-0.1, 4.6))
    return figure


def tempering(agreement: eq.Agreement) -> Figure:
    """From the prior to the whole posterior as κ grows."""
    submissions = _submissions(agreement, [300, 300, 300], [0.5, 0.5, 0.5], seed=1)
    figure, (ax,) = _figure()
    x = np.linspace(0, 1, 600)
    for kappa, colour, style in ((0.0, BLACK, ":"), (0.01, ORANGE, "-."), (0.1, GREEN, "--"), (1.0, BLUE, "-")):
        posterior = eq.infer(agreement, submissions, kappa=kappa, draws=16_000, progress=False)
        worth = max(eq.surprise(agreement, posterior).value, 0.0)
        density = beta.pdf(x, 1, 1) if kappa == 0 else _density(posterior, x)
        ax.plot(x, density, color=colour, linestyle=style, label=f"κ = {kappa:g}, {worth:.1f} nats")
    ax.set(xlabel="share of readmitted patients", ylabel="density", xlim=(0, 0.8), ylim=(0, 28))
    ax.legend(loc="upper right")
    return figure


def fairness(agreement: eq.Agreement) -> Figure:
    """Targets of three parties by ρ, beside what each would have alone."""
    submissions = _submissions(agreement, [100, 400, 1_000], [0.01, 0.003, 0.003], seed=2)
    settlement = eq.mediate(agreement, submissions, seed=0, processes=1, progress=False)
    whole = settlement.value(*settlement.parties).value
    best = max(one.value for one in settlement.shapley.values())
    figure, (ax,) = _figure(height=3.8)
    rho = np.linspace(0.01, 1, 200)
    for party, colour, style in zip(settlement.parties, (ORANGE, GREEN, BLUE), ("--", "-.", "-"), strict=True):
        ax.plot(
            rho, whole * (settlement.shapley[party].value / best) ** rho, color=colour, linestyle=style, label=party
        )
        alone = settlement.awards[party].alone.value
        ax.plot([0, 1], [alone, alone], color=colour, linestyle=":", linewidth=1.5)
    ax.plot([], [], color=BLACK, linestyle=":", linewidth=1.5, label="alone")
    if settlement.rational_rho is not None:
        ax.axvline(settlement.rational_rho, color=BLACK, linewidth=1)
        ax.annotate(
            f"largest ρ that\nleaves nobody\nworse off: {settlement.rational_rho:.2f}",
            (settlement.rational_rho, 0.7 * whole),
            xytext=(6, 0),
            textcoords="offset points",
            fontsize=10.5,
        )
    ax.set(xlabel="fairness exponent ρ", ylabel="value of the reward (nats)", xlim=(0, 1), ylim=(0, 1.15 * whole))
    ax.legend(loc="upper left", bbox_to_anchor=(0, 1.14), ncols=4, columnspacing=1, handlelength=1.8)
    return figure


def _figure(height: float = 3.4, rows: int = 1) -> tuple[Figure, list[Axes]]:
    figure = Figure(figsize=(5.2, height), layout="constrained")
    axes = figure.subplots(rows, 1, sharex=rows > 1, squeeze=False)
    return figure, list(axes[:, 0])


def _density(posterior: eq.Posterior, x: np.ndarray) -> np.ndarray:
    """A smooth density of the draws."""
    return np.asarray(gaussian_kde(posterior.draws[next(iter(posterior.draws))].ravel())(x))


def _submissions(
    agreement: eq.Agreement, rows: Sequence[int], epsilons: Sequence[float], *, seed: int
) -> list[eq.Submission]:
    """Releases with noise that can be drawn again."""
    rng = np.random.default_rng([seed, *rows])

    def perturb(statistic: Sequence[int], *, sensitivity: int, zcdp: float) -> list[int]:
        return [int(value) + round(noise_scale(sensitivity, zcdp) * rng.normal()) for value in statistic]

    with tempfile.TemporaryDirectory() as folder, mock.patch("equipoise.party.release.perturb", perturb):
        return [
            eq.release(
                agreement,
                {"readmitted": (np.arange(number) < round(SHARE * number)).astype(int)},
                party=party,
                epsilon=epsilon,
                ledger=Path(folder) / f"{party}.ledger",
            )
            for party, number, epsilon in zip(agreement.party_names, rows, epsilons, strict=False)
        ]


if __name__ == "__main__":
    main()
