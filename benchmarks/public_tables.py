"""Public tables with levels, gaps and skew, and what parties that know such tables would agree on.

Five tables come with statsmodels, three with scikit-learn, and two are files in a folder: `pima_indians_diabetes.csv`,
whose zeros are gaps, and `california_housing.csv`. Bounds, levels and typical ranges are common knowledge (a percentage
is within 0 and 100, an adult's body mass index within 15 and 70); they were not tuned to what is measured.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import pandas as pd
from sklearn import datasets

import equipoise as eq

PARTIES = ("north", "south", "west")
MISTAKES = ("none", "half", "twice", "shifted")  # in typical ranges


@dataclass(frozen=True)
class Table:
    """A regression that three parties might agree on, and the rows of all of them."""

    name: str
    kind: Literal["linear", "logistic"]
    features: str
    target: str
    load: Callable[[Path | None], pd.DataFrame]

    def agreement(self, effect: float | None = None, version: int = 3, mistake: str = "none") -> eq.Agreement:
        """Write what they agree on: default priors, but perhaps for the size of effects, and a version of the format.

        Noise is scaled by typical ranges since version 3, and by bounds before. With a `mistake` the typical ranges of
        all numbers are wrong.
        """
        found = self._agreement(effect, version)
        if mistake == "none":
            return found
        document = found.model_dump(mode="json", exclude_none=True)
        for column in (*document["model"]["features"], document["model"]["target"]):
            if "typical" in column:
                column["typical"] = _mistaken(column["typical"], mistake, column.get("bounds"))
                column.pop("reach", None)  # which is the typical range
        return eq.Agreement.model_validate(document)

    def _agreement(self, effect: float | None, version: int) -> eq.Agreement:
        prior = "" if effect is None else f"[model.prior]\neffect = {effect}\n"
        members = "".join(f'[[parties]]\nname = "{party}"\n' for party in PARTIES)
        return eq.Agreement.parse(
            f'format = {version}\n[model]\nkind = "{self.kind}"\nfeatures = [{self.features}]\ntarget = {self.target}\n'
            f"{prior}[privacy]\nmax_epsilon = 1e6\n{members}"
        )


def _mistaken(typical: tuple[float, float], mistake: str, bounds: tuple[float, float] | None) -> list[float]:
    """Return a range half or twice as wide, or one that is shifted by half of its width, within bounds."""
    low, high = typical
    width = high - low
    by = {"half": (0.25, -0.25), "twice": (-0.5, 0.5), "shifted": (0.5, 0.5)}[mistake]
    least, most = bounds or (-np.inf, np.inf)
    return [max(least, low + by[0] * width), min(most, high + by[1] * width)]


def _statsmodels(name: str) -> pd.DataFrame:
    from statsmodels import datasets as others

    frame: pd.DataFrame = getattr(others, name).load_pandas().data
    return frame


def _file(folder: Path | None, name: str) -> pd.DataFrame:
    if folder is None:
        raise SystemExit(f"{name} is needed: say where it lies with --data FOLDER")
    return pd.read_csv(folder / name)


def _words(flags: pd.Series, no: str = "no", yes: str = "yes") -> pd.Series:
    return flags.astype(bool).map({False: no, True: yes})


def _fair(_: Path | None) -> pd.DataFrame:
    """6,366 answers to a magazine's questionnaire, 1974."""
    frame = _statsmodels("fair")
    jobs = {1: "student", 2: "farm or factory", 3: "office", 4: "teaching", 5: "manager", 6: "professional"}
    return frame.assign(
        occupation=frame["occupation"].map(jobs),
        children=_words(frame["children"] > 0),
        affair=_words(frame["affairs"] > 0),
    )


def _randhie(_: Path | None) -> pd.DataFrame:
    """20,190 person-years of the RAND health insurance experiment; a physical limitation that was imputed is a gap."""
    frame = _statsmodels("randhie")
    health = np.select(
        [frame["hlthp"] == 1, frame["hlthf"] == 1, frame["hlthg"] == 1], ["poor", "fair", "good"], "excellent"
    )
    limited = _words(frame["physlm"] == 1).where(frame["physlm"].isin([0.0, 1.0]))
    return pd.DataFrame(
        {
            "plan": _words(frame["lncoins"] == 0, "shared cost", "free"),
            "deductible": _words(frame["idp"] == 1),
            "limited": limited,
            "diseases": frame["disea"],
            "health": health,
            "visited": _words(frame["mdvis"] > 0),
        }
    )


