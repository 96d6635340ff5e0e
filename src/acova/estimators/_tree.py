"""Clusters at every scale: which are most alike, and coarser groups."""

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from acova.base.errors import check_number
from acova.clustering.tree import cut_tree, ward_tree
from acova.data import Scaling, Summary


class TreeMixin:
    """For clusterers: the tree of their clusters."""

    labels_: NDArray[np.int64]
    summary_: Summary
    _scaling: Scaling

    @property
    def cluster_tree_(self) -> NDArray[np.float64]:
        """Merges of the clusters that are most alike, (n_clusters - 1, 4), as `scipy.cluster.hierarchy` has them.

        Clusters are compared by the means of their scaled features (Ward's method), each view by its mean square and
        as far as it is trusted. A merge's height is the share of the variance between the clusters that is lost up to
        it. `acova.plots.ClusterTreeDisplay` draws it.
        """
        check_is_fitted(self, "labels_")
        return ward_tree(self._means_of_clusters(), np.bincount(self.labels_, minlength=len(self.summary_.rows)))

    def cut(self, n_groups: int) -> NDArray[np.int64]:
        """Return coarser groups of the training samples, (n_samples,), the largest first.

        Parameters
        ----------
        n_groups : int
            From 1 to the number of clusters; clusters are merged along `cluster_tree_` until so many are left.
        """
        check_is_fitted(self, "labels_")
        who = f"{type(self).__name__}.cut"
        check_number(who, "n_groups", n_groups, minimum=1, maximum=len(self.summary_.rows), integer=True)
        return cut_tree(self.cluster_tree_, np.asarray(self.labels_), n_groups)

    def _means_of_clusters(self) -> NDArray[np.float64]:
        """Return the clusters' means of all features, (K, sum of the widths); 0 stands for none, the overall mean."""
        scaling = self._scaling
        known = getattr(self, "view_trust_", None)
        trust = np.ones(len(scaling.centers)) if known is None else np.asarray(known)
        parts = []
        for v, (center, scale) in enumerate(zip(scaling.centers, scaling.scales, strict=True)):
            mean = np.asarray(self.summary_.means[v], dtype=np.float64)
            parts.append(
                np.nan_to_num((scaling.before_map(v, mean) - center) / scale) * np.sqrt(trust[v] / len(center))
            )
        return np.hstack(parts)
