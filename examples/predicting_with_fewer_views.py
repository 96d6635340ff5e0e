"""Predicting with fewer views.

A model fitted on four views predicts new samples that have one, two or three of them. Nothing is retrained and nothing
is imputed: the posterior of a sample is that of the views it has.
"""

# %% [markdown]
# The digits that come with the library have four views. A fifth of them is kept for prediction.

# %%
import os
from itertools import combinations

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from scipy.optimize import linear_sum_assignment

from acova import ACOVA, Training
from acova.data import load_dataset

QUICK = "ACOVA_QUICK" in os.environ
SEEDS = range(2 if QUICK else 3)
SMALL = {"hidden": (256, 256), "epochs": 80, "training": Training(pretrain_epochs=20, warmup_epochs=80)}
if QUICK:
    SMALL = {"hidden": (32,), "epochs": 2, "training": Training(pretrain_epochs=2, warmup_epochs=2)}
digits = load_dataset("digits")
order = np.random.default_rng(0).permutation(len(digits.labels))[: 300 if QUICK else None]
later, now = np.split(order, [len(order) // 5])
models = [ACOVA(10, n_init=1, random_state=seed, **SMALL).fit(digits.views.take(now)) for seed in SEEDS]

# %% [markdown]
# Clusters are numbered, not named. To count correct predictions, each cluster gets the class that it matches best among
# the samples of the fit.

# %%


def classes_of_clusters(model):
    """Return the class of each cluster."""
    table = np.zeros((10, 10), dtype=int)
    np.add.at(table, (model.labels_, digits.labels[now]), 1)
    return linear_sum_assignment(table, maximize=True)[1]


new = digits.views.take(later)
truth = digits.labels[later]

# %% [markdown]
# `predict` takes a dict of the views that are available; their names identify them. Means over the seeds.

# %%
rows = []
for count in (1, 2, 3, 4):
    for chosen in combinations(new.names, count):
        given = {name: new.arrays[new.names.index(name)] for name in chosen}
        for model in models:
            probabilities = model.predict_proba(given)
            correct = classes_of_clusters(model)[probabilities.argmax(axis=1)] == truth
            rows.append((" + ".join(chosen), count, correct.mean(), probabilities.max(axis=1).mean()))
scores = pd.DataFrame(rows, columns=["views", "count", "accuracy", "confidence"]).groupby("views", sort=False)
result = scores.mean().assign(std=scores["accuracy"].std())
result.round(3)

# %% [markdown]
# The mean accuracy of every combination of views.

# %%
figure, axis = plt.subplots(figsize=(7, 4.2))
ranked = result.sort_values("accuracy")
axis.barh(ranked.index, ranked["accuracy"], color=plt.get_cmap("viridis")(ranked["count"] / 4.5))
axis.set(xlabel="accuracy on new samples (colour: number of views)", xlim=(0, 1))
figure.tight_layout()
