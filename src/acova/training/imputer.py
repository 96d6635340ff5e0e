"""What a trained ensemble imputes: the decoders' means alone, or weighed experts with error bars."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from acova.base import DataError, Streams
from acova.data import Scaling, Views
from acova.functional import Batch
from acova.training.consensus import Ensemble
from acova.training.experts import EXPERTS, MAX_DONORS, Decoded, Donors, decode
from acova.training.extremes import scaled
from acova.training.holdout import Array, HeldOut, Holdout
from acova.training.imputation import LEVELS, NOMINAL, Check, Errors
from acova.training.inference import CHUNK, device_of
from acova.training.reading import array_of

FEWEST_ENTRIES = 10
"""Samples that must have a view and another one before its error bars are learned."""
_MOST_CELLS = 2**25
"""Predictions of one view that are held at once."""


@dataclass(frozen=True)
class Reference:
    """Samples that lend values, scaled as `Imputer.scaled` does, and what was learned of every view's errors.

    Attributes
    ----------
    views : list of V arrays of shape (N, P_v)
    observed : array of bool, shape (N, V)
    errors : list of V Errors
    checks : list of V Check
    lowest : array of shape (V,)
        The least value that a view can have, in the units of the data: 0, or minus infinity.
    told : array of shape (N, C)
        What the network is told of the samples' covariates.
    """

    views: list[NDArray[np.float32]]
    observed: NDArray[np.bool_]
    errors: list[Errors]
    checks: list[Check]
    lowest: NDArray[np.float64]
    told: NDArray[np.float32]

    def packed(self) -> dict[str, NDArray[Any]]:
        """Return everything as arrays by name."""
        arrays: dict[str, NDArray[Any]] = {"observed": self.observed, "lowest": self.lowest, "told": self.told}
        for v, (view, errors, check) in enumerate(zip(self.views, self.errors, self.checks, strict=True)):
            parts = {**vars(errors), **vars(check), "view": view}
            arrays |= {f"{v}.{name}": np.asarray(part, getattr(part, "dtype", float)) for name, part in parts.items()}
        return arrays

    @classmethod
    def unpacked(cls, tensors: Mapping[str, torch.Tensor], sizes: Sequence[int]) -> "Reference":
        """Take back what `packed` gave, or raise `RunFolderError`."""
        observed = array_of(tensors, "observed", (-1, len(sizes)), "b")
        views, errors, checks = [], [], []
        for v, size in enumerate(sizes):
            views.append(array_of(tensors, f"{v}.view", (len(observed), size)))
            read = partial(_read, tensors, v)
            widest = read("quantiles", (len(LEVELS), -1))
            weights, spread = read("weights", (len(EXPERTS),)), float(read("spread", ()))
            errors.append(Errors(weights, read("residual", (size,)), widest, spread))
            squares, baseline = read("squared_error", (size,)), read("baseline", (size,))
            checks.append(Check(squares, baseline, read("inside", (len(NOMINAL), size)), int(read("n_entries", ()))))
        told = np.zeros((len(observed), 0), dtype=np.float32)
        if "told" in tensors:  # which earlier versions did not keep
            told = array_of(tensors, "told", (len(observed), -1))
        return cls(views, observed, errors, checks, array_of(tensors, "lowest", (len(sizes),)), told)


class Imputer:
    """Predicts every view of samples from those they have.

    Parameters
    ----------
    ensemble : Ensemble
    scaling : Scaling
    likelihoods : sequence of V str
    streams : Streams
        Of the draws from the posteriors.
    """

    def __init__(self, ensemble: Ensemble, scaling: Scaling, likelihoods: Sequence[str], streams: Streams) -> None:
        self.ensemble, self.scaling, self.likelihoods, self.streams = ensemble, scaling, likelihoods, streams

    def scaled(self, views: Views) -> list[NDArray[np.float32]]:
        """Return scaled views, zero in hidden rows and NaN in missing cells of observed rows."""
        found = []
        for array, given, seen in zip(scaled(views, self.scaling), views.arrays, views.observed.T, strict=True):
            missing = np.isnan(given) & seen[:, None]
            found.append(np.where(missing, np.float32(np.nan), array) if missing.any() else array)
        return found

    def decode(self, views: Sequence[Array], observed: NDArray[np.bool_], told: NDArray[np.float32]) -> Decoded:
        """Decode samples that are given as scaled views, with what the network is told of their covariates."""
        device = device_of(self.ensemble.network)
        parts = []
        for start in range(0, len(observed), CHUNK):
            rows = slice(start, start + CHUNK)
            arrays = self.scaling.with_marks([view[rows] for view in views], observed[rows], told[rows])
            tensors = [torch.from_numpy(array).to(device) for array in arrays]
            batch = Batch(tensors, torch.from_numpy(observed[rows]).to(device))
            parts.append(decode(self.ensemble, self.likelihoods, batch, self.streams))
        return Decoded(
            *(
                [np.concatenate(pieces) for pieces in zip(*(getattr(part, name) for part in parts), strict=True)]
                for name in ("means", "variances", "latents")
            )
        )

    def donors(self, views: Sequence[Array], observed: NDArray[np.bool_], told: NDArray[np.float32]) -> Donors:
        """Return samples that lend values; of many, evenly spread ones."""
        rows = _spread(len(observed))
        views, observed = [view[rows] for view in views], observed[rows]
        return Donors(views, observed, self.decode(views, observed, told[rows]))

    def decoded(self, views: Views) -> Iterator[list[NDArray[np.float64]]]:
        """Yield the decoders' means of all views of consecutive samples, in the units of the data."""
        for start in range(0, views.n_samples, CHUNK):
            part = views.read(start, start + CHUNK)
            means = self.decode(self.scaled(part), part.observed, self.scaling.told(part)).means
            pairs = zip(means, self.scaling.explained(part), strict=True)
            yield [self.in_units(v, mean + more) for v, (mean, more) in enumerate(pairs)]

    def in_units(self, v: int, values: Array) -> NDArray[np.float64]:
        """Return scaled values of a view in the units of the data."""
        center, scale = self.scaling.affine(v)
        return values * scale + center

    def held_out(self, holdout: Holdout, fold: int, views: Views, whole: "Imputer") -> list[HeldOut]:
        """Predict the entries of a fold, which this imputer's training did not see.

        Parameters
        ----------
        holdout : Holdout
        fold : int
        views : Views
            With nothing hidden.
        whole : Imputer
            That of the whole data, in whose units errors are measured.
        """
        kept = holdout.kept(fold)
        own, theirs = self.scaled(views.hide(kept)), whole.scaled(views)
        told, theirs_told = self.scaling.told(views), whole.scaling.told(views)
        donors, numbers = self.donors(own, kept, told), self.streams.numpy("patterns")
        taken_off, theirs_off = self.scaling.explained(views), whole.scaling.explained(views)
        found = []
        for v, truth in enumerate(theirs):
            rows, seen = holdout.entries(v, fold, numbers)
            most = max(_MOST_CELLS // (len(EXPERTS) * truth.shape[1] * holdout.n_folds), FEWEST_ENTRIES)
            if len(rows) > most:
                chosen = np.arange(most) * len(rows) // most
                rows, seen = rows[chosen], seen[chosen]
            of_rows, known = [view[rows] for view in own], np.isnan(views.arrays[v][rows])
            decoded = self.decode(of_rows, seen, told[rows])
            predicted = donors.predict(v, of_rows, seen, decoded) + donors.centers[v] + taken_off[v][rows]
            variance = whole.decode([view[rows] for view in theirs], seen, theirs_told[rows]).variances[v]
            center, scale = whole.scaling.affine(v)
            entries = np.where(known, np.nan, (views.arrays[v][rows] - center) / scale)
            middle = _center(truth, views.observed[:, v]) + theirs_off[v][rows]
            predicted = (self.in_units(v, predicted) - center) / scale - middle
            weights = holdout.weights(v, seen)
            found.append(HeldOut(predicted, entries - middle, variance, weights, np.full(len(rows), fold)))
        return found

    def learn(self, views: Views, folds: Sequence[Sequence[HeldOut]]) -> "CheckedImputer":
        """Return an imputer with what all folds say of the errors."""
        parts_by_view = [HeldOut.joined(parts) for parts in zip(*folds, strict=True)]
        lowest = np.array(
            [0.0 if np.nanmin(views.rows(v)) == 0 else -np.inf for v in range(views.n_views)]  # counts, shares, words
        )
        rows = _spread(len(views))
        arrays, observed = [array[rows] for array in self.scaled(views)], views.observed[rows]
        errors, checks = [Errors.learn(part) for part in parts_by_view], [Check.of(part) for part in parts_by_view]
        told = self.scaling.told(views)[rows]
        return CheckedImputer(self, Reference(arrays, observed, errors, checks, lowest, told))


class CheckedImputer:
    """Predicts by weighed experts, with error bars."""

    def __init__(self, plain: Imputer, reference: Reference) -> None:
        self._plain, self.reference = plain, reference

    @cached_property
    def _donors(self) -> Donors:
        return self._plain.donors(self.reference.views, self.reference.observed, self.reference.told)

    def predicted(self, views: Views) -> Iterator[list[tuple[NDArray[np.float64], NDArray[np.float64]]]]:
        """Yield mean and scale of the errors of all views of consecutive samples, in the units of the data."""
        for start in range(0, views.n_samples, CHUNK):
            part = views.read(start, start + CHUNK)
            arrays = self._plain.scaled(part)
            decoded = self._plain.decode(arrays, part.observed, self._plain.scaling.told(part))
            explained, found = self._plain.scaling.explained(part), []
            for v, errors in enumerate(self.reference.errors):
                predicted = self._donors.predict(v, arrays, part.observed, decoded)
                sums = np.tensordot(errors.weights, predicted, axes=1)
                mean = self._plain.in_units(v, sums + self._donors.centers[v] + explained[v])
                scale = errors.scale(decoded.variances[v]) * self._plain.scaling.affine(v)[1]
                found.append((self._bounded(v, mean), scale))
            yield found

    def quantile(self, v: int, level: float, mean: Array, scale: Array) -> NDArray[np.float64]:
        """Return a quantile of the values of view v, given their mean and the scale of their errors."""
        return self._bounded(v, mean + scale * self.reference.errors[v].quantile(level))

    def _bounded(self, v: int, values: Array) -> NDArray[np.float64]:
        """Return values that the view can have: not below its least one, and for Bernoulli features from 0 to 1."""
        if self._plain.likelihoods[v] == "bernoulli":
            center, scale = self._plain.scaling.affine(v)
            return np.clip(values, center, center + scale)
        return np.asarray(np.maximum(values, self.reference.lowest[v]))


def check_entries(who: str, views: Views, holdout: Holdout) -> None:
    """Raise `DataError` unless every view has enough entries, in enough folds, to measure its errors by."""
    for v, name in enumerate(views.names):
        folds = holdout.folds[:, v]
        count = int((folds >= 0).sum())
        if count < FEWEST_ENTRIES or len(np.unique(folds[folds >= 0])) < 3:
            msg = (
                f"{who}: error bars of view {name!r} need at least {FEWEST_ENTRIES} samples that have it and another "
                f"view; {count} have. Leave out the view, or impute without error bars."
            )
            raise DataError(msg)


def _read(tensors: Mapping[str, torch.Tensor], v: int, name: str, shape: tuple[int, ...]) -> NDArray[Any]:
    return array_of(tensors, f"{v}.{name}", shape)


def _spread(count: int) -> NDArray[np.intp]:
    """Return the positions of the samples that lend values: all, or evenly spread ones."""
    return np.arange(count) if count <= MAX_DONORS else np.arange(MAX_DONORS) * count // MAX_DONORS


def _center(view: Array, seen: NDArray[np.bool_]) -> NDArray[np.float64]:
    center: NDArray[np.float64] = np.nanmean(view[seen], axis=0, dtype=np.float64)
    return center
