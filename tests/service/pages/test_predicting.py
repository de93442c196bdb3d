"""Predictions on rows that people type and paste."""

import subprocess
import sys
from pathlib import Path

import pytest

import reward_posteriors
from equipoise.canonical import sha256_hex
from equipoise.protocol.receipts import Receipt
from equipoise.service import rounds
from equipoise.service.pages import predicting
from equipoise.service.tables import Received, Result, Round
from service.pages.dashboard import World, parsed

LINEAR = reward_posteriors.agreement("linear")


def rewarded(made: World, kind: str, folder: Path) -> str:
    """A round of two parties that is settled, as far as north's page asks."""
    if "north" not in made.actors:
        made.member("north")
    agreed = reward_posteriors.agreement(kind)
    round_id = rounds.create(made.context, made.actors["operator"], agreed)
    reward_posteriors.some_reward(kind).save(folder / "reward.nc")
    content = (folder / "reward.nc").read_bytes()
    receipt = Receipt.signed(
        made.context.key,
        round=round_id,
        agreement=agreed.identity,
        party="north",
        submission="a" * 64,
        digest="b" * 64,
        received=1,
        event=1,
        event_digest="c" * 64,
    )
    with made.context.database.writing() as session:
        session.get_one(Round, round_id).state = "settled"
        session.add(
            Received(
                round_id=round_id,
                party="north",
                person_id=made.actors["north"].person_id,
                submission_id="a" * 64,
                digest="b" * 64,
                rows=5,
                epsilon="0.5",
                content=b"",
                receipt=receipt.to_json(),
                received=1,
            )
        )
        session.add(Result(round_id=round_id, name="rewards/north.nc", digest=sha256_hex(content), content=content))
    return f"/rounds/{round_id}/mine/prediction"


def test_linear_typed_and_pasted(fresh: World, tmp_path: Path) -> None:
    page = rewarded(fresh, "linear", tmp_path)
    browser = fresh.browser("north")
    assert [one["name"] for one in parsed(browser.get(page).text).all("input") if "feature" in one["name"]] == [
        "feature-0",
        "feature-1",
    ]
    reward = reward_posteriors.some_reward("linear")
    expected, between = reward.predict([[64.0, 29.5]], return_interval=0.9)
    answer = browser.fill(page, page, {"feature-0": "64", "feature-1": " 29.5"})
    assert answer.status_code == 200
    text = parsed(answer.text).text
    assert f"{expected[0]:.4g}" in text
    assert f"{between[0, 0]:.4g} to {between[0, 1]:.4g}" in text
    pasted = browser.fill(page, page, pasted="bmi;name;age\r\n29.5;x;64\r\n30;y;150")
    assert pasted.status_code == 200
    text = parsed(pasted.text).text
    assert f"{expected[0]:.4g}" in text
    assert "Row 2: age = 150 lies outside the agreed 20 to 100" in text
    assert "Row 1:" not in text
    kinds = [one["kind"] for one in _log(fresh)]
    assert "reward-fetched" not in kinds  # it did not leave


def _log(made: World) -> list[dict[str, object]]:
    from equipoise.service import events

    return events.listed(made.context, made.actors["operator"])


def test_mistakes_are_named_beside_the_field_and_input_is_kept(fresh: World, tmp_path: Path) -> None:
    page = rewarded(fresh, "linear", tmp_path)
    browser = fresh.browser("north")
    answer = browser.fill(page, page, {"feature-0": "old<", "feature-1": ""})
    assert answer.status_code == 422
    shown = parsed(answer.text)
    assert "“old<” is not a number" in shown.text
    assert "A number for bmi is missing" in shown.text
    wrong = [one for one in shown.all("input") if one.get("aria-invalid")]
    assert [(one["value"], one["aria-describedby"]) for one in wrong] == [
        ("old<", "bounds-0 wrong-0"),
        ("", "bounds-1 wrong-1"),
    ]
    answer = browser.fill(page, page, pasted="1,2,3")
    assert answer.status_code == 422
    assert "Row 1 has 3 cells; the model needs 2, in this order: age, bmi" in parsed(answer.text).text
    assert ">\n1,2,3</textarea>" in answer.text


