"""Sensors with outages.

Five sensors watch a machine; each fails now and then for hours. A window of a minute is a sample, a sensor is a view,
and a sensor that was down in a window is a missing view. Which states does the machine have, and in which one was it
while sensors were down?
"""

# %% [markdown]
# The machine idles, cuts, drills or chatters, and stays in a state for 15 windows. The signals are simulated.

# %%
import os

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from acova import ACOVA, KNNImpute, Training
from acova.metrics import clustering_accuracy

QUICK = "ACOVA_QUICK" in os.environ
SEEDS = range(2 if QUICK else 3)
SMALL = {"hidden": (32,), "epochs": 2, "training": Training(pretrain_epochs=2, warmup_epochs=2)} if QUICK else {}
rng = np.random.default_rng(0)
n_windows, n_points = (150 if QUICK else 450), 64
states = np.repeat(rng.integers(4, size=n_windows // 15 + 1), 15)[:n_windows]
sensors = ["current", "vibration", "sound", "force", "temperature"]
level, tone = rng.normal(size=(4, 5)), rng.integers(2, 20, size=(4, 5))
time = np.arange(n_points) / n_points


def features(signal):
    """Return what engineers look at in a window: level, spread, and energy in four bands."""
    power = np.abs(np.fft.rfft(signal, axis=1))[:, 1:33] ** 2
    bands = np.log1p(power.reshape(len(signal), 4, 8).sum(axis=2))
    return np.column_stack([signal.mean(axis=1), signal.std(axis=1), bands])


views, up = {}, np.ones((n_windows, 5), dtype=bool)
for s, name in enumerate(sensors):
    wave = np.sin(2 * np.pi * tone[states, s][:, None] * time + rng.uniform(0, 6, size=(n_windows, 1)))
    signal = level[states, s][:, None] + 0.6 * wave + rng.normal(scale=1.2, size=(n_windows, n_points))
    views[name] = pd.DataFrame(features(signal), columns=["mean", "std", "low", "mid", "high", "top"])
    for start in rng.integers(n_windows, size=n_windows // 150):
        up[start : start + 40, s] = False  # an outage

# %% [markdown]
# Windows in which every sensor was down cannot be clustered: leave them out. For the others, `observed` states which
# sensors were up. Values of sensors that were down are ignored.

# %%
rows = up.any(axis=1)
data = {name: frame[rows] for name, frame in views.items()}
print(f"{rows.sum()} of {n_windows} windows, {up[rows].all(axis=1).mean():.0%} with all five sensors")

# %% [markdown]
# Fit with three seeds, and compare with k-means after KNN imputation.

# %%
models = [ACOVA(4, random_state=seed, **SMALL).fit(data, observed=up[rows]) for seed in SEEDS]
others = [KNNImpute(4, random_state=seed).fit(data, observed=up[rows]) for seed in SEEDS]
for name, fitted in {"ACOVA": models, "k-means after KNN imputation": others}.items():
    scores = [clustering_accuracy(states[rows], model.labels_) for model in fitted]
    print(f"{name}: accuracy {np.mean(scores):.3f} ± {np.std(scores, ddof=1):.3f} over {len(scores)} seeds")

# %% [markdown]
# The mean confidence by the number of sensors that were up, over the seeds.

# %%
confidence = np.mean([model.probabilities_.max(axis=1) for model in models], axis=0)
sensors_up = pd.Series(up[rows].sum(axis=1), name="sensors up")
pd.Series(confidence).groupby(sensors_up).agg(["size", "mean"]).round(3)

# %% [markdown]
# The states found with the first seed over time, above the outages.

# %%
figure, (top, bottom) = plt.subplots(2, sharex=True, figsize=(8, 4), height_ratios=[1, 1])
top.scatter(np.flatnonzero(rows), models[0].labels_, c=models[0].labels_, cmap="viridis", s=4)
top.set(ylabel="state found", yticks=range(4))
bottom.imshow(~up.T, aspect="auto", cmap="Greys", interpolation="nearest")
bottom.set(yticks=range(5), yticklabels=sensors, xlabel="window (black: sensor down)")
figure.tight_layout()
