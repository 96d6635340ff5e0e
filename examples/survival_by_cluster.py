"""Survival by cluster.

Tumours in several assays, of which each patient may lack some, and how long the patients lived: clusters, the columns
they go with, survival, and what such a test is worth.
"""

# %% [markdown]
# These are 92 adrenocortical tumours of TCGA in five assays. They come with Bioconductor, as ``miniACC`` of the package
# MultiAssayExperiment, and we do not pass them on. Save the assays, patients in rows, as ``view_0`` … of an ``.npz``
# file, with ``observed`` (patients × assays), ``time``, ``event`` and ``labels`` (-1: no subtype), and name the file in
# ``ACOVA_ACC``. With ``ACOVA_QUICK=1`` the script makes patients instead, of three groups, one of which does worse.

# %%
import os
from importlib.util import find_spec

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from acova import AgreementGraph, Views
from acova.data import make_observed, make_views
from acova.metrics import clustering_accuracy
from acova.plots import ClusterTreeDisplay, SurvivalDisplay

QUICK, FILE = "ACOVA_QUICK" in os.environ, os.environ.get("ACOVA_ACC", "")
if not (QUICK or FILE) or find_spec("lifelines") is None:
    msg = "This example needs lifelines (pip install 'acova[survival]'), and ACOVA_ACC=FILE.npz or ACOVA_QUICK=1."
    raise SystemExit(msg)


def tumours(path):
    """Return views, subtypes, and what is known of the patients."""
    with np.load(path) as file:
        arrays, observed = [file[f"view_{v}"] for v in range(file["observed"].shape[1])], file["observed"].astype(bool)
        known = pd.DataFrame({"days": file["time"], "died": file["event"].astype(bool)})
        return Views.of(dict(zip(NAMES, arrays, strict=True)), observed), file["labels"], known


def made(count):
    """Return the same of patients that do not exist; the chance to die is three times as large in the last group."""
    drawn = make_views(count, 3, {name: {"n_features": 40} for name in NAMES[:3]}, random_state=0)
    rng = np.random.default_rng(0)
    end, death = rng.exponential(2000, count), rng.exponential(np.where(drawn.labels == 2, 800, 2400))
    known = pd.DataFrame({"days": np.minimum(end, death).round(), "died": death < end})
    return drawn.views.hide(make_observed(count, 3, 0.5, random_state=0)), drawn.labels, known


NAMES = ("expression", "copy number", "protein", "mutation", "miRNA")
views, subtypes, known = made(60) if QUICK else tumours(FILE)
known["site"] = np.where(np.random.default_rng(1).random(len(known)) < 0.5, "north", "south")  # means nothing
print(f"{len(known)} patients, {known['died'].sum()} died; {(~views.observed.all(axis=1)).sum()} lack an assay")

# %% [markdown]
# Three clusters, because three subtypes are published. If survival had chosen the number, the settings or the features,
# its p-value would mean nothing. `missingness_check` first asks for a fault that is common in such data: do the
# clusters go with who lacks which assay?

# %%
model = AgreementGraph(3, random_state=0).fit(views)
has = subtypes >= 0
scores = [clustering_accuracy(subtypes[has], model.labels_[has])]
print(f"accuracy on the published subtypes: {scores[0]:.2f}")
model.missingness_check().round(2)

# %% [markdown]
# `compare` tests the columns that were not clustered (exactly, where counts are small; false discoveries are
# controlled) and, with time and event, survival. It needs ``pip install 'acova[survival]'``.

# %%
found = model.compare(known, time="days", event="died")
print(found.table.round(2))
print(found.survival)

# %% [markdown]
# Curves that part are no proof that the clusters cause anything: nothing adjusts for age or stage. And features that a
# study selects by survival carry it into the clusters. The features of these files are a published selection; we do not
# know whether survival had a part in it. So take the p-value as an illustration, and test clusters on patients that
# were not clustered: `predict` places them.

# %%
figure, axes = plt.subplots(1, 2, figsize=(10, 3.8), layout="constrained")
SurvivalDisplay(found.survival).plot(axes[0])
ClusterTreeDisplay.from_estimator(model, ax=axes[1])
