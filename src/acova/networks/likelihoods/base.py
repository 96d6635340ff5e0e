"""What every likelihood of a view can do."""

from typing import TYPE_CHECKING, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

if TYPE_CHECKING:
    from collections.abc import Callable

    from acova.data.features import Features

TINY = 1e-8
Numbers = NDArray[np.float64]
Moments = tuple[Numbers, Numbers]


class Likelihood(nn.Module):
    """The density p(x | z) of a view whose decoder gives `output` for z.

    Cells are independent given z, so every function returns one value per cell. How far cells lie from their mean, one
    number per feature, belongs to the module. Training leaves it as `start` sets it; then `fit_spreads` finds it anew.

    Parameters
    ----------
    size : int
        Number of features, P.
    blocks : sequence of int
        For views of categories alone: how many columns each encoded column became.

    Attributes
    ----------
    spread : Tensor of shape (P,)
        Where there is one: a free number per feature that says how far cells lie from their mean.
    """

    name: ClassVar[str]
    """The word for it."""
    scaling: ClassVar[str | None] = None
    """How its views are scaled for the encoder; None: as `standardize` says."""
    of_data: ClassVar[bool] = False
    """Whether it describes the data as they are given, and not as they are scaled."""
    takes_all: ClassVar[bool] = True
    """Whether a view may hold any number."""
    widths: ClassVar[int] = 1
    """Outputs of the decoder for each feature."""
    starts_squared: ClassVar[bool] = True
    """Whether pretraining minimises squared errors of the outputs instead of `error`."""
    shares_unit: ClassVar[bool] = False
    """Whether `balance` gives all such views together the cost of one; see `reconstruction_weights`."""
    starts: ClassVar[bool] = False
    """Whether `start` does anything."""
    blank: ClassVar[float] = 0.0
    """A value that every cell may have."""
    has_spread: ClassVar[bool] = False
    """Whether features have a spread."""

    spread: Tensor

    def __init__(self, size: int, blocks: tuple[int, ...] = ()) -> None:
        super().__init__()
        self.size, self.blocks = size, blocks
        if self.has_spread:
            self.register_buffer("spread", torch.zeros(size, dtype=torch.float32))

    # --- what training asks ---------------------------------------------------------------------

    def error(self, output: Tensor, target: Tensor, cells: Tensor | None = None) -> Tensor:
        """Return -log p(x | z) of every cell, without what does not depend on the output.

        Parameters
        ----------
        output : Tensor of shape (..., widths * P)
        target : Tensor of shape (..., P)
            The data; a mean over neighbours need not be a value that the data can have.
        cells : Tensor of bool, shape (..., P), optional
            False where nothing is known. The error there means nothing, but it and its gradient are finite if the
            target is.

        Returns
        -------
        Tensor of shape (..., P)
        """
        raise NotImplementedError

    def log_constant(self, target: Tensor) -> Tensor:
        """Return what `error` leaves out of log p(x | z), (..., P)."""
        return torch.zeros_like(target)

    def reconstruction(self, target: Tensor, output: Tensor, observed: Tensor) -> Tensor:
        """Return the sum of `error` over the observed cells, (...).

        Parameters
        ----------
        target : Tensor of shape (..., P)
            What it holds where it is not observed does not matter, even if it is NaN.
        output : Tensor of shape (..., widths * P) or wider
        observed : Tensor of bool, shape (...) or (..., P)
            Which rows, or which cells.
        """
        cells = observed if observed.ndim == target.ndim else observed.unsqueeze(-1).expand_as(target)
        known = target.masked_fill(~cells, self.blank)
        errors = self.error(output[..., : self.widths * self.size], known, cells)
        return errors.masked_fill(~cells, 0.0).sum(-1)

    def constant(self, target: Tensor, observed: Tensor) -> Tensor:
        """Return the sum of `log_constant` over the observed cells, (...); arguments as for `reconstruction`."""
        cells = observed if observed.ndim == target.ndim else observed.unsqueeze(-1).expand_as(target)
        return self.log_constant(target.masked_fill(~cells, self.blank)).masked_fill(~cells, 0.0).sum(-1)

    # --- what prediction asks -------------------------------------------------------------------

    def mean(self, output: Tensor, total: Tensor | None = None) -> Tensor:
        """Return the mean of every cell, (..., P), in the units of the target.

        Parameters
        ----------
        output : Tensor of shape (..., widths * P)
        total : Tensor of shape (...), optional
            For counts: the sum of each row (default: the mean of the training rows).
        """
        raise NotImplementedError

    def quantile(self, output: Tensor, level: Tensor, total: Tensor | None = None) -> Tensor:
        """Return the quantile of every cell at a level (..., P) between 0 and 1."""
        raise NotImplementedError

    def sample(self, output: Tensor, uniform: Tensor, total: Tensor | None = None) -> Tensor:
        """Return a draw of every cell, made of uniform numbers (..., P) between 0 and 1."""
        return self.quantile(output, uniform, total)

    # --- what is asked of data ------------------------------------------------------------------

    @classmethod
    def check(cls, features: "Features", where: "Callable[[int], str]") -> str | None:
        """Return why a view with these features cannot have this likelihood, and the way out; else None.

        `where` names a column as the user knows it.
        """
        return None

    @classmethod
    def moments(cls, rows: Numbers) -> Moments:
        """Return mean and variance of the features of rows, as `blind_cost` and `start` want them; NaN are skipped."""
        if np.isnan(rows).any():
            return np.nanmean(rows, axis=0), np.nanvar(rows, axis=0)
        return rows.mean(axis=0), rows.var(axis=0)

    @classmethod
    def blind_cost(cls, mean: Numbers, variance: Numbers) -> float:
        """Return what decoding a view to its means costs more than decoding it perfectly, per row.

        With a spread as wide as the data it is half a nat for every feature that varies.
        """
        return 0.5 * float((variance > 0).sum())

    def start(self, mean: Numbers, variance: Numbers) -> None:
        """Set the spread to that of the training rows around their mean, and what outputs are relative to."""


def as_free(values: Numbers, limit: float) -> Tensor:
    """Return the free numbers that `bounded` makes these of, up to nine tenths of the limit."""
    numbers = np.nan_to_num(values, nan=0.0, posinf=limit, neginf=-limit)
    return torch.from_numpy(limit * np.arctanh(numbers.clip(-0.9 * limit, 0.9 * limit) / limit))


def bounded(free: Tensor, limit: float) -> Tensor:
    """Return numbers between -limit and limit, nearly the free ones where these are small."""
    return limit * (free / limit).tanh()


def by_scipy(function: "Callable[..., Numbers]", *arguments: Tensor) -> Tensor:
    """Return what a numpy function gives for tensors, in the type and place of the first."""
    arrays = [argument.detach().double().cpu().numpy() for argument in arguments]
    return torch.from_numpy(np.asarray(function(*arrays), dtype=np.float64)).to(arguments[0])
