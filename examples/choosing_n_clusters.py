"""Choosing the number of clusters.

No number answers this for every purpose. Three views of the question that need no labels: do independent runs agree,
does the model explain samples it has not seen, and how clearly are the clusters apart. Here the truth is known (five
groups), so you can see how far to trust each.
"""

# %%
# Five groups, three views, half of the samples incomplete.

import os

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.metrics import silhouette_score

from acova import ACOVA, Training
from acova.data import Views, make_observed
from acova.metrics import clustering_accuracy

QUICK = "ACOVA_QUICK" in os.environ
SMALL = {"hidden": (64,), "epochs": 40, "training": Training(pretrain_epochs=40, warmup_epochs=40)}
if QUICK:
    SMALL = {"hidden": (16,), "epochs": 1, "training": Training(pretrain_epochs=1, warmup_epochs=1)}
rng = np.random.default_rng(0)
group = np.repeat(np.arange(5), 20 if QUICK else 80)
latent = 2.2 * rng.normal(size=(5, 6))[group] + rng.normal(size=(len(group), 6))
arrays = [latent @ rng.normal(size=(6, width)) + rng.normal(size=(len(group), width)) for width in (20, 12, 8)]
views = Views.of(arrays, make_observed(len(group), 3, 0.5, random_state=0))
order = rng.permutation(len(group))
train, held_out = order[: len(order) * 3 // 4], order[len(order) * 3 // 4 :]

# %%
# For each number of clusters: four runs. `agreement_` is the share of runs that give a sample its label, `score` the
# evidence lower bound of new samples, the silhouette compares distances in the latent space.

rows = []
for k in (3, 5, 7) if QUICK else range(2, 10):
    model = ACOVA(k, n_init=4, consensus=True, random_state=0, **SMALL).fit(views.take(train))
    space = model.transform(views.take(train))
    silhouette = silhouette_score(space, model.labels_) if len(set(model.labels_)) > 1 else np.nan
    used = len(set(model.labels_))
    rows.append((k, used, model.agreement_.mean(), model.score(views.take(held_out)), silhouette))
    if k == 5:
        print(f"accuracy with five clusters: {clustering_accuracy(group[train], model.labels_):.3f}")
table = pd.DataFrame(rows, columns=["k", "used", "agreement", "score", "silhouette"]).set_index("k")
print(table.round(3))

# %%
# Agreement is high from three to five, the truth, and falls after it. Silhouette prefers three, since some of the
# five groups lie close together. The held-out score moves more with the training than with the number of clusters, and
# tells nothing here. The largest number on which runs agree is a good candidate; then look at the clusters themselves,
# since what they are for decides.

figure, axes = plt.subplots(1, 3, figsize=(9, 2.8))
for axis, column in zip(axes, ["agreement", "score", "silhouette"], strict=True):
    axis.plot(table.index, table[column], marker="o")
    axis.axvline(5, color="0.8", zorder=0)
    axis.set(xlabel="number of clusters", title=column)
figure.tight_layout()
