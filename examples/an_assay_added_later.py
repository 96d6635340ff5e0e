"""An assay added later, and what it would have been.

A study is clustered on two assays. A year later a third one exists for a part of the samples. The model learns it
without being fitted again, samples without the new assay keep their clusters, and where the assay is still missing the
model predicts its values, with error bars that were checked.
"""

# %% [markdown]
# Simulated data with three assays. The third is planned, so it is announced with its number of columns: tables with an
# empty third assay are then no error.

# %%
import os

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from acova import ACOVA, Training, Views
from acova.data import make_observed, make_views
from acova.metrics import clustering_accuracy

QUICK = "ACOVA_QUICK" in os.environ
SEEDS = range(2 if QUICK else 3)
SMALL = {"n_init": 1, "hidden": (64, 64), "epochs": 80, "training": Training(pretrain_epochs=40, warmup_epochs=40)}
if QUICK:
    SMALL = {"n_init": 1, "hidden": (16,), "epochs": 4, "training": Training(pretrain_epochs=2, warmup_epochs=2)}
names = ("rna", "protein", "metabolites")
kinds = {
    "rna": {"n_features": 30, "separation": 0.5},
    "protein": {"n_features": 20, "separation": 0.5},
    "metabolites": {"n_features": 12, "separation": 1.0},
}
made = make_views(150 if QUICK else 400, 3, kinds, error_correlation=0.3, random_state=0)
truth = dict(zip(names, made.views.arrays, strict=True))
observed = make_observed(len(made.labels), 3, 0.5, random_state=0)
tables = {name: np.where(observed[:, [v]], truth[name], np.nan) for v, name in enumerate(names)}
placed = observed[:, :2].any(axis=1)
now = Views.of({name: tables[name][placed] for name in names[:2]})
models = [ACOVA(3, random_state=seed, **SMALL).fit(now.announce("metabolites", 12)) for seed in SEEDS]
before, classes = [model.labels_ for model in models], made.labels[placed]
scores = [clustering_accuracy(classes, labels) for labels in before]
print(f"accuracy {np.mean(scores):.3f} ± {np.std(scores, ddof=1):.3f} over {len(scores)} seeds")

# %% [markdown]
# The new assay arrives. `add_view` learns it alone; it also accepts views that were not announced. (`update` learns an
# announced view and then continues to train all parts.) The table has the number of samples whose cluster changed, and
# the accuracy among samples with the new assay: the mean and the standard deviation over the seeds.

# %%
new = tables["metabolites"][placed]
has = observed[placed, 2]
rows = []
for model, labels in zip(models, before, strict=True):
    model.add_view(new, now, name="metabolites")
    moved = model.labels_ != labels
    rows.append(
        {
            "changed without it": moved[~has].sum(),
            "changed with it": moved[has].sum(),
            "accuracy before": clustering_accuracy(classes[has], labels[has]),
            "accuracy after": clustering_accuracy(classes[has], model.labels_[has]),
        }
    )
print(f"{has.sum()} of {len(has)} samples have the new assay.")
pd.DataFrame(rows).agg(["mean", "std"]).round(3)

# %% [markdown]
# What would the assay show where it was not measured? `calibrate_imputation` hides entries from further trainings and
# measures the errors of their predictions; 90 % of new values should lie in the stated intervals. Means over the seeds.

# %%
everything = {name: tables[name][placed] for name in names}
for model in models:
    model.calibrate_imputation(everything)
reports = pd.concat([model.imputation_report() for model in models])
reports.groupby(level=0, sort=False)[["entries", "explained", "coverage_90"]].mean().round(3)

# %% [markdown]
# The data are simulated, so the true values are known. The figure shows one feature of all samples that lack the assay,
# sorted by the imputed value, for the first seed.

# %%
filled, (low, high) = models[0].impute(everything, quantiles=[0.05, 0.95])
v, feature = names.index("metabolites"), 0
rows = np.flatnonzero(~has)
rows = rows[np.argsort(filled["metabolites"][rows, feature])]
value, bottom, top = (table["metabolites"][rows, feature] for table in (filled, low, high))
actual = truth["metabolites"][placed][rows, feature]
inside = (bottom <= actual) & (actual <= top)
figure, axis = plt.subplots(figsize=(7, 4))
place = np.arange(len(rows))
axis.fill_between(place, bottom, top, alpha=0.25, linewidth=0, label="90 % interval")
axis.plot(place, value, label="imputed")
axis.plot(place[inside], actual[inside], ".", color="0.3", label="true, inside")
axis.plot(place[~inside], actual[~inside], "x", color="tab:red", label=f"true, outside ({(~inside).mean():.0%})")
axis.set(xlabel="samples without the assay, sorted", ylabel="metabolite 0")
axis.legend(frameon=False, ncols=2)
figure.tight_layout()

# %% [markdown]
# A view can be removed as well. Samples that lacked it keep their clusters.

# %%
some = Views.of(everything).without(["rna"])
changed = []
for model in models:
    same = model.predict(some)
    model.remove_view("rna")
    changed.append(int((model.predict(some) != same).sum()))
print(f"Changed clusters of samples seen without rna, when rna was removed, by seed: {changed}")
