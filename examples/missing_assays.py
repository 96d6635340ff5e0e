"""Patients with missing assays.

Four assays were planned for 320 patients; budgets, failed samples and late arrivals left most patients without some of
them. The tables come as they would from a hospital: one per assay, each with the patients it has, in its own order,
the clinical one with words in it. Nothing is imputed.
"""

# %%
# Four subtypes. Every assay sees them, none of them well: most features are noise.

import os

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from acova import ACOVA, Training
from acova.data import inspect_data
from acova.estimators import make_method
from acova.metrics import clustering_accuracy
from acova.plots import CorrelationDisplay

QUICK = "ACOVA_QUICK" in os.environ
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

# %%
# What does the library understand? The words of the clinical table become columns of zeros and ones. Columns that must
# not define the groups, such as sex or site, were left out: two words are the clearest pair of clusters there is.

found = inspect_data(tables)
print(found.views)
print([f"{one.view}: {one.column} {one.text}" for one in found.findings])

# %%
# Fit. Patients are joined by their names; a patient absent from a table lacks that assay. Three runs are averaged, so
# that no single start decides.

model = ACOVA(4, n_init=3, consensus=True, random_state=0, **SMALL).fit(tables)
truth = subtype[model.index_]
print(f"accuracy of ACOVA: {clustering_accuracy(truth, model.labels_):.3f}")
filled = make_method("KNNImpute", n_clusters=4, random_state=0).fit(tables)
print(f"accuracy of k-means after KNN imputation: {clustering_accuracy(subtype[filled.index_], filled.labels_):.3f}")

# %%
# Which patients should a clinician look at? Those of whom the model is unsure, or on whom the runs disagree. How
# does that depend on the number of assays a patient has?

table = model.assignments()
assays = pd.DataFrame({name: table.index.isin(frame.index) for name, frame in tables.items()}).sum(axis=1)
by_assays = table.groupby(assays.to_numpy())
print(by_assays[["confidence", "agreement"]].mean().assign(patients=by_assays.size()).round(3))

# %%
# How the errors of the assays go together, as learned.

figure, axis = plt.subplots(figsize=(5.5, 4.8))
CorrelationDisplay.from_estimator(model, ax=axis)
figure.tight_layout()