def _anes96(_: Path | None) -> pd.DataFrame:
    """944 voters, 1996."""
    frame = _statsmodels("anes96")
    party = np.select([frame["PID"] < 3, frame["PID"] == 3], ["democrat", "independent"], "republican")
    return frame.assign(party=party, vote=frame["vote"].map({0.0: "Clinton", 1.0: "Dole"}))


def _spector(_: Path | None) -> pd.DataFrame:
    """32 students."""
    frame = _statsmodels("spector")
    return frame.assign(PSI=_words(frame["PSI"]), GRADE=_words(frame["GRADE"]))


def _ccard(_: Path | None) -> pd.DataFrame:
    """72 card holders."""
    frame = _statsmodels("ccard")
    return frame.assign(log_spent=np.log(frame["AVGEXP"]), OWNRENT=_words(frame["OWNRENT"], "rents", "owns"))


def _star98(_: Path | None) -> pd.DataFrame:
    """303 school districts: log odds of being above the national median in mathematics."""
    frame = _statsmodels("star98")
    return frame.assign(
        odds=np.log(frame["NABOVE"] / frame["NBELOW"]),
        charter=_words(frame["PCTCHRT"] > 0),
        year_round=_words(frame["PCTYRRND"] > 0),
    )


def _diabetes(_: Path | None) -> pd.DataFrame:
    """442 patients."""
    frame: pd.DataFrame = datasets.load_diabetes(as_frame=True, scaled=False).frame
    return frame.assign(sex=frame["sex"].map({1.0: "one", 2.0: "two"}))


def _wine(_: Path | None) -> pd.DataFrame:
    """178 wines of three cultivars."""
    frame: pd.DataFrame = datasets.load_wine(as_frame=True).frame
    return frame.assign(cultivar=frame["target"].map({0: "A", 1: "B", 2: "C"}))


def _breast_cancer(_: Path | None) -> pd.DataFrame:
    """569 tumours."""
    frame: pd.DataFrame = datasets.load_breast_cancer(as_frame=True).frame
    return frame.assign(concave=_words(frame["mean concave points"] > 0.05), malignant=_words(frame["target"] == 0))


def _pima(folder: Path | None) -> pd.DataFrame:
    """768 women; a 0 of glucose, insulin or body mass index is a gap (374 of insulin)."""
    frame = _file(folder, "pima_indians_diabetes.csv")
    measured = {name: frame[name].where(frame[name] > 0).astype(float) for name in ("glucose", "insulin", "bmi")}
    return frame.assign(**measured, diabetes=_words(frame["diabetes"]))


def _california(folder: Path | None) -> pd.DataFrame:
    """20,640 districts; rooms and occupants of a household have very long tails."""
    frame = _file(folder, "california_housing.csv")
    return frame.assign(log_value=np.log(frame["MedHouseVal"]), south=_words(frame["Latitude"] < 36))


