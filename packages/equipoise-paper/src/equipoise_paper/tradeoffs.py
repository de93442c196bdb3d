"""Trade-offs of privacy against value, reward and utility: Figs. 2 a-c, 3 a-c, and the appendix's variations."""

from collections.abc import Callable
from pathlib import Path

from equipoise.estimate import Estimate
from equipoise_paper.outcome import Outcome
from equipoise_paper.pictures import Curve, draw_curves
from equipoise_paper.settings import PARTIES
from equipoise_paper.sweep import Run
from equipoise_paper.verdict import Verdict, below, fact, falls, generally_falls, mean_of_runs, negated, rises

Number = Callable[[Run], Estimate | float]


def levels_of(runs: list[Run]) -> list[float]:
    """Return every ε of the runs, in order."""
    return list(dict.fromkeys(run.epsilon for run in runs))


def averaged(runs: list[Run], number: Number) -> list[Estimate]:
    """Average a number over the runs at every ε."""
    return mean_of_runs([[number(run) for run in runs if run.epsilon == level] for level in levels_of(runs)])


def value_picture(path: Path, runs: list[Run], varied: str) -> list[Path]:
    """Draw v_i, φ_i, r_i and v_N against ε (Fig. 2 a-c)."""
    lines: dict[str, Number] = {
        f"v{varied} alone": lambda run: run.values[varied,],
        f"φ{varied} brought": lambda run: run.shapley[varied],
        f"r{varied} rewarded": lambda run: run.reward,
        "vN all together": lambda run: run.team,
    }
    return _picture(path, runs, varied, lines, "nats")


def loss_picture(path: Path, runs: list[Run], varied: str) -> list[Path]:
    """Draw the MNLP of all parties', the party's own and the reward's model against ε (Fig. 3 a-c)."""
    lines: dict[str, Number] = {
        "all together": lambda run: run.loss_team,
        f"party {varied} alone": lambda run: run.loss_alone,
        f"party {varied}'s reward": lambda run: run.loss_reward,
    }
    return _picture(path, runs, varied, lines, "MNLP (nats per row)")


def shapley_picture(path: Path, runs: list[Run], varied: str) -> list[Path]:
    """Draw every party's Shapley value against ε (App. Fig. of Shapley values)."""

    def of(party: str) -> Number:
        return lambda run: run.shapley[party]

    return _picture(path, runs, varied, {f"φ{party}": of(party) for party in PARTIES}, "Shapley value (nats)")


def _picture(path: Path, runs: list[Run], varied: str, lines: dict[str, Number], y_label: str) -> list[Path]:
    curves = [Curve(name, levels_of(runs), averaged(runs, number)) for name, number in lines.items()]
    return draw_curves(path, curves, x_label=f"ε of party {varied}", y_label=y_label)


def value_verdicts(runs: list[Run], varied: str) -> list[Verdict]:
    """Check V3 and its counterpart for rewards, and that the party gets all parties' posterior at the largest ε."""
    last = [run for run in runs if run.epsilon == levels_of(runs)[-1]]
    most = [run for run in last if run.shapley[varied].value == max(phi.value for phi in run.shapley.values())]
    return [
        rises(f"v{varied} grows with ε{varied}", averaged(runs, lambda run: run.values[varied,])),
        rises(f"φ{varied} grows with ε{varied}", averaged(runs, lambda run: run.shapley[varied])),
        rises(f"r{varied} grows with ε{varied}", averaged(runs, lambda run: run.reward)),
        fact(
            f"at the largest ε{varied}, party {varied} brings most and is rewarded with everybody's posterior",
            len(most) == len(last),
            f"so in {len(most)} of {len(last)} runs at ε = {last[0].epsilon:g}",
        ),
    ]


def loss_verdicts(runs: list[Run], varied: str) -> list[Verdict]:
    """Check that utility grows as privacy is weakened, and that the reward predicts better than the own model."""
    alone = averaged(runs, lambda run: run.loss_alone)
    reward = averaged(runs, lambda run: run.loss_reward)
    together = averaged(runs, lambda run: run.loss_team)
    return [
        generally_falls(f"MNLP of everybody's model generally falls as ε{varied} grows", together),
        generally_falls(f"MNLP of party {varied}'s own model generally falls as ε{varied} grows", alone),
        falls(f"MNLP of party {varied}'s reward falls as ε{varied} grows", reward),
        below(f"party {varied}'s reward predicts better than its own model", list(zip(reward, alone, strict=True))),
        _less_rapidly(varied, alone, reward),
    ]


