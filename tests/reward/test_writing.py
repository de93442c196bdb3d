"""Reward files are what ArviZ would write, without it."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from equipoise.inference.posterior import load_arviz
from equipoise.reward.model import Reward
from reward_posteriors import some_reward


@pytest.mark.parametrize("kind", ["linear", "poisson"])
def test_files_are_as_arviz_writes_them(kind: str, tmp_path: Path) -> None:
    reward = some_reward(kind, number=200)
    others = np.random.default_rng(0).normal(size=(2, 50, len(reward.agreement.model.coordinate_names())))
    reward = replace(reward, others=others, deviations=("by hand",))
    ours, theirs = tmp_path / "ours.nc", tmp_path / "theirs.nc"
    reward.save(ours)
    reward.to_inferencedata().to_netcdf(str(theirs), engine="h5netcdf")
    assert Reward.load(ours) == Reward.load(theirs) == reward
    arviz = load_arviz()
    found, wanted = arviz.from_netcdf(ours), arviz.from_netcdf(theirs)
    assert found.attrs == wanted.attrs
    assert found.groups() == wanted.groups()
    for group in wanted.groups():
        assert found[group].equals(wanted[group])
        for name in wanted[group].variables:
            ours_stored, theirs_stored = (one[group][name].encoding for one in (found, wanted))
            assert [ours_stored.get(key) for key in ("zlib", "complevel", "chunksizes", "dtype")] == [
                theirs_stored.get(key) for key in ("zlib", "complevel", "chunksizes", "dtype")
            ]


@pytest.mark.process
def test_saving_does_not_load_arviz(tmp_path: Path) -> None:
    some_reward("linear", number=200).save(tmp_path / "reward.nc")
    code = (
        "import sys; from equipoise.reward.model import Reward; reward = Reward.load(sys.argv[1]); "
        "reward.save(sys.argv[1]); print([one for one in ('arviz', 'xarray', 'jax') if one in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "reward.nc")], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"
