"""Pictures and captions.

Handwritten digits as pictures, and a caption for some of them: people wrote what they saw, with slips. A third of the
items lost the picture, a third never got a caption.
"""

# %% [markdown]
# The pictures come with scikit-learn. Captions are drawn from words that fit the shape of the digit and from words that
# mean nothing.

# %%
import os

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.datasets import load_digits
from sklearn.feature_extraction.text import TfidfVectorizer

from acova import ACOVA, Training
from acova.metrics import clustering_accuracy
from acova.plots import LatentDisplay

QUICK = "ACOVA_QUICK" in os.environ
SEEDS = range(2 if QUICK else 3)
SMALL = {"hidden": (32,), "epochs": 2, "training": Training(pretrain_epochs=2, warmup_epochs=2)} if QUICK else {}
rng = np.random.default_rng(0)
pictures, digit = load_digits(return_X_y=True)
pictures, digit = (pictures[:200], digit[:200]) if QUICK else (pictures[:600], digit[:600])
shapes = [
    ["round", "hole", "circle"], ["straight", "thin", "stroke"], ["curve", "base", "swan"], ["curves", "bumps", "open"],
    ["corner", "cross", "stroke"], ["hat", "curve", "belly"], ["hole", "tail", "round"], ["corner", "straight", "roof"],
    ["hole", "two", "snowman"], ["hole", "tail", "head"],
]  # fmt: skip
noise = ["ink", "paper", "scan", "grey", "small", "large", "blurred", "fine"]
captions = [" ".join([*rng.choice(shapes[d], 2), *rng.choice(noise, 2)]) for d in digit]
print(captions[:3])

# %% [markdown]
# Any vectoriser turns the captions into numbers. A third of the items lack the picture, a third lack the caption: a row
# of NaN is a missing view.

# %%
text = TfidfVectorizer().fit_transform(captions).toarray()
image = pictures / 16.0
third = rng.integers(3, size=len(digit))
image[third == 0] = np.nan
text[third == 1] = np.nan
views = {"image": image, "text": text}

# %% [markdown]
# One model clusters all items. Items with both views connect the two; the others are assigned by the view they have.
# Means over three seeds.

# %%
models = [ACOVA(10, random_state=seed, **SMALL).fit(views) for seed in SEEDS]
kinds = {"all items": third >= 0, "caption only": third == 0, "picture only": third == 1, "both": third == 2}
scores = [
    {
        "items": name,
        "accuracy": clustering_accuracy(digit[rows], model.labels_[rows]),
        "confidence": model.probabilities_[rows].max(axis=1).mean(),
    }
    for model in models
    for name, rows in kinds.items()
]
pd.DataFrame(scores).groupby("items", sort=False).agg(["mean", "std"]).round(3)

# %% [markdown]
# How much did each view count? View weights sum to one over the views an item has. Means over the items with both views
# and over the seeds, then the map of the first seed.

# %%
both = third == 2
weights = np.mean([model.view_weights_[both].mean(axis=0) for model in models], axis=0)
print(dict(zip(models[0].view_names_, weights.round(2).tolist(), strict=True)))
figure, axis = plt.subplots(figsize=(6, 5))
LatentDisplay.from_estimator(models[0], views, ax=axis)
figure.tight_layout()