def _less_rapidly(varied: str, alone: list[Estimate], reward: list[Estimate]) -> Verdict:
    lost_alone, lost_reward = alone[0] - alone[-1], reward[0] - reward[-1]
    claim = (
        f"from the largest to the smallest ε{varied}, the reward's MNLP rises less than that of party {varied} alone"
    )
    return below(claim, [(lost_reward, lost_alone)])


def shapley_verdicts(runs: list[Run], varied: str) -> list[Verdict]:
    """Check that others contribute less as the party contributes more."""

    def of(party: str) -> Number:
        return lambda run: run.shapley[party]

    verdicts = [
        falls(f"φ{party} falls as ε{varied} grows", averaged(runs, of(party))) for party in PARTIES if party != varied
    ]
    first = [run for run in runs if run.epsilon == levels_of(runs)[0]]
    least = [run for run in first if run.shapley[varied].value == min(phi.value for phi in run.shapley.values())]
    return [
        *verdicts,
        fact(
            f"at the smallest ε{varied}, party {varied} brings least",
            len(least) == len(first),
            f"so in {len(least)} of {len(first)} runs at ε = {first[0].epsilon:g}",
        ),
    ]


def trade_off(name: str, runs: list[Run], folder: Path, varied: str = "2", *, shapley: bool = True) -> Outcome:
    """Draw values, losses and, with `shapley`, Shapley values against ε, and decide every claim on them."""
    pictures = value_picture(folder / f"{name}-values", runs, varied) + loss_picture(
        folder / f"{name}-mnlp", runs, varied
    )
    verdicts = value_verdicts(runs, varied) + loss_verdicts(runs, varied)
    if shapley:
        pictures += shapley_picture(folder / f"{name}-shapley", runs, varied)
        verdicts += shapley_verdicts(runs, varied)
    return _outcome(name, runs, pictures, verdicts)


def _outcome(name: str, runs: list[Run], pictures: list[Path], verdicts: list[Verdict]) -> Outcome:
    return Outcome.of_runs(name, [run.row() for run in runs], ("epsilon",), pictures, verdicts)


def larger_improvement(name: str, runs: list[Run], usual: list[Run], folder: Path, varied: str) -> Outcome:
    """Compare a party's gain in MNLP for ε above 1 with its gain in the usual setting."""

    def gains(some: list[Run]) -> list[Estimate]:
        chosen = [run for run in some if run.epsilon > 1]
        return averaged(chosen, lambda run: run.loss_alone - run.loss_reward)

    claim = f"for ε{varied} > 1 the reward improves on party {varied}'s own MNLP by more than in the usual setting"
    verdicts = [
        below(f"party {varied}'s reward predicts better than its own model, also for ε{varied} > 1", _sides(runs)),
        below(claim, list(zip(gains(usual), gains(runs), strict=True))),
    ]
    return _outcome(name, runs, loss_picture(folder / f"{name}-mnlp", runs, varied), verdicts)


def _sides(runs: list[Run]) -> list[tuple[Estimate, Estimate]]:
    chosen = [run for run in runs if run.epsilon > 1]
    reward, alone = averaged(chosen, lambda run: run.loss_reward), averaged(chosen, lambda run: run.loss_alone)
    return list(zip(reward, alone, strict=True))


def without_noise_awareness(name: str, runs: list[Run], prior_loss: float, folder: Path, varied: str = "2") -> Outcome:
    """Check that inference that ignores the noise shows no trade-offs."""
    alone = averaged(runs, lambda run: run.values[varied,])
    brought = averaged(runs, lambda run: run.shapley[varied])
    losses = averaged(runs, lambda run: run.loss_alone)
    claims = "without noise-aware inference"
    verdicts = [
        negated(f"{claims}, v{varied} does not grow with ε{varied} throughout", rises("", alone)),
        negated(f"{claims}, φ{varied} does not grow with ε{varied} throughout", rises("", brought)),
        below(f"{claims}, the strongest privacy makes party {varied} look more valuable", [(alone[-1], alone[0])]),
        below(
            f"{claims}, party {varied}'s own model predicts worse under the strongest privacy than the prior",
            [(Estimate(prior_loss, 0.0), losses[0])],
        ),
    ]
    return _outcome(name, runs, value_picture(folder / f"{name}-values", runs, varied), verdicts)
