"""Patients with missing assays.

Four assays were planned for 320 patients; budgets, failed samples and late arrivals left most patients without some of
them. The tables come as they would from a hospital: one per assay, each with the patients it has, in its own order,
the clinical one with a string column. Nothing is imputed. The data are simulated, so the subtypes are known.
"""

# %% [markdown]
# Four subtypes. Every assay sees them, none of them well: most features are noise.

# %%
import os

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from acova import ACOVA, KNNImpute, Training
from acova.data import inspect_data
from acova.metrics import clustering_accuracy
from acova.plots import CorrelationDisplay

QUICK = "ACOVA_QUICK" in os.environ
SEEDS = range(2 if QUICK else 5)
SMALL = {"hidden": (32,), "epochs": 2, "training": Training(pretrain_epochs=2, warmup_epochs=2)} if QUICK else {}
rng = np.random.default_rng(0)
patients = pd.Index([f"patient{i:03d}" for i in range(320)])
subtype = pd.Series(rng.integers(4, size=320), patients)
kind = subtype.to_numpy()


def assay(n_features, n_active, strength):
    """Return a table in which some features follow the subtype."""
    effect = strength * rng.normal(size=(4, n_features)) * (np.arange(n_features) < n_active)
    return pd.DataFrame(effect[kind] + rng.normal(size=(320, n_features)), patients).add_prefix("f")


stage = np.array(["I", "II", "III", "III"])[kind]
tables = {
    "expression": assay(200, 40, 0.8),
    "methylation": assay(120, 30, 0.8),
    "protein": assay(40, 12, 0.8),
    "clinical": pd.DataFrame(
        {
            "age": rng.normal(50 + 5 * kind, 9),
            "bmi": rng.normal(26, 4, size=320),
            "stage": np.where(rng.random(320) < 0.8, stage, rng.permutation(stage)),
        },
        patients,
    ),
}
kept = {"expression": 0.75, "methylation": 0.6, "protein": 0.5, "clinical": 1.0}
tables = {name: table[rng.random(320) < kept[name]].sample(frac=1, random_state=0) for name, table in tables.items()}

# %% [markdown]
# How does the library read these tables? String columns are one-hot encoded. Columns that must not define the groups,
# such as sex or site, were left out: two categories make the clearest pair of clusters there is.

# %%
inspect_data(tables)

# %% [markdown]
# Fit with five seeds. Patients are joined by their names; a patient absent from a table lacks that assay.

# %%
models = [ACOVA(4, random_state=seed, **SMALL).fit(tables) for seed in SEEDS]
others = [KNNImpute(4, random_state=seed).fit(tables) for seed in SEEDS]
for name, fitted in {"ACOVA": models, "k-means after KNN imputation": others}.items():
    scores = [clustering_accuracy(subtype[model.index_], model.labels_) for model in fitted]
    print(f"{name}: accuracy {np.mean(scores):.3f} ± {np.std(scores, ddof=1):.3f} over {len(scores)} seeds")

# %% [markdown]
# Which patients should a clinician look at? Those with a low confidence, or on whom the runs of a fit disagree. Both
# depend on the number of assays a patient has. The numbers are means over the seeds.

# %%
rows = []
for model in models:
    table = model.assignments()[["confidence", "agreement"]].copy()
    table["assays"] = sum(table.index.isin(frame.index).astype(int) for frame in tables.values())
    rows.append(table)
by_assays = pd.concat(rows).groupby("assays")
by_assays.mean().assign(patients=by_assays.size() // len(models)).round(3)

# %% [markdown]
# The correlation of the errors of the assays, as the first of these models learned it.

# %%
figure, axis = plt.subplots(figsize=(5.5, 4.8))
CorrelationDisplay.from_estimator(models[0], ax=axis)
figure.tight_layout()
