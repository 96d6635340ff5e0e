"""How many clusters.

`select_n_clusters` compares numbers of clusters with data that have no clusters but are otherwise alike. Here the truth
is known: five groups in one table, none in the other.
"""

# %%
# Five groups, three views, half of the samples incomplete; and as many samples of one Gaussian, seen through the same
# maps.

import os

import matplotlib.pyplot as plt
import numpy as np

from acova import ACOVA, Training, Views, select_n_clusters
from acova.data import make_observed
from acova.metrics import clustering_accuracy
from acova.plots import ClusterNumberDisplay

QUICK = "ACOVA_QUICK" in os.environ
rng = np.random.default_rng(0)
group = np.repeat(np.arange(5), 15 if QUICK else 80)
noise = rng.normal(size=(len(group), 6))
maps = [rng.normal(size=(6, width)) for width in (20, 12, 8)]
observed = make_observed(len(group), 3, 0.5, random_state=0)


def seen(latent):
    """Return three noisy, incomplete views of latent positions."""
    return Views.of([latent @ each + rng.normal(size=(len(latent), each.shape[1])) for each in maps], observed)


views = seen(2.2 * rng.normal(size=(5, 6))[group] + noise)
shapeless = seen(2.4 * noise)

# %%
# The silhouette alone prefers few clusters. What counts is how much of it data without clusters do not have: the gain.

numbers = select_n_clusters(views, range(2, 6 if QUICK else 11), random_state=0)
print(numbers.table.round(2))
print(numbers.reason)

# %%
# One cluster is a possible answer: in the other table nothing is found.

none = select_n_clusters(shapeless, range(2, 6 if QUICK else 11), random_state=0)
print(none.reason)

# %%
# Both as figures. The band is what data without clusters have, two standard deviations wide.

figure, axes = plt.subplots(1, 2, figsize=(9, 3.2), layout="constrained")
for axis, found in zip(axes, (numbers, none), strict=True):
    ClusterNumberDisplay(found).plot(axis)

# %%
# ``n_clusters="auto"`` asks first and then fits. The number is a proposal: the second best may be the scale that you
# need, so look at both.

SMALL = {"hidden": (64,), "epochs": 40, "training": Training(pretrain_epochs=40, warmup_epochs=40)}
if QUICK:
    SMALL = {"hidden": (16,), "epochs": 1, "training": Training(pretrain_epochs=1, warmup_epochs=1)}
model = ACOVA("auto", random_state=0, **SMALL).fit(views)
print(f"{model.n_clusters_} clusters, accuracy {clustering_accuracy(group, model.labels_):.3f}")
