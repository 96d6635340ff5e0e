"""Pictures and captions.

Handwritten digits as pictures, and a caption for some of them: people wrote what they saw, with slips. A third of the
items lost the picture, a third never got a caption.
"""

# %%
# The pictures come with scikit-learn. Captions are made of words that fit a digit's shape, and of noise.

import os

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.feature_extraction.text import TfidfVectorizer

from acova import ACOVA, Training
from acova.metrics import clustering_accuracy
from acova.plots import LatentDisplay

QUICK = "ACOVA_QUICK" in os.environ
SMALL = {"hidden": (32,), "epochs": 2, "training": Training(pretrain_epochs=2, warmup_epochs=2)} if QUICK else {}
rng = np.random.default_rng(0)
pictures, digit = load_digits(return_X_y=True)
pictures, digit = (pictures[:200], digit[:200]) if QUICK else (pictures[:1000], digit[:1000])
shapes = [
    ["round", "hole", "circle"], ["straight", "thin", "stroke"], ["curve", "base", "swan"], ["curves", "bumps", "open"],
    ["corner", "cross", "stroke"], ["hat", "curve", "belly"], ["hole", "tail", "round"], ["corner", "straight", "roof"],
    ["hole", "two", "snowman"], ["hole", "tail", "head"],
]  # fmt: skip
noise = ["ink", "paper", "scan", "grey", "small", "large", "blurred", "fine"]
captions = [" ".join([*rng.choice(shapes[d], 2), *rng.choice(noise, 2)]) for d in digit]
print(captions[:3])

# %%
# Words become numbers before they reach the model, with any vectoriser you like. Each third of the items lacks a view:
# a row of NaN says so.

text = TfidfVectorizer().fit_transform(captions).toarray()
image = pictures / 16.0
third = rng.integers(3, size=len(digit))
image[third == 0] = np.nan
text[third == 1] = np.nan
views = {"image": image, "text": text}

# %%
# One model for all: items with both views tie the two together, the others are placed by the view they have.

model = ACOVA(10, random_state=0, **SMALL).fit(views)
print(f"accuracy, all items: {clustering_accuracy(digit, model.labels_):.3f}")
for name, rows in {"caption only": third == 0, "picture only": third == 1, "both": third == 2}.items():
    agree = clustering_accuracy(digit[rows], model.labels_[rows])
    print(f"{name}: accuracy {agree:.3f}, mean confidence {model.probabilities_[rows].max(axis=1).mean():.2f}")

# %%
# What drove each item? View weights sum to one over the views an item has.

both = third == 2
for name, weight in zip(model.view_names_, model.view_weights_[both].mean(axis=0), strict=True):
    print(f"{name}: mean weight {weight:.2f} where both are there")
figure, axis = plt.subplots(figsize=(6, 5))
LatentDisplay.from_estimator(model, views, ax=axis)
figure.tight_layout()
