"""What a method asks of its data, and the errors for data that it cannot learn from."""

from dataclasses import dataclass

from acova.base import DataError
from acova.data import StoredViews, Views
from acova.functional import LIKELIHOODS


@dataclass(frozen=True)
class Requirements:
    """What a method asks of its data; the defaults are those of a method that takes any.

    Attributes
    ----------
    in_memory : str
        Why the method needs all views in memory; empty for methods that read them a window at a time.
    one_process : bool
        Whether batches must be on one process as a whole.
    least_views : int
        Number of views that the method needs.
    complete_only : bool
        Whether only samples that have all views are trained on.
    marks_empty_cells : bool
        Whether its networks take, after the values of a view with empty cells, which cells these are. Without it they
        take completed views for observed ones.
    likelihoods : tuple of str
        The likelihoods that views may have.
    follows_labels : bool
        Whether clusters follow labels that are known of some samples.
    """

    in_memory: str = ""
    one_process: bool = False
    least_views: int = 1
    complete_only: bool = False
    marks_empty_cells: bool = False
    likelihoods: tuple[str, ...] = LIKELIHOODS
    follows_labels: bool = False

    def check(self, who: str, views: Views | StoredViews) -> None:
        """Raise `DataError` where the data are not what the method can learn from."""
        if self.in_memory and isinstance(views, StoredViews):
            raise refusal_of_disk(who, self.in_memory, views)
        if views.n_views < self.least_views:
            msg = f"{who}: it compares views with each other and needs at least two; got one. Use ACOVA, or k-means."
            raise DataError(msg)
        if not self.complete_only or isinstance(views, StoredViews):
            return
        complete = int(views.observed.all(axis=1).sum())
        if complete < 2:
            msg = (
                f"{who}: it learns from samples that have every view, and needs at least 2; got {complete} of "
                f"n_samples={len(views)}. Leave out views that are rarely observed, or use a method that learns from "
                "all samples, such as ACOVA, CPSPAN or PMIMC."
            )
            raise DataError(msg)


def refusal_of_disk(who: str, why: str, views: StoredViews) -> DataError:
    """Return the error for views on disk that a method would need in memory."""
    place = "sparse" if views.is_sparse else "on disk"
    return DataError(
        f"{who}: {why} in memory, but these views stay {place} ({views.nbytes / 2**30:.1f} GiB); read them with "
        f"StoredViews.read(0, {len(views)}), or use a method that reads a window at a time, such as ACOVA."
    )
