"""A folder of messy tables.

Tables rarely come as a program wants them. In this folder the expression matrix has its samples in columns, as most
repositories store it; the protein lab spelled the names of the samples in its own way and put them into the third
column; the clinic sent a workbook with several sheets. No file has to be edited: a few options state how to read them.
What they hold is messy, too: expression comes as raw counts, cells of the laboratory are empty, and the patients come
from two hospitals whose devices differ.
"""

# %% [markdown]
# Three groups of patients, four tables, and a list of the patients beside them. Everything is written to a folder the
# way it might arrive.

# %%
import os
from pathlib import Path
from tempfile import TemporaryDirectory

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from acova import ACOVA, Training
from acova.data import inspect_data, read_views
from acova.metrics import clustering_accuracy
from acova.plots import MissingDisplay

QUICK = "ACOVA_QUICK" in os.environ
SEEDS = range(2 if QUICK else 5)
SMALL = {"hidden": (32,), "epochs": 2, "training": Training(pretrain_epochs=2, warmup_epochs=2)} if QUICK else {}
rng = np.random.default_rng(0)
patients = pd.Index([f"PAT-{i:03d}" for i in range(240)], name="patient")
group = rng.integers(3, size=240)
people = pd.DataFrame({"hospital": np.random.default_rng(1).choice(["north", "south"], 240)}, patients)


def assay(n_features, n_active, prefix):
    """Return a table in which some features follow the group of the patient."""
    effect = rng.normal(size=(3, n_features)) * (np.arange(n_features) < n_active)
    device = np.outer(people["hospital"] == "south", np.random.default_rng(n_features).normal(size=n_features))
    table = pd.DataFrame(effect[group] + device + 1.5 * rng.normal(size=(240, n_features)), patients)
    return table.add_prefix(prefix).round(3)


def some(table, share):
    """Return part of the rows, in an order of their own."""
    return table[rng.random(240) < share].sample(frac=1, random_state=0)


folder = TemporaryDirectory()
study = Path(folder.name) / "study"
study.mkdir()

rates = np.exp(assay(120, 40, "gene")).mul(np.random.default_rng(2).uniform(2, 20, 240), axis=0)  # depths differ
expression = some(rates.apply(np.random.default_rng(3).poisson), 0.8)
expression.T.to_csv(study / "expression.csv.gz")  # features in rows, samples in columns

protein = some(assay(30, 12, "prot"), 0.6).reset_index()
protein["patient"] = protein["patient"].str.lower().str.replace("-", " - ")  # "pat - 017"
protein.insert(0, "plate", rng.integers(1, 5, size=len(protein)))
protein.insert(1, "well", [f"{'ABCD'[i % 4]}{i // 4}" for i in range(len(protein))])
protein.to_csv(study / "protein.csv", index=False)  # names in the third column

laboratory = assay(8, 6, "lab").mask(np.random.default_rng(4).random((240, 8)) < 0.1)  # one cell in ten is empty
with pd.ExcelWriter(study / "clinic.xlsx") as book:
    some(laboratory, 0.9).to_excel(book, sheet_name="laboratory")
    some(assay(6, 4, "scan"), 0.7).to_excel(book, sheet_name="imaging")
people.to_csv(Path(folder.name) / "people.csv")
print(sorted(file.name for file in study.iterdir()))

# %% [markdown]
# How are these files read without any options? Nothing fits together: no sample of one table is found in another. The
# messages say why, and which options help.

# %%
found = inspect_data(study)
print(found.views[["columns", "samples"]])
for one in found.findings:
    if one.stops or one.kind in ("disjoint", "kinds"):
        print(f"- {one.view} {one.column}: {one.text}")

# %% [markdown]
# So transpose the expression table, take the names from the column `patient`, leave out columns that are no
# measurements, and ignore capitals and blanks in names. The options have the same names on the command line: `acova fit
# study --transpose expression --id-column patient --drop protein:plate --drop protein:well --match-ids loosely
# --clusters 3 --out run`. The run remembers them, so that `acova predict run new_study` reads new data in the same way.

# %%
options = {
    "transpose": "expression",
    "id_column": "patient",
    "drop": ["protein:plate", "protein:well"],
    "match_ids": "loosely",
}
data = read_views(study, **options)
print(data.views)
for view, names in data.matches.items():
    label, new = next(iter(names.items()))
    print(f"{view}: {len(names)} names were matched loosely, such as {label!r} as {new!r}")

# %% [markdown]
# `inspect` also says that a view holds counts, and how many cells are empty. Empty cells are left out one by one;
# counts are brought to the same depth (`standardize="counts"`). The hospital is no view: it is given as a covariate, so
# that the clusters are not those of its devices. On the command line: `--covariates people.csv`.

# %%
after = inspect_data(study, **options, covariates=people)
print(after.views[["samples", "empty", "looks_like"]])
scaling = dict.fromkeys(data.views.names, "auto") | {"expression": "counts"}
truth, south = pd.Series(group, patients), (people["hospital"] == "south").astype(int)
models = {}
for name, covariates in (("without", None), ("with", people)):
    models[name] = [
        ACOVA(3, standardize=scaling, n_init=1, random_state=seed, **SMALL).fit(data.views, covariates=covariates)
        for seed in SEEDS
    ]
    scores = [
        [clustering_accuracy(labels[model.index_], model.labels_) for labels in (truth, south)]
        for model in models[name]
    ]
    means, spreads = np.mean(scores, axis=0), np.std(scores, axis=0, ddof=1)
    groups, hospitals = (f"{mean:.3f} ± {spread:.3f}" for mean, spread in zip(means, spreads, strict=True))
    print(f"{name} the hospital: groups {groups}, hospitals {hospitals}")

# %% [markdown]
# From here on everything is as for clean tables. The figure shows which samples have which views.

# %%
figure, axis = plt.subplots(figsize=(5.5, 4))
MissingDisplay.from_estimator(models["with"][0], ax=axis)
figure.tight_layout()
folder.cleanup()
