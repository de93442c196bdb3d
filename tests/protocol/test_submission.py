"""A submission survives the wire bit for bit; nothing else gets through."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import coded
from builders import bernoulli, linear, logistic
from equipoise._util.canonical import canonical_json
from equipoise.agreement import Agreement
from equipoise.errors import GuaranteeError, SubmissionError, TableError
from equipoise.models import LARGEST_NOISE, layout_of
from equipoise.models.guarantee import Guarantee
from equipoise.party.release import release
from equipoise.party.statistics import exact_statistic
from equipoise.protocol.keys import create_key, public_hex
from equipoise.protocol.submission import IMPOSSIBLE, Submission

AGREED = linear(1, max_epsilon=5.0)
DOCUMENT: dict[str, Any] = {
    "format": "equipoise-submission",
    "version": 1,
    "agreement": AGREED.identity,
    "party": "north",
    "id": "c" * 64,
    "guarantee": {"order": 2.0, "epsilon": 0.5},
    "count": 12,
    "statistic": [1, -2, 3, 4, 5],
    "public_key": "a" * 64,
    "signature": "b" * 128,
}


@pytest.fixture(scope="module")
def signed(tmp_path_factory: pytest.TempPathFactory) -> Submission:
    ledger = tmp_path_factory.mktemp("wire") / "north.ledger"
    return release(AGREED, np.ones((20, 2)), party="north", epsilon=0.5, ledger=ledger)


@given(
    statistic=st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=50),
    count=st.integers(1, 2**53),
    order=st.floats(1.0001, 1000),
    epsilon=st.floats(1e-300, 1e300),
)
def test_round_trip(statistic: list[int], count: int, order: float, epsilon: float) -> None:
    document = {**DOCUMENT, "statistic": statistic, "count": count, "guarantee": {"order": order, "epsilon": epsilon}}
    submission = Submission.model_validate(document)
    again = Submission.parse(submission.to_json())
    assert again == submission
    assert again.to_json() == submission.to_json()
    assert again.signed_bytes() == submission.signed_bytes()


def test_a_real_submission_passes(signed: Submission, tmp_path: Path) -> None:
    signed.check(AGREED)
    path = tmp_path / "s.json"
    path.write_bytes(signed.to_json())
    loaded = Submission.load(path)
    loaded.check(AGREED)
    assert loaded == signed


def test_layout_of_the_file_does_not_matter(signed: Submission) -> None:
    """Pretty-printed, reordered, with whole numbers written as such: the same submission, the same signature."""
    document = json.loads(signed.to_json())
    document["guarantee"]["order"] = 2
    text = json.dumps(dict(reversed(document.items())), indent=4)
    Submission.parse(text.encode()).check(AGREED)


def changed(**changes: Any) -> bytes:
    return json.dumps({**DOCUMENT, **changes}).encode()


HOSTILE: dict[str, bytes] = {
    "nothing": b"",
    "not an object": b"[]",
    "null": b"null",
    "truncated": canonical_json(DOCUMENT)[:-20],
    "trailing text": canonical_json(DOCUMENT) + b"{}",
    "two keys": canonical_json(DOCUMENT)[:-1] + b',"count":13}',
    "extra key": changed(comment="hello"),
    "missing key": json.dumps({k: v for k, v in DOCUMENT.items() if k != "count"}).encode(),
    "NaN epsilon": changed().replace(b"0.5", b"NaN"),
    "infinite epsilon": changed().replace(b"0.5", b"Infinity"),
    "overflowing epsilon": changed().replace(b"0.5", b"1e999"),
    "zero epsilon": changed(guarantee={"order": 2, "epsilon": 0}),
    "negative epsilon": changed(guarantee={"order": 2, "epsilon": -1}),
    "text epsilon": changed(guarantee={"order": 2, "epsilon": "0.5"}),
    "true epsilon": changed(guarantee={"order": 2, "epsilon": True}),
    "order one": changed(guarantee={"order": 1, "epsilon": 1}),
    "zero rows": changed(count=0),
    "fractional rows": changed(count=12.0),
    "true rows": changed(count=True),
    "text rows": changed(count="12"),
    "huge rows": changed(count=2**60),
    "empty statistic": changed(statistic=[]),
    "float in statistic": changed(statistic=[1.0, 2, 3, 4, 5]),
    "NaN in statistic": changed().replace(b"[1,", b"[NaN,"),
    "true in statistic": changed(statistic=[True, 2, 3, 4, 5]),
    "text in statistic": changed(statistic=["1", 2, 3, 4, 5]),
    "list in statistic": changed(statistic=[[1], 2, 3, 4, 5]),
    "beyond int64": changed(statistic=[2**63, 2, 3, 4, 5]),
    "endless digits": changed().replace(b"[1,", b"[" + b"9" * 50_000 + b","),
    "endless statistic": changed(statistic=[0] * 40_000),
    "deep": b'{"statistic":' + b"[" * 200_000,
    "huge": b" " * 5_000_000,
    "utf-16": json.dumps(DOCUMENT).encode("utf-16"),
    "lone surrogate": changed(party="nor\ud800th"),
    "wide letters": changed(party="ｎｏｒｔｈ"),
    "cyrillic o": changed(party="n\u043erth"),
    "right-to-left mark": changed(party="north\u202e"),
    "newline": changed(party="north\n"),
    "path": changed(party="../north"),
    "null byte": changed(party="north\x00"),
    "upper-case hash": changed(agreement=AGREED.identity.upper()),
    "arabic digits": changed(agreement="\u0661" * 64),
    "other format": changed(format="equipoise-reward"),
    "other version": changed(version=2),
    "short signature": changed(signature="ab"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_documents_are_refused(name: str) -> None:
    with pytest.raises(SubmissionError, match="is not a submission"):
        Submission.parse(HOSTILE[name])


@given(st.binary(max_size=400))
@example(b"\x00")
def test_any_bytes(data: bytes) -> None:
    with pytest.raises(SubmissionError):
        Submission.parse(data)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=10,
)


@given(key=st.sampled_from(sorted(DOCUMENT)), value=json_values)
@settings(max_examples=300)
def test_any_value_in_any_place(key: str, value: Any) -> None:
    """Parsing either refuses, or returns something that is exactly what was sent and is not validly signed."""
    data = json.dumps({**DOCUMENT, key: value}).encode()
    try:
        submission = Submission.parse(data)
    except SubmissionError:
        return
    assert json.loads(submission.to_json()) == json.loads(data)
    with pytest.raises(SubmissionError):
        submission.check(AGREED)


@given(data=st.data())
@settings(max_examples=200)
def test_any_flipped_byte(signed: Submission, data: st.DataObject) -> None:
    """Whatever byte of a real submission is changed, it is refused, or still says the same."""
    raw = bytearray(signed.to_json())
    place = data.draw(st.integers(0, len(raw) - 1))
    raw[place] = data.draw(st.integers(0, 255))
    try:
        submission = Submission.parse(bytes(raw))
        submission.check(AGREED)
    except SubmissionError:
        return
    assert submission == signed


def resigned(signed: Submission, tmp_path: Path, **changes: Any) -> Submission:
    """A submission altered by someone who has a key of their own."""
    key = create_key(tmp_path / "mallory.key")
    unsigned = Submission.model_validate({**signed.model_dump(), **changes, "public_key": public_hex(key)})
    return unsigned.model_copy(update={"signature": key.sign(unsigned.signed_bytes()).hex()})


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"agreement": "f" * 64}, "was made for agreement ffffffffffff…"),
        ({"party": "east"}, "comes from no party"),
        ({"guarantee": {"order": 3.0, "epsilon": 0.5}}, "states order 3; the agreed order is 2"),
        ({"guarantee": {"order": 2.0, "epsilon": 5.5}}, "epsilon 5.5, above the agreed 5"),
        ({"statistic": [1, 2, 3]}, "has 3 numbers; this agreement needs 5"),
        ({"count": 2**52}, "rows; at most"),
        (
            {"guarantee": {"order": 2.0, "epsilon": 5e-324}},
            "states epsilon 4.94066e-324, with which nothing can be rel",
        ),
        ({"guarantee": {"order": 2.0, "epsilon": 1e-17}}, "states epsilon 1e-17, with which nothing can be released"),
        ({"statistic": [2**63 - 1, 0, 0, 0, 0]}, "'north' has 2.684e.08 for 'x0', which for 20 rows lies between -20 "),
        (
            {"statistic": [0, 0, -(2**63), 0, 0]},
            "lies between 0 and 20, and is .*: no table and no noise give that; ask",
        ),
    ],
)
def test_what_does_not_fit_the_agreement(
    signed: Submission, tmp_path: Path, changes: dict[str, Any], says: str
) -> None:
    with pytest.raises(SubmissionError, match=says):
        resigned(signed, tmp_path, **changes).check(AGREED)


def test_extreme_noise_is_believed_until_none_could_be(signed: Submission, tmp_path: Path) -> None:
    """Outside of what 20 rows add up to by standard deviations of the noise; the mediator remarks on more than 6."""
    layout = layout_of(AGREED)
    most = layout.steps_per_unit[0] * signed.count
    for number, (deviations, fine) in enumerate([(7, True), (39, True), (41, False)]):
        folder = tmp_path / str(number)
        folder.mkdir()
        far = most + round(deviations * layout.noise_steps(signed.stated))
        odd = resigned(signed, folder, statistic=[far, *signed.statistic[1:]])
        if fine:
            odd.check(AGREED)
        else:
            with pytest.raises(SubmissionError, match="is 41 standard deviations of its noise outside"):
                odd.check(AGREED)


def test_claims_of_more_rows_than_agreed(signed: Submission, tmp_path: Path) -> None:
    """A claim costs nothing: 82 million rows were accepted in version 0.14, and `mediate` did not end."""
    document = AGREED.model_dump(mode="json")
    agreed = Agreement.model_validate(document | {"privacy": document["privacy"] | {"max_rows": 20}})
    fitting = resigned(signed, tmp_path, agreement=agreed.identity)
    fitting.check(agreed)
    (tmp_path / "more").mkdir()
    with pytest.raises(SubmissionError, match="claims 21 rows; at most 20 are agreed"):
        resigned(signed, tmp_path / "more", agreement=agreed.identity, count=21).check(agreed)
    with pytest.raises(TableError, match="more than 20 rows, the most that is agreed"):
        release(agreed, np.ones((21, 2)), party="north", epsilon=0.5, ledger=tmp_path / "ledger")
    assert not (tmp_path / "ledger").exists()


@pytest.mark.parametrize(
    ("sums", "says"),
    [
        ([900, 0, 0, 0, 0], "'x0' is 900, too large for x0"),
        ([0, 900, 0, 0, 0], "'y' is 900, too large for y"),
        ([0, 0, 1000, 0, 700], None),
        ([0, 0, 0, 900, 0], "'x0 × y' is 900, too large for x0 × x0 and y × y"),
    ],
)
def test_sums_that_no_rows_have_together(signed: Submission, tmp_path: Path, sums: list[int], says: str | None) -> None:
    """Each of them could be that of a thousand rows; (Σx)² ≤ n Σx² and (Σxy)² ≤ Σx² Σy² say that all cannot."""
    steps = [value * step for value, step in zip(sums, layout_of(AGREED).steps_per_unit, strict=True)]
    odd = resigned(signed, tmp_path, count=1_000, statistic=steps, guarantee={"order": 2.0, "epsilon": 5.0})
    if says is None:
        odd.check(AGREED)
        return
    with pytest.raises(SubmissionError, match=f"contradicts itself: {says}"):
        odd.check(AGREED)


@given(st.integers(0, 2**32 - 1), st.sampled_from([1e-6, 0.01, 5.0]), st.integers(1, 40))
def test_honest_releases_never_contradict_themselves(seed: int, epsilon: float, rows: int) -> None:
    """Constant columns and equal rows are where the inequalities hold with equality."""
    rng = np.random.default_rng(seed)
    table = np.column_stack([rng.choice([-2.0, 0.3, 2.0]) * np.ones(rows), rng.choice([0.0, 5.0, 10.0], rows)])
    layout = layout_of(AGREED)
    exact = exact_statistic(layout, table)
    guarantee = AGREED.guarantee(epsilon=epsilon)
    noisy = np.array(exact.values) + np.rint(layout.noise_steps(guarantee) * rng.normal(size=len(layout)))
    values = [value / step for value, step in zip(noisy, layout.steps_per_unit, strict=True)]
    assert layout.contradiction(values, rows, layout.noise_deviations(guarantee), IMPOSSIBLE) is None


def test_products_that_no_three_columns_have_together(tmp_path: Path) -> None:
    """Any two may have a correlation of −0.9, three may not: their sum would have a negative square."""
    agreed = linear(3, max_epsilon=5.0)
    made = release(agreed, np.ones((20, 4)), party="north", epsilon=0.5, ledger=tmp_path / "north.ledger")
    layout = layout_of(agreed)

    def with_product(product: float, folder: str) -> Submission:
        found = []
        for entry, step in zip(layout.entries, layout.steps_per_unit, strict=True):
            of_features = entry.second is not None and 3 not in (entry.first, entry.second)
            square = 1_000 if entry.first == entry.second else 0
            found.append(round((square or product * of_features) * step))
        (tmp_path / folder).mkdir()
        stated = {"order": 2.0, "epsilon": 5.0}
        return resigned(
            made, tmp_path / folder, agreement=agreed.identity, count=1_000, statistic=found, guarantee=stated
        )

    says = r"squares of a weighted sum of ('x[012]', ){3}.* add up to -800, in 1,000 rows"
    with pytest.raises(SubmissionError, match=f"contradicts itself: {says}"):
        with_product(-900.0, "impossible").check(agreed)
    # Three may be correlated by −0.5, and with this noise seem to be by a little more.
    with_product(-520.0, "possible").check(agreed)


@pytest.mark.parametrize("epsilon", [1e-6, 0.1, 64.0, 1e12])
@pytest.mark.parametrize("kind", ["linear", "logistic", "levels", "ball"])
def test_no_honest_release_has_a_negative_square(kind: str, epsilon: float) -> None:
    """Rows on a line, or fewer than columns, leave eigenvalues of 0, which noise makes negative half of the time."""
    models = {
        "linear": linear(8),
        "logistic": logistic(8),
        "levels": coded.agreement("linear"),
        "ball": linear(8, norm_bound=1.5),
    }
    agreed = models[kind]
    layout, guarantee = layout_of(agreed), Guarantee(order=agreed.privacy.order, epsilon=epsilon)
    rng = np.random.default_rng(3)
    for rows in (2, 5, 300):
        if kind == "levels":
            table: Any = coded.rows("linear", rows, rng)[0]
        else:
            line = rng.choice([-2.0, 2.0], size=(rows, 1)) * np.ones((1, 8))
            table = np.column_stack([line, line[:, 0] > 0])
        if kind == "logistic":
            table = pd.DataFrame(table, columns=[*(f"x{place}" for place in range(8)), "y"])
            table["y"] = np.where(table["y"] > 0, "yes", "no")
        exact = exact_statistic(layout, table)
        for _ in range(40):
            noisy = np.array(exact.values) + np.rint(layout.noise_steps(guarantee) * rng.normal(size=len(layout)))
            values = [value / step for value, step in zip(noisy, layout.steps_per_unit, strict=True)]
            assert layout.contradiction(values, exact.count, layout.noise_deviations(guarantee), IMPOSSIBLE) is None


def test_whatever_can_be_released_is_accepted(tmp_path: Path) -> None:
    """Down to the smallest epsilon; there the noise fills 64-bit numbers, and may be saturated."""
    epsilon = AGREED.privacy.order * layout_of(AGREED).sensitivity ** 2 / (2 * LARGEST_NOISE**2)
    table = np.ones((20, 2))
    for number in range(20):
        release(AGREED, table, party="north", epsilon=1.0001 * epsilon, ledger=tmp_path / f"{number}").check(AGREED)
    with pytest.raises(GuaranteeError, match="more noise than 64-bit numbers hold"):
        release(AGREED, table, party="north", epsilon=0.99 * epsilon, ledger=tmp_path / "ledger")


def test_edited_submission(signed: Submission) -> None:
    edited = signed.model_copy(update={"count": signed.count + 1})
    with pytest.raises(SubmissionError, match="altered after it was signed"):
        edited.check(AGREED)


def test_pinned_key_keeps_strangers_out(signed: Submission, tmp_path: Path) -> None:
    key = create_key(tmp_path / "north.key")
    document = bernoulli().model_dump()
    document["parties"][0]["public_key"] = public_hex(key)
    pinned = Agreement.model_validate(document)
    mine = release(pinned, np.ones(5), party="north", epsilon=1, ledger=tmp_path / "l", key=tmp_path / "north.key")
    mine.check(pinned)
    with pytest.raises(SubmissionError, match="but the agreement names"):
        resigned(mine, tmp_path).check(pinned)


def test_missing_file(tmp_path: Path) -> None:
    with pytest.raises(SubmissionError, match="cannot read"):
        Submission.load(tmp_path / "none.json")


def test_saved_whole_or_not_at_all(signed: Submission, tmp_path: Path) -> None:
    signed.save(tmp_path / "one.json")
    assert Submission.load(tmp_path / "one.json") == signed
    with pytest.raises(SubmissionError, match="cannot write .*one.json.*: File exists; choose another name"):
        signed.save(tmp_path / "one.json")