TABLES = {
    table.name: table
    for table in (
        Table(
            "fair",
            "logistic",
            """{ name = "rate_marriage", kind = "ordinal", levels = [1, 2, 3, 4, 5] },
            { name = "age", bounds = [16, 60], typical = [20, 45] },
            { name = "yrs_married", bounds = [0.5, 40], typical = [0.5, 25], transform = "log" },
            { name = "religious", kind = "ordinal", levels = [1, 2, 3, 4] },
            { name = "children", kind = "binary", labels = ["no", "yes"] },
            { name = "occupation", kind = "category", levels = ["office", "teaching", "manager"], other = true }""",
            '{ name = "affair", labels = ["no", "yes"] }',
            _fair,
        ),
        Table(
            "randhie",
            "logistic",
            """{ name = "plan", kind = "binary", labels = ["shared cost", "free"] },
            { name = "deductible", kind = "binary", labels = ["no", "yes"] },
            { name = "limited", kind = "binary", labels = ["no", "yes"], missing = "indicator" },
            { name = "diseases", bounds = [0, 60], typical = [0, 30], transform = "sqrt" },
            { name = "health", kind = "category", levels = ["excellent", "good", "fair", "poor"] }""",
            '{ name = "visited", labels = ["no", "yes"] }',
            _randhie,
        ),
        Table(
            "anes96",
            "logistic",
            """{ name = "popul", bounds = [0.5, 8000], typical = [1, 3000], transform = "log" },
            { name = "selfLR", kind = "ordinal", levels = [1, 2, 3, 4, 5, 6, 7] },
            { name = "age", bounds = [18, 100], typical = [22, 78] },
            { name = "educ", kind = "ordinal", levels = [1, 2, 3, 4, 5, 6, 7] },
            { name = "party", kind = "category", levels = ["independent", "democrat", "republican"] }""",
            '{ name = "vote", labels = ["Clinton", "Dole"] }',
            _anes96,
        ),
        Table(
            "pima",
            "logistic",
            """{ name = "pregnancies", bounds = [0, 20], typical = [0, 9], transform = "sqrt" },
            { name = "glucose", bounds = [40, 300], typical = [70, 200], missing = "value", fill = 110 },
            { name = "insulin", bounds = [5, 1000], typical = [30, 400], transform = "log", missing = "indicator" },
            { name = "bmi", bounds = [15, 70], typical = [20, 48], transform = "log", missing = "value", fill = 30 },
            { name = "age", bounds = [18, 90], typical = [21, 62], transform = "log" }""",
            '{ name = "diabetes", labels = ["no", "yes"] }',
            _pima,
        ),
        Table(
            "breast_cancer",
            "logistic",
            """{ name = "mean texture", bounds = [5, 45], typical = [12, 30] },
            { name = "mean area", bounds = [100, 3000], typical = [250, 1600], transform = "log" },
            { name = "mean smoothness", bounds = [0.04, 0.2], typical = [0.07, 0.13] },
            { name = "concave", kind = "binary", labels = ["no", "yes"] }""",
            '{ name = "malignant", labels = ["no", "yes"] }',
            _breast_cancer,
        ),
        Table(
            "spector",
            "logistic",
            """{ name = "GPA", bounds = [0, 4], typical = [2, 4] },
            { name = "TUCE", bounds = [0, 33], typical = [12, 30] },
            { name = "PSI", kind = "binary", labels = ["no", "yes"] }""",
            '{ name = "GRADE", labels = ["no", "yes"] }',
            _spector,
        ),
        Table(
            "california",
            "linear",
            """{ name = "MedInc", bounds = [0.4, 16], typical = [1.5, 9], transform = "log" },
            { name = "HouseAge", bounds = [0, 60], typical = [5, 52] },
            { name = "AveRooms", bounds = [1, 50], typical = [3, 9], transform = "log" },
            { name = "AveOccup", bounds = [1, 20], typical = [1.5, 5], transform = "log" },
            { name = "south", kind = "binary", labels = ["no", "yes"] }""",
            '{ name = "log_value", bounds = [-3, 3], typical = [-0.7, 1.6] }',
            _california,
        ),
        Table(
            "diabetes",
            "linear",
            """{ name = "age", bounds = [18, 90], typical = [25, 72] },
            { name = "sex", kind = "binary", labels = ["one", "two"] },
            { name = "bmi", bounds = [15, 60], typical = [19, 37], transform = "log" },
            { name = "bp", bounds = [50, 150], typical = [72, 122] },
            { name = "s5", bounds = [3, 7], typical = [3.6, 5.8] }""",
            '{ name = "target", bounds = [-50, 450], typical = [30, 320] }',
            _diabetes,
        ),
        Table(
            "wine",
            "linear",
            """{ name = "cultivar", kind = "category", levels = ["A", "B", "C"] },
            { name = "malic_acid", bounds = [0.2, 10], typical = [0.9, 5], transform = "log" },
            { name = "color_intensity", bounds = [0.5, 20], typical = [2, 10], transform = "log" },
            { name = "proline", bounds = [200, 2000], typical = [350, 1450], transform = "log" }""",
            '{ name = "alcohol", bounds = [10, 16], typical = [11.5, 14.5] }',
            _wine,
        ),
        Table(
            "ccard",
            "linear",
            """{ name = "AGE", bounds = [18, 90], typical = [22, 55] },
            { name = "INCOME", bounds = [0.5, 30], typical = [1.5, 8], transform = "log" },
            { name = "OWNRENT", kind = "binary", labels = ["rents", "owns"] }""",
            '{ name = "log_spent", bounds = [0, 10], typical = [2, 7.5] }',
            _ccard,
        ),
        Table(
            "star98",
            "linear",
            """{ name = "LOWINC", bounds = [0, 100], typical = [5, 85] },
            { name = "PERASIAN", bounds = [0.1, 100], typical = [0.3, 40], transform = "log" },
            { name = "PERBLACK", bounds = [0.1, 100], typical = [0.3, 40], transform = "log" },
            { name = "charter", kind = "binary", labels = ["no", "yes"] },
            { name = "year_round", kind = "binary", labels = ["no", "yes"] }""",
            '{ name = "odds", bounds = [-4, 4], typical = [-2, 2] }',
            _star98,
        ),
    )
}
