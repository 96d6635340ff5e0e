"""Breast cancer with a missing assay.

These 220 breast tumours of The Cancer Genome Atlas come with the R package [mixOmics](http://mixomics.org) (GPL). All
have the expression of 200 genes and of 184 microRNAs; 70 lack the third assay, 142 proteins. The tumours are of three
subtypes (basal, HER2 and luminal A), which serve only to check the clusters. The authors of mixOmics chose the
features, which makes this data set easier than raw measurements.
"""

# %% [markdown]
# The file is downloaded once, at a fixed version, into the cache of `acova` (0.7 MB). It is a file of R, which the
# package `rdata` reads (`pip install rdata`).

# %%
import os

import numpy as np
import pandas as pd
import pooch
import rdata
from matplotlib import pyplot as plt

from acova import ACOVA, KNNImpute, Training
from acova.data import inspect_data
from acova.metrics import clustering_accuracy
from acova.plots import LatentDisplay

QUICK = "ACOVA_QUICK" in os.environ
SMALL = {"hidden": (32,), "epochs": 2, "training": Training(pretrain_epochs=2, warmup_epochs=2)} if QUICK else {}
SEEDS = range(2 if QUICK else 3)
VERSION = "6e148b5912fe8f4da73e8cc0413c0c3e9638589f"
URL = f"https://github.com/mixOmicsTeam/mixOmics/raw/{VERSION}/data/breast.TCGA.rda"
SHA256 = "0812db063ceee018470b59249a27289e8231909b9ec858c9b3e8fc9ead67af48"
try:
    file = pooch.retrieve(URL, known_hash=SHA256, fname="breast.TCGA.rda", path=pooch.os_cache("acova"))
except OSError as error:
    msg = f"This example needs {URL}, which could not be downloaded: {error}"
    raise SystemExit(msg) from error
study = rdata.read_rda(file)["breast.TCGA"]
for part, contents in study.items():
    print(part, {str(name): values.shape for name, values in contents.items()})

# %% [markdown]
# One DataFrame per assay, indexed by the tumours. The two parts are stacked; tumours of the second part are simply
# absent from the table of proteins.

# %%
parts = [study["data.train"], study["data.test"]]
tables = {
    name: pd.concat([part[name].to_pandas() for part in parts if name in part]) for name in ("mrna", "mirna", "protein")
}
subtype = pd.concat([pd.Series(np.asarray(part["subtype"]), part["mrna"].to_pandas().index) for part in parts])
inspect_data(tables)

# %% [markdown]
# Fit with the default settings and three seeds. k-means with the missing proteins imputed from the nearest
# neighbours is the usual alternative. On these preselected features, the two are equally accurate.

# %%
models = [ACOVA(3, random_state=seed, **SMALL).fit(tables) for seed in SEEDS]
others = [KNNImpute(3, random_state=seed).fit(tables) for seed in SEEDS]
for name, fitted in {"ACOVA": models, "k-means after KNN imputation": others}.items():
    scores = [clustering_accuracy(subtype[model.index_], model.labels_) for model in fitted]
    print(f"{name}: accuracy {np.mean(scores):.3f} ± {np.std(scores, ddof=1):.3f} over {len(scores)} seeds")

# %% [markdown]
# Does the missing assay cost accuracy? The mean over the seeds, separately for tumours with and without proteins.

# %%
complete = subtype.index.isin(tables["protein"].index)
rows = []
for model in models:
    table = model.assignments().loc[subtype.index]
    for name, chosen in {"all three assays": complete, "no proteins": ~complete}.items():
        score = clustering_accuracy(subtype[chosen], table["label"][chosen])
        rows.append({"tumours": name, "accuracy": score, "confidence": table["confidence"][chosen].mean()})
pd.DataFrame(rows).groupby("tumours").agg(["mean", "std"]).round(3)

# %% [markdown]
# The clusters of the first seed beside the subtypes, and its map.

# %%
model = models[0]
print(pd.crosstab(subtype[model.index_].rename("subtype"), pd.Series(model.labels_, model.index_, name="cluster")))
figure, axis = plt.subplots(figsize=(6, 5))
LatentDisplay.from_estimator(model, tables, ax=axis)
figure.tight_layout()
