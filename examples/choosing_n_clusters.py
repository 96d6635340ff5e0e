"""How many clusters.

`select_n_clusters` compares each number of clusters with reference data that have no clusters but are otherwise alike.
Here the data are simulated: the first set has five groups, the second has none.
"""

# %% [markdown]
# Five groups, three views, half of the samples incomplete. The second set has as many samples of one Gaussian, with the
# same views.

# %%
import os

import matplotlib.pyplot as plt
import numpy as np

from acova import ACOVA, Training, Views, select_n_clusters
from acova.data import make_observed
from acova.metrics import clustering_accuracy
from acova.plots import ClusterNumberDisplay

QUICK = "ACOVA_QUICK" in os.environ
SEEDS = range(2 if QUICK else 3)
rng = np.random.default_rng(0)
group = np.repeat(np.arange(5), 15 if QUICK else 50)
noise = rng.normal(size=(len(group), 6))
maps = [rng.normal(size=(6, width)) for width in (20, 12, 8)]
observed = make_observed(len(group), 3, 0.5, random_state=0)


def seen(latent):
    """Return three noisy, incomplete views of latent positions."""
    return Views.of([latent @ each + rng.normal(size=(len(latent), each.shape[1])) for each in maps], observed)


views = seen(2.2 * rng.normal(size=(5, 6))[group] + noise)
shapeless = seen(2.4 * noise)

# %% [markdown]
# The silhouette alone prefers few clusters. The gain is the silhouette in excess of that of the reference data.

# %%
candidates = range(2, 6 if QUICK else 9)
numbers = [select_n_clusters(views, candidates, random_state=seed) for seed in SEEDS]
print("chosen with each seed:", [found.n_clusters for found in numbers])
print(numbers[0].reason)
numbers[0].table.round(2)

# %% [markdown]
# One cluster is a possible answer. In the second set no clusters are found, with any seed.

# %%
none = [select_n_clusters(shapeless, candidates, random_state=seed) for seed in SEEDS]
print("chosen with each seed:", [found.n_clusters for found in none])
print(none[0].reason)

# %% [markdown]
# Both as figures, for the first seed. The band is the silhouette of the reference data, two standard deviations wide.

# %%
figure, axes = plt.subplots(1, 2, figsize=(9, 3.2), layout="constrained")
for axis, found in zip(axes, (numbers[0], none[0]), strict=True):
    ClusterNumberDisplay(found).plot(axis)

# %% [markdown]
# `n_clusters="auto"` chooses the number in this way and then fits. The number is a proposal: the second best may be the
# scale that you need, so look at both.

# %%
SMALL = {"hidden": (64,), "epochs": 40, "training": Training(pretrain_epochs=40, warmup_epochs=40)}
if QUICK:
    SMALL = {"hidden": (16,), "epochs": 1, "training": Training(pretrain_epochs=1, warmup_epochs=1)}
models = [ACOVA("auto", random_state=seed, **SMALL).fit(views) for seed in SEEDS]
scores = [clustering_accuracy(group, model.labels_) for model in models]
print(f"accuracy {np.mean(scores):.3f} ± {np.std(scores, ddof=1):.3f} over {len(scores)} seeds")
