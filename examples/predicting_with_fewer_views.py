"""Predicting with fewer views.

A model fitted on four views is asked about new samples that have one, two or three of them. Nothing is retrained and
nothing is imputed: the posterior of a sample is that of the views it has.
"""

# %%
# The embedded digits, seen through four views; a fifth of them is kept for later.

import os
from itertools import combinations

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from scipy.optimize import linear_sum_assignment

from acova import ACOVA, Training
from acova.data import load_dataset

QUICK = "ACOVA_QUICK" in os.environ
SMALL = {"hidden": (256, 256), "epochs": 80, "training": Training(pretrain_epochs=20, warmup_epochs=80)}
if QUICK:
    SMALL = {"hidden": (32,), "epochs": 2, "training": Training(pretrain_epochs=2, warmup_epochs=2)}
digits = load_dataset("digits")
order = np.random.default_rng(0).permutation(len(digits.labels))[: 300 if QUICK else None]
later, now = np.split(order, [len(order) // 5])
model = ACOVA(10, random_state=0, **SMALL).fit(digits.views.take(now))

# %%
# Clusters carry no names. To count hits on new samples, name each cluster by the old ones, once.

table = np.zeros((10, 10), dtype=int)
np.add.at(table, (model.labels_, digits.labels[now]), 1)
name_of = linear_sum_assignment(table, maximize=True)[1]
new = digits.views.take(later)
truth = digits.labels[later]

# %%
# `predict` takes a dict with the views there are. Names, not positions, say which ones.

rows = []
for count in (1, 2, 3, 4):
    for chosen in combinations(new.names, count):
        given = {name: new.arrays[new.names.index(name)] for name in chosen}
        probabilities = model.predict_proba(given)
        hits = (name_of[probabilities.argmax(axis=1)] == truth).mean()
        rows.append((" + ".join(chosen), count, hits, probabilities.max(axis=1).mean()))
result = pd.DataFrame(rows, columns=["views", "count", "accuracy", "confidence"]).set_index("views")
print(result.round(3).to_string())

# %%
# One view may do nearly as well as all, or not: here is how much each adds.

figure, axis = plt.subplots(figsize=(7, 4.2))
ranked = result.sort_values("accuracy")
axis.barh(ranked.index, ranked["accuracy"], color=plt.get_cmap("viridis")(ranked["count"] / 4.5))
axis.set(xlabel="accuracy on new samples (colour: number of views)", xlim=(0, 1))
figure.tight_layout()
