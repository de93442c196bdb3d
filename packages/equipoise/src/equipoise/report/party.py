"""A party's edition: what it sent, what it is worth, what it gets, and whether the promises are kept."""

from equipoise._util.display import Table
from equipoise._util.text import short
from equipoise.mediation.settings import WITH_NOISE
from equipoise.models.guarantee import DEFAULT_DELTA, Guarantee, guessing
from equipoise.report import beliefs as believing
from equipoise.report import charts, tables
from equipoise.report.glossary import glossary
from equipoise.report.losses import losses_section
from equipoise.report.outcome import BARS
from equipoise.report.page import Figure, Page, Section
from equipoise.report.promises import agreement_section, audit_section, conclusion
from equipoise.report.view import PartyView
from equipoise.report.wording import absence, compared, listed, nats, number


def party_page(view: PartyView) -> Page:
    """Build the whole report for one party."""
    sign, words = conclusion(view.findings)
    sections = [
        _contribution(view),
        _award(view),
        _at_home(),
        _curve(view),
        _beliefs(view),
        losses_section({view.party: view.losses}, {view.party: view.losses}) if view.losses else None,
        audit_section(view.findings, reasons=False),
        _remarks(view),
        agreement_section(view.agreement),
        glossary(view.agreement.reward.rule),
    ]
    return Page(
        title=view.agreement.title or "Settlement",
        edition=_edition(view),
        summary=_summary(view),
        sign=sign,
        conclusion=words,
        sections=[section for section in sections if section is not None],
        footer=f"Made by Equipoise {view.version}; reward {view.digest}",
        alarms=view.deviations,
    )


def _edition(view: PartyView) -> str:
    words = f"Edition for {view.party}: holds nothing of the other parties’ numbers"
    if view.whole is None:
        return words
    if len(view.team) == 2:  # φ₁ = ½ (v₁ + v_N − v₂)
        return f"{words}, though of two parties’ values each follows from the other"
    reward = view.agreement.reward
    rho_is_known = reward.rho != "max" or reward.rule == "surplus"
    if len(view.team) == 3 and rho_is_known and not view.gets_all:  # φ₁/φ_max follows from the target and v_N
        return f"{words}, though of three parties’ Shapley values two follow from one where ρ is known"
    return words


def _summary(view: PartyView) -> list[str]:
    others = [name for name in view.team if name != view.party]
    if not others:
        company = f"{view.party} settled alone, so there was nobody to share with."
    elif len(others) <= 6:
        company = f"{view.party} settled together with {listed(others)}."
    else:
        company = f"{view.party} settled together with {len(others)} other parties."
    gain, model = view.attained.value - view.alone.value, view.agreement.model
    all_ = " That is everything the team knows: nobody gets more." if view.gets_all and others else ""
    error = (
        [f"{model.error_name}, alone → with the reward: {tables.before_and_after(model, view.errors)}."]
        if set(view.errors) == {"alone", "reward"}
        else []
    )
    return [
        company,
        *error,
        f"In units of information (nats, see the glossary): its own release is worth {nats(view.alone.value)}, and its "
        f"reward {nats(view.attained.value)}: {view.party} {compared(gain)}.{all_}",
        *([absence(view.absent)] if view.absent else ()),
    ]


def _contribution(view: PartyView) -> Section:
    contribution = view.contribution
    sent = Guarantee(order=contribution.order, epsilon=contribution.epsilon)
    delta = short(DEFAULT_DELTA)
    rows = [
        ("rows", f"{contribution.rows:,}"),
        (f"ε at δ = {delta}", number(sent.epsilon_at(DEFAULT_DELTA))),
        (f"ε (Rényi, order λ = {number(contribution.order)})", number(contribution.epsilon, 4)),
        ("zCDP", number(sent.zcdp, 4)),
        ("submission id", contribution.submission),
        ("submission file, SHA-256", contribution.digest),
    ]
    words = [
        "What was released, once, and how well it hides any single row: the smaller ε, the better. The three readings "
        "of ε are of one and the same guarantee, and nothing that was made from the release weakens it.",
        guessing(sent.zcdp),
    ]
    return Section(
        "contribution",
        "What you sent",
        words,
        tables=[Table(f"Release of {view.party}", ("what", "value"), rows, numeric_from=9, codes=True)],
    )


