"""An assay added later, and what it would have been.

A study is clustered on two assays. A year later a third one exists for a part of the samples. The model learns it
without being fitted again, nobody without the new assay moves, and where it is still missing the model says what it
would probably be, with error bars that were checked.
"""

# %%
# Made data with three assays. The third is not there yet, but planned: it is announced with its number of columns, so
# that tables with an empty third assay are no error.

import os

import matplotlib.pyplot as plt
import numpy as np

from acova import ACOVA, Training, Views
from acova.data import make_observed, make_views
from acova.metrics import clustering_accuracy

QUICK = "ACOVA_QUICK" in os.environ
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
model = ACOVA(3, random_state=0, **SMALL).fit(now.announce("metabolites", 12))
before, classes = model.labels_, made.labels[placed]
print(f"accuracy: {clustering_accuracy(classes, before):.3f}")

# %%
# The new assay arrives. `update` learns an announced view before it trains all parts on; `add_view` learns it alone,
# and takes views that nobody announced, too.

new = tables["metabolites"][placed]
has = observed[placed, 2]
model.add_view(new, now, name="metabolites")
print(f"{has.sum()} of {len(has)} samples have the new assay.")
print(f"Samples without it that moved: {(model.labels_ != before)[~has].sum()}")
print(f"Samples with it that moved: {(model.labels_ != before)[has].sum()}")
scores = {
    when: clustering_accuracy(classes[has], labels[has])
    for when, labels in (("before", before), ("after", model.labels_))
}
print(f"accuracy of those with it: {scores['before']:.3f} before, {scores['after']:.3f} after")

# %%
# What would the assay show where it was never run? `calibrate_imputation` hides entries from trainings of its own and
# measures how far off they are predicted; 90 % of new values should lie in the stated intervals.

everything = {name: tables[name][placed] for name in names}
model.calibrate_imputation(everything)
filled, (low, high) = model.impute(everything, quantiles=[0.05, 0.95])
report = model.imputation_report()
print(report[["entries", "explained", "coverage_90"]].round(3).to_string())

# %%
# Here the true values are known, so that the promise can be looked at: one feature of all samples that lack the assay,
# sorted by what is imputed.

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

# %%
# A view can go as well. Samples that lacked it are placed as before.

some = Views.of(everything).without(["rna"])
same = model.predict(some)
model.remove_view("rna")
print(f"Samples that moved when rna was removed, seen without rna: {(model.predict(some) != same).sum()}")