def test_logistic(fresh: World, tmp_path: Path) -> None:
    page = rewarded(fresh, "logistic", tmp_path)
    reward = reward_posteriors.some_reward("logistic")
    found, between = reward.predict_proba([[30.0, 20.0]], return_interval=0.9)
    text = parsed(fresh.browser("north").fill(page, page, pasted="30\t20").text).text
    yes = found[0, reward.classes_.tolist().index("yes")]
    assert f"{'yes' if yes > 0.5 else 'no'} (yes: {100 * yes:.1f} %)" in text
    assert f"yes: {100 * between[0, 0]:.1f} % to {100 * between[0, 1]:.1f} %" in text


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("gaussian", ["a new height", "standard deviation of height"]),
        ("categorical", ["share of rows whose ward is B"]),
        ("bernoulli", ["share of rows whose ill is yes"]),
        ("poisson", ["a new visits", "rate of visits"]),
    ],
)
def test_models_without_features_say_what_they_know(kind: str, words: list[str]) -> None:
    reward = reward_posteriors.some_reward(kind)
    names = [name for name, _, _ in predicting.new_observation(reward)]
    assert set(words) <= set(names)


def test_page_of_a_model_without_features(fresh: World, tmp_path: Path) -> None:
    page = rewarded(fresh, "poisson", tmp_path)
    answer = fresh.browser("north").get(page)
    assert answer.status_code == 200
    assert "a new visits" in answer.text
    assert "<textarea" not in answer.text


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("64,29.5", [[64, 29.5]]),
        ("\n64 , 29.5\n\n", [[64, 29.5]]),
        ("64\t\u22121.5", [[64, -1.5]]),
        ('"age","bmi"\n"64","29.5"', [[64, 29.5]]),
        ("bmi,progression,age\n29.5,,64", [[64, 29.5]]),
        ("1e2;0", [[100, 0]]),
    ],
)
def test_pasted_rows(text: str, rows: list[list[float]]) -> None:
    assert predicting.pasted(LINEAR, text) == predicting.Reading(rows)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("age,bmi", "only a line of names"),
        ("age,BMI\n1,2", "names no column bmi; it names age, BMI"),
        ("age,bmi,age\n1,2,3", "names age more than once"),
        ("age,bmi\n1,2,3", "Row 1 has 3 cells; the line of names has 2."),
        ("1,2\n3", "Row 2 has 1 cell; the model needs 2"),
        ("1,2\n3,nan", "Row 2, bmi: “nan” is not a number"),
        ("1,2\n,4", "Row 2, age: the number is missing"),
        ("1_0,2", "Row 1, age: “1_0” is not a number"),
        ("1,2\n" * 51, "51 rows are too many for a page"),
        ("1,\x00", "is not a number"),
        ('"1,2', "Row 1 has 1 cell"),
        (",", "Row 1 has 0 cells; the model needs 2"),
    ],
)
def test_mistakes_in_pasted_rows(text: str, words: str) -> None:
    reading = predicting.pasted(LINEAR, text)
    assert not reading.rows
    assert words in " ".join(reading.pasted)


@pytest.mark.process
def test_predicting_needs_no_jax(tmp_path: Path) -> None:
    reward_posteriors.some_reward("linear").save(tmp_path / "reward.nc")
    program = (
        "import sys; from pathlib import Path; from equipoise.service.pages import predicting\n"
        "reward = predicting.opened(Path(sys.argv[1]).read_bytes())\n"
        "print(predicting.predictions(reward, [[64.0, 29.5]])[0].prediction, 'jax' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "reward.nc")], capture_output=True, text=True, check=True
    )
    assert done.stdout.split()[1] == "False"