def _award(view: PartyView) -> Section:
    noise = view.mechanism in WITH_NOISE
    rows = [
        ("alone", view.alone, "what your own release tells"),
        *(
            [("Shapley value", view.shapley, "what you add, averaged over all orders of joining")]
            if view.shapley
            else []
        ),
        ("target", view.target, "your fair share, which the reward was made to be worth"),
        ("attained", view.attained, "what the draws in your reward are worth"),
        *([("whole team", view.whole, "what all releases of your team tell together")] if view.whole else []),
        *([("similarity", view.similarity, "0 is the team’s own posterior")] if view.similarity is not None else []),
        ("τ" if noise else "κ", number(view.tau if noise else view.kappa), _how(view)),
    ]
    words = [
        "All values are information, in nats. The reward is a model made to be worth the target.",
    ]
    if view.falls_back:
        words.append(
            "Your share of what the team knows would be worth less than you know alone, so your reward is the "
            "posterior of your own release."
            if view.mechanism == "degraded"
            else "No share of what the team knows would leave you as well off as alone, so as agreed beforehand your "
            "reward is the posterior of your own release."
        )
    elif view.brings_nothing:
        words.append(
            "What your release adds to the others’ cannot be told from nothing, so your share is nothing, and the "
            "reward is what was believed before any data. With a larger ε or more rows it would be told apart."
        )
    if view.shapley is None:
        hidden = (
            "Your Shapley value is not said: it is"
            if view.whole is not None
            else ("What the whole team is worth, and your Shapley value, are not said: they are")
        )
        words.append(
            f"{hidden} computed from releases without the noise that was added to rewards, and would take some of it "
            "away."
        )
    if not view.within_tolerance:
        words.append("The reward is not within the agreed tolerance of the target; the notes say why.")
    how = tables.MEASURED if view.errors_are_measured else tables.EXPECTED
    errors = tables.errors(view.agreement.model, {view.party: view.errors}, how)
    gain = charts.Gain(view.party, view.alone, view.target, view.attained, view.whole)
    return Section(
        "award",
        "What you get",
        words,
        [Figure(charts.gains([gain]), f"From alone to the reward, in nats. {BARS}")],
        view.notes,
        [
            *([errors] if errors else []),
            Table("In nats ± standard error", ("what", "value", "meaning"), rows, numeric_from=9),
            Table("The reward’s file", ("what", "SHA-256"), [("reward", view.digest)], numeric_from=9, codes=True),
        ],
    )


def _at_home() -> Section:
    """Build the section on models that only the party can measure, because nobody else has its rows."""
    words = [
        "Four models can predict for you. This report was made by the mediator, who has never seen your rows: it knows "
        "two of the four, your release alone and your reward. The yardstick is the first, your own rows.",
    ]
    rows = [
        ("own rows", "your table, fitted at home without noise", "you alone"),
        ("alone", "your release with its noise; you would not use it", "this report"),
        ("reward", "what you were sent", "this report"),
        ("at home", "reward and own rows together, by “equipoise party combine”: the one to use", "you alone"),
    ]
    items = [
        "“equipoise party compare reward.nc TABLE -o home.html”, on your own computer, measures on held-out rows of "
        "yours what each is worth and writes it as a page. Nothing of it is sent. With “--alone” it has all four.",
        "P4 in this report compares the reward with “alone”. Whether you gain over your own rows is P4′, which that "
        "page answers. With many rows of your own you may well not gain: “equipoise party advise” says so beforehand.",
    ]
    table = Table("What can predict for you", ("model", "what it is", "who can measure it"), rows, numeric_from=9)
    return Section("home", "Is it better than your own rows?", words, items=items, tables=[table])


def _how(view: PartyView) -> str:
    if view.gets_all:
        return "nothing is held back"
    if view.falls_back:
        return "your own release, as it is"
    return {
        "noise": "noise added before the model was made",
        "degraded": "noise added to the others’ releases before the model was made",
    }.get(view.mechanism, "share of the evidence that is used")


def _curve(view: PartyView) -> Section | None:
    if not view.curve:
        return None
    noise = view.mechanism in WITH_NOISE
    mark = charts.Mark(view.party, view.tau if noise else view.kappa, view.attained)
    svg = charts.reward_curve([charts.Line(view.curve)], [mark], control="tau" if noise else "kappa")
    what = {
        "noise": "the more noise is added, the less the posterior is worth",
        "degraded": "the more noise is added to the others’ releases, the less the posterior is worth, down to what "
        "your own release tells",
    }.get(view.mechanism, "the less of the evidence is used, the less the posterior is worth")
    words = f"How the value of a reward is controlled: {what}. The mark is your reward."
    return Section("curve", "How the reward was made", [words], [Figure(svg, f"Value of the reward, in nats. {BARS}")])


def _beliefs(view: PartyView) -> Section:
    panels = believing.panels(view.agreement, {"prior": view.prior, **view.posteriors})
    caption = f"{view.party}: before any data, alone, and with the reward."
    if "alone" not in view.posteriors:
        caption = f"{view.party}: before any data, and with the reward."
    figure = Figure(charts.intervals(panels, whose=view.party), caption)
    shown = [
        tables.coefficients(view.agreement, view.posteriors[name], title, folded=name != "reward")
        for name, title in (
            ("reward", "Your reward in the columns’ own units"),
            ("alone", "Your release alone"),
        )
        if name in view.posteriors
    ]
    words = believing.introduction(view.agreement, list(view.posteriors))
    return Section("beliefs", "What is learnt", words, [figure], tables=shown)


def _remarks(view: PartyView) -> Section | None:
    if not view.remarks:
        return None
    words = "Advice, never a reproach: an unusual population looks odd too."
    return Section("remarks", "Worth a look", [words], items=view.remarks)
