"""Simulation of a whole round in one process that sees all tables, to try it out; nothing in it is private."""

import math
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from equipoise._util.text import counted, first_few
from equipoise.agreement import Agreement
from equipoise.errors import AgreementError
from equipoise.mediation.mediator import mediate
from equipoise.mediation.settlement import Settlement
from equipoise.party.release import release

EPSILON = 1.0


def simulate_round(
    tables: Mapping[str, Any],
    agreement: Agreement | str | Path | None = None,
    *,
    target: str | None = None,
    epsilon: float | Mapping[str, float] = EPSILON,
    test: Any = None,
    processes: int | None = None,
    progress: bool | None = None,
    **settings: Any,
) -> Settlement:
    """Release and settle a consortium's tables in one call, as if their owners had met.

    Everything runs as in a real round (OpenDP's noise, signed submissions, the mediator), but in one process that sees
    all tables. Without an agreement, columns and bounds are taken from the tables. No real round may do that: bounds
    must come from common knowledge.

    Parameters
    ----------
    tables : mapping of str to data frame or dictionary of columns
        Each party's rows.
    agreement : Agreement or path, optional
        The agreement of the round; its parties must be those of the tables.
    target : str, optional
        Without an agreement: the column to learn; all others are features. A column with two values makes it a logistic
        regression, any other a linear one.
    epsilon : float or mapping of str to float
        Everybody's ε (Rényi, order 2 unless agreed otherwise), or each party's.
    test : data frame or dictionary of columns, optional
        Rows outside of all tables, on which each reward's predictions are measured.
    processes : int, optional
        Processes to sample in; by default one per core, if that pays.
    progress : bool, optional
        Show a progress bar; by default only on a terminal.
    **settings
        Settings of the settlement, see `SettlementSettings`.

    Returns
    -------
    Settlement
        The settled round, with every party's reward.

    Raises
    ------
    AgreementError
        There are no tables, no target, or columns that no agreement can be made on.
    TableError
        A table does not fit the agreement.
    MediationError
        The settings do not fit the round.

    Examples
    --------
    >>> settlement = eq.simulate_round({"north": north, "south": south}, target="outcome")  # doctest: +SKIP
    >>> settlement.awards["north"].reward.summary()  # doctest: +SKIP
    """
    if not tables:
        raise AgreementError("there are no tables; give at least one party's")
    chosen = {party: epsilon[party] if isinstance(epsilon, Mapping) else epsilon for party in tables}
    if agreement is None:
        if target is None:
            raise AgreementError("name the target, the column to learn, or give an agreement")
        agreed = _drafted(tables, target, max(chosen.values()))
    else:
        agreed = Agreement.of(agreement)
    with tempfile.TemporaryDirectory() as folder:
        sent = [
            release(agreed, table, party=party, epsilon=chosen[party], ledger=Path(folder) / f"{index}.ledger")
            for index, (party, table) in enumerate(tables.items())
        ]
    rows = None
    if test is not None:
        *features, last = agreed.columns
        matrix = np.column_stack([np.asarray(test[column.name], float) for column in features]) if features else None
        rows = matrix, np.asarray(test[last.name])
    return mediate(agreed, sent, test=rows, processes=processes, progress=progress, **settings)


def _drafted(tables: Mapping[str, Any], target: str, largest: float) -> Agreement:
    """Draft an agreement on all columns of the tables, with bounds that hold all their values."""
    columns = {
        str(name): np.concatenate([np.asarray(table[name]) for table in tables.values()])
        for name in next(iter(tables.values()))
    }
    if target not in columns:
        raise AgreementError(f"there is no column {target!r}; the columns are {', '.join(columns)}")
    for name, values in columns.items():
        is_number = np.issubdtype(values.dtype, np.number)
        if name != target and not is_number:
            raise AgreementError(f"the feature {name!r} holds {values.dtype} values, not numbers; convert or drop it")
        if is_number and not np.all(np.isfinite(values)):
            raise AgreementError(
                f"the column {name!r} has missing or infinite values; fill them in, leave those rows out, or give an "
                'agreement in which the feature may be missing: missing = "indicator", or missing = "value" with a fill'
            )
    labels = np.unique(columns[target])
    if len(labels) == 2:
        model = {"kind": "logistic", "target": {"name": target, "labels": [_plain(label) for label in labels]}}
    elif np.issubdtype(columns[target].dtype, np.number):
        model = {"kind": "linear", "target": {"name": target, "bounds": _around(columns[target])}}
    else:
        raise AgreementError(
            f"the target {target!r} has {counted(len(labels), 'label')}, {first_few(labels.tolist())}; a round needs "
            "two labels, or numbers"
        )
    features = [{"name": name, "bounds": _around(values)} for name, values in columns.items() if name != target]
    return Agreement.model_validate(
        {
            "format": 2,
            "model": {**model, "features": features},
            "privacy": {"max_epsilon": float(largest)},
            "parties": [{"name": party} for party in tables],
        }
    )


def _around(values: Any) -> list[float]:
    """Return bounds that hold all values, rounded outwards."""
    low, high = float(np.min(values)), float(np.max(values))
    step = 10.0 ** math.floor(math.log10((high - low) / 10 or abs(high) / 10 or 0.1))
    return [math.floor(low / step) * step, max(math.ceil(high / step), math.floor(low / step) + 1) * step]


def _plain(label: Any) -> int | str:
    """Convert a label to the form that agreements use: a whole number or a text."""
    value = label.item() if isinstance(label, np.generic) else label
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return int(value) if isinstance(value, int) else str(value)
