import tracemalloc

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.spatial.distance import cdist

from acova.clustering import agreement, spectral
from acova.clustering.agreement import agreement_weights, view_agreement
from acova.clustering.graphs import (
    ViewGraph,
    combined_graph,
    links_to,
    neighbour_count,
    smoothed_rows,
    view_graphs,
    walk,
)
from acova.clustering.kmeans import k_means
from acova.clustering.nearest import DistinctRows
from acova.clustering.spectral import spectral_embedding
from acova.metrics import clustering_accuracy


def data(n_samples=60, sizes=(4, 6, 20), missing=0.4, seed=0):
    """Return tables and a mask under which every sample and every view has something."""
    rng = np.random.default_rng(seed)
    latent = 3 * rng.normal(size=(3, 4))[np.arange(n_samples) % 3] + rng.normal(size=(n_samples, 4))
    tables = [latent @ rng.normal(size=(4, size)) + rng.normal(size=(n_samples, size)) for size in sizes]
    observed = rng.random((n_samples, len(sizes))) >= missing
    observed[np.arange(n_samples), np.arange(n_samples) % len(sizes)] = True
    return tables, observed


def dense_links(rows, count, queries=None):
    """Return `ViewGraph.links` by way of all distances."""
    apart = cdist(rows, rows)
    np.fill_diagonal(apart, np.inf)
    spread = np.sqrt(np.square(np.sort(apart, axis=1)[:, :count]).mean(axis=1))
    own = spread
    if queries is not None:
        apart = cdist(queries, rows)
        own = np.sqrt(np.square(np.sort(apart, axis=1)[:, :count]).mean(axis=1))
    links = np.zeros(apart.shape)
    for line, distances in enumerate(apart):
        near = np.argsort(distances)[:count]
        links[line, near] = np.exp(-np.square(2 * distances[near] / (own[line] + spread[near])) / 2)
    return links / links.sum(axis=1, keepdims=True)


# --- neighbours ---------------------------------------------------------------------------------


@pytest.mark.parametrize("width", [1, 5, 40])
def test_links_are_those_of_all_distances(width):
    rng = np.random.default_rng(0)
    rows, queries = rng.normal(size=(50, width)), rng.normal(size=(9, width))
    graph = ViewGraph.of(rows, 7)
    np.testing.assert_allclose(graph.links().toarray(), dense_links(rows, 7), atol=1e-12)
    np.testing.assert_allclose(graph.links(queries).toarray(), dense_links(rows, 7, queries), atol=1e-12)
    np.testing.assert_allclose(graph.links(rows[:5]).toarray(), dense_links(rows, 7, rows[:5]), atol=1e-12)
    assert (graph.links_with_itself() != graph.links(rows)).nnz == 0
    loaded = ViewGraph.known(rows, graph.spreads, 7)
    assert (loaded.links() != graph.links()).nnz == 0
    assert (loaded.links(queries) != graph.links(queries)).nnz == 0


def test_links_of_a_query_do_not_depend_on_the_other_queries():
    rows = np.random.default_rng(0).normal(size=(300, 30))
    graph = ViewGraph.of(rows, 9)
    whole = graph.links(rows)
    for some in ([17], [3, 299, 40], range(100, 200)):
        assert (graph.links(rows[list(some)]) != whole[list(some)]).nnz == 0


def test_32_bit_rows_are_taken_as_they_are():
    rows = np.random.default_rng(0).normal(size=(40, 20)).astype(np.float32)
    assert (ViewGraph.of(rows, 5).links() != ViewGraph.of(rows.astype(float), 5).links()).nnz == 0


def test_rows_far_from_zero_have_their_neighbours():
    """Distances by products of matrices lose everything here, unless the rows are centred."""
    rows = np.random.default_rng(0).normal(size=(50, 20))
    far = ViewGraph.of(rows + 1e9, 6).links()
    np.testing.assert_allclose(far.toarray(), ViewGraph.of(rows, 6).links().toarray(), atol=1e-5)


def test_equal_rows_are_neighbours_and_none_is_the_neighbour_of_all():
    levels = np.arange(600) % 3
    distances, found = DistinctRows.of(np.eye(3)[levels]).neighbours(10)[0]
    assert (distances == 0).all()
    assert (levels[found] == levels[:, None]).all()
    for row, near in enumerate(found):
        assert len({*near, row}) == 11
    np.testing.assert_array_equal(np.bincount(found.ravel()), 10)
    assert spectral_gap(found) > 0.3  # no chain: a walk spreads over a level in a few steps


def spectral_gap(found):
    """Return how far the largest eigenvalue inside the first level is above the next."""
    graph = np.zeros((len(found), len(found)))
    graph[np.arange(len(found))[:, None], found] = 1
    one = walk(sp.csr_matrix(graph + graph.T)).toarray()[::3, ::3]
    values = np.sort(np.linalg.eigvals(one).real)
    return values[-1] - values[-2]


def test_a_few_equal_rows_come_before_others():
    rows = np.array([[0.0], [0.0], [-0.0], [1.0], [3.0], [6.0]])
    distances, found = DistinctRows.of(rows).neighbours(4)[0]
    assert [{*near} for near in found[:3]] == [{1, 2, 3, 4}, {0, 2, 3, 4}, {0, 1, 3, 4}]
    np.testing.assert_array_equal(distances[0], [0, 0, 1, 3])
    assert {*found[5]} > {3, 4}
    assert len({*found[5]}) == 4
    distances, found = DistinctRows.of(rows).neighbours_of(np.array([[0.0], [5.0]]), 3)
    assert [{*near} for near in found] == [{0, 1, 2}, {5, 4, 3}]
    np.testing.assert_array_equal(distances, [[0, 0, 0], [1, 2, 4]])


def test_ties_between_different_rows_do_not_depend_on_the_search():
    """All points of a grid have many neighbours at the same distance; which are taken depends on the rows alone."""
    grid = np.stack(np.meshgrid(*[np.arange(5.0)] * 3, [0.0] * 2), axis=-1).reshape(-1, 4)
    grid = np.hstack([np.unique(grid, axis=0), np.zeros((125, 20))])  # so wide that products of matrices are used
    order = np.random.default_rng(0).permutation(125)
    plain, shuffled = DistinctRows.of(grid), DistinctRows.of(grid[order])
    for count in (1, 4, 9, 30):
        found = plain.neighbours_of(grid, count)[1]
        np.testing.assert_array_equal(order[shuffled.neighbours_of(grid, count)[1]], found)
        np.testing.assert_array_equal(plain.neighbours(count)[1][1], found)
        for row in (0, 62, 124):
            np.testing.assert_array_equal(plain.neighbours_of(grid[[row]], count)[1][0], found[row])
            reached = np.sort(np.linalg.norm(grid - grid[row], axis=1))[:count]
            np.testing.assert_allclose(np.linalg.norm(grid[found[row]] - grid[row], axis=1), reached)


def test_few_rows_have_as_many_neighbours_as_there_are():
    rows = np.random.default_rng(0).normal(size=(4, 3))
    graph = ViewGraph.of(rows, 10)
    assert graph.n_neighbors == 3
    np.testing.assert_array_equal(graph.links().toarray() > 0, ~np.eye(4, dtype=bool))
    alone = ViewGraph.of(rows[:1], 10)
    assert alone.links().nnz == 0
    np.testing.assert_array_equal(alone.links(rows).toarray(), np.ones((4, 1)))
    equal = ViewGraph.of(np.zeros((5, 2)), 3).links()
    np.testing.assert_allclose(equal.data, 1 / 3)


@pytest.mark.parametrize(("n_samples", "n_clusters", "count"), [(200, 4, 25), (60, 9, 5), (10**5, 2, 30), (3, 1, 5)])
def test_a_sample_is_linked_to_about_half_a_cluster(n_samples, n_clusters, count):
    assert neighbour_count(n_samples, n_clusters) == count


# --- agreement ----------------------------------------------------------------------------------


def dense_agreement(first, second, count):
    """Return the unbiased kernel alignment in the words of Song et al. (2012)."""
    kernels = []
    for rows in (first, second):
        links = dense_links(rows, count)
        step = (links + links.T) / (links + links.T).sum(axis=1, keepdims=True)
        after = step @ step @ step
        kernels.append((after + after.T) / 2 * (1 - np.eye(len(rows))))
    n = len(first)

    def dependence(a, b):
        products = np.trace(a @ b) + a.sum() * b.sum() / ((n - 1) * (n - 2)) - 2 / (n - 2) * (a @ b).sum()
        return products / (n * (n - 3))

    a, b = kernels
    return dependence(a, b) / np.sqrt(dependence(a, a) * dependence(b, b))


def test_agreement_is_the_alignment_of_the_samples_that_have_both_views():
    tables, observed = data()
    agreement = view_agreement(tables, observed, n_clusters=3)
    for u, v in ((0, 1), (0, 2), (1, 2)):
        both = observed[:, u] & observed[:, v]
        expected = dense_agreement(tables[u][both], tables[v][both], neighbour_count(both.sum(), 3))
        assert agreement[u, v] == pytest.approx(max(expected, 0.0), abs=1e-10)
        assert agreement[v, u] == agreement[u, v]
    np.testing.assert_array_equal(np.diag(agreement), 1)


def test_equal_views_agree_and_unrelated_ones_do_not():
    rng = np.random.default_rng(0)
    for n_samples in (30, 100, 400):
        rows = rng.normal(size=(n_samples, 8))
        tables = [rows, 5 * rows @ np.linalg.qr(rng.normal(size=(8, 8)))[0], rng.normal(size=(n_samples, 8))]
        agreement = view_agreement(tables, np.ones((n_samples, 3), bool), n_clusters=4)
        assert agreement[0, 1] == pytest.approx(1)
        assert max(agreement[0, 2], agreement[1, 2]) < 2 / np.sqrt(n_samples)


def test_unrelated_views_are_at_zero_on_average():
    """A kernel with its diagonal, where every walk returns, would put them above."""
    rng = np.random.default_rng(0)
    tables = [rng.normal(size=(60, 3)) for _ in range(12)]
    pairs = [
        agreement._alignment(*(agreement._kernel(ViewGraph.of(table, 5).links()) for table in tables[i : i + 2]))
        for i in range(0, 12, 2)
    ]
    assert np.mean(pairs) == pytest.approx(0, abs=0.03)


def test_agreement_does_not_depend_on_the_order_of_samples_or_on_hidden_cells():
    tables, observed = data()
    agreement = view_agreement(tables, observed, n_clusters=3)
    order = np.random.default_rng(0).permutation(len(observed))
    shuffled = view_agreement([table[order] for table in tables], observed[order], n_clusters=3)
    np.testing.assert_allclose(shuffled, agreement, atol=1e-12)
    for junk in (np.nan, 1e300):
        dirty = [np.where(seen[:, None], table, junk) for table, seen in zip(tables, observed.T, strict=True)]
        np.testing.assert_array_equal(view_agreement(dirty, observed, n_clusters=3), agreement)


def test_views_that_share_few_samples_do_not_agree():
    tables, observed = data(missing=0.0)
    observed[:, 1] = False
    observed[:5, 1] = True
    agreement = view_agreement(tables, observed, n_clusters=3)
    assert agreement[0, 1] == agreement[1, 2] == 0
    assert agreement[0, 2] > 0.3


def test_agreement_of_many_samples_compares_evenly_spread_ones(monkeypatch):
    tables, observed = data(n_samples=120, missing=0.0)
    monkeypatch.setattr(agreement, "_COMPARED", 40)
    few = view_agreement([table[::3] for table in tables], observed[::3], n_clusters=3)
    np.testing.assert_array_equal(view_agreement(tables, observed, n_clusters=3), few)


def test_a_useless_view_is_not_trusted():
    rng = np.random.default_rng(0)
    groups = rng.integers(4, size=400)
    rna = rng.normal(size=(400, 100)) + np.pad(2 * rng.normal(size=(4, 20)), ((0, 0), (0, 80)))[groups]
    protein = rng.normal(size=(400, 20)) + 2 * rng.normal(size=(4, 20))[groups]
    category = np.eye(4)[rng.integers(4, size=400)]
    for tables in ([rna, protein, category], [rna, protein, rng.normal(size=(400, 2))]):
        observed = np.ones((400, 3), bool)
        weights = agreement_weights(view_agreement(tables, observed, 4), tables, observed, 4)
        assert weights[:2].min() > 0.9
        assert weights[2] < 0.1
    observed = np.ones((400, 2), bool)  # nothing agrees: what a partition explains decides
    weights = agreement_weights(view_agreement([rna, category], observed, 4), [rna, category], observed, 4)
    assert weights[0] == 1
    assert weights[1] < 0.5


def test_views_of_which_nothing_is_known_count_the_same():
    observed = np.ones((30, 2), bool)
    constant = [np.zeros((30, 2)), np.ones((30, 3))]
    np.testing.assert_array_equal(agreement_weights(np.eye(2), constant, observed, 3), [1, 1])
    np.testing.assert_array_equal(agreement_weights(np.eye(1), constant[:1], observed[:, :1], 3), [1])


def test_copies_of_a_view_count_as_one_and_do_not_support_each_other():
    rng = np.random.default_rng(0)
    groups = rng.integers(4, size=300)
    rna, protein = (rng.normal(size=(4, size))[groups] + rng.normal(size=(300, size)) for size in (40, 20))
    category = np.eye(4)[rng.integers(4, size=300)]

    def weights(*tables):
        observed = np.ones((300, len(tables)), bool)
        return agreement_weights(view_agreement(tables, observed, 4), tables, observed, 4)

    plain = weights(rna, protein)
    np.testing.assert_allclose(plain, [1, 1])
    np.testing.assert_allclose(weights(rna, protein, protein, protein[:, ::-1]), [1, 1 / 3, 1 / 3, 1 / 3])
    twice = weights(rna, protein, category, category[:, ::-1])
    assert twice[:2].min() > 0.9
    assert twice[2:].max() < 0.1
    np.testing.assert_allclose(weights(rna, rna), [1, 1])


# --- the graph of all views ---------------------------------------------------------------------


def dense_mean(links, rows, columns, weights):
    """Return the links (V, n, m) of all views as one, pair by pair."""
    mean = np.zeros(links[0].shape)
    for i, j in np.ndindex(*mean.shape):
        shared = rows[i] & columns[j]
        mean[i, j] = sum(weights[v] * links[v][i, j] for v in np.flatnonzero(shared))
        mean[i, j] /= max(weights[shared].sum(), weights.max())
    return mean


def spread_out(links, rows, columns):
    whole = np.zeros((len(rows), len(columns)))
    whole[np.ix_(rows, columns)] = links
    return whole


def test_the_graph_is_the_mean_over_the_views_that_two_samples_share():
    tables, observed = data(n_samples=40)
    weights = np.array([1.0, 0.6, 0.05])
    own = [dense_links(t[o], neighbour_count(o.sum(), 3)) for t, o in zip(tables, observed.T, strict=True)]
    both = [spread_out((one + one.T) / 2, o, o) for one, o in zip(own, observed.T, strict=True)]
    graph = combined_graph(view_graphs(tables, observed, 3), observed, weights).toarray()
    np.testing.assert_allclose(graph, dense_mean(both, observed, observed, weights), atol=1e-12)
    np.testing.assert_allclose(graph, graph.T, atol=1e-15)


def test_links_of_samples_are_the_mean_over_the_views_that_both_have():
    tables, observed = data(n_samples=40)
    new, seen = data(n_samples=9, seed=1)
    weights = np.array([0.3, 1.0, 0.05])
    known = view_graphs(tables, observed, 3)
    each = []
    for v, graph in enumerate(known):
        rows = dense_links(graph.rows, graph.n_neighbors, new[v][seen[:, v]])
        each.append(spread_out(rows, seen[:, v], observed[:, v]))
    expected = dense_mean(each, seen, observed, weights)
    links = links_to(known, observed, new, seen, weights)
    np.testing.assert_allclose(links.toarray(), expected / expected.sum(axis=1, keepdims=True), atol=1e-12)
    own = links_to(known, observed, tables, observed, weights)
    np.testing.assert_array_equal(np.asarray(own.argmax(axis=1)).ravel(), np.arange(40))
    some = [3, 30, 31]
    part = links_to(known, observed, [table[some] for table in tables], observed[some], weights)
    assert (part != own[some]).nnz == 0


def test_a_sample_with_nothing_but_a_view_of_weight_0_is_placed_by_it():
    tables, observed = data(n_samples=40)
    observed[:4] = [False, False, True]
    known, weights = view_graphs(tables, observed, 3), np.array([1.0, 1.0, 0.0])
    links = links_to(known, observed, tables, observed, weights)
    np.testing.assert_allclose(links.sum(axis=1), 1)
    assert combined_graph(known, observed, weights)[:4].sum() == 0


def test_samples_in_another_order_have_the_same_graph():
    tables, observed = data()
    order = np.random.default_rng(0).permutation(len(observed))
    weights = np.array([1.0, 0.5, 0.2])
    plain = combined_graph(view_graphs(tables, observed, 3), observed, weights)
    other = combined_graph(view_graphs([t[order] for t in tables], observed[order], 3), observed[order], weights)
    np.testing.assert_allclose(other.toarray(), plain.toarray()[np.ix_(order, order)], atol=1e-12)


# --- what is done with it -----------------------------------------------------------------------


def blocks(*sizes):
    return sp.csr_matrix(sp.block_diag([np.ones((size, size)) - np.eye(size) for size in sizes]))


def test_the_embedding_is_the_same_by_dense_and_by_sparse_matrices(monkeypatch):
    tables, observed = data(n_samples=200)
    graph = combined_graph(view_graphs(tables, observed, 3), observed, np.ones(3))
    dense = spectral_embedding(graph, 3)
    np.testing.assert_allclose(np.linalg.norm(dense, axis=1), 1)
    monkeypatch.setattr(spectral, "_DENSE_UP_TO", 0)
    sparse = spectral_embedding(graph, 3)
    np.testing.assert_allclose(sparse @ sparse.T, dense @ dense.T, atol=1e-5)  # the same up to a rotation
    np.testing.assert_array_equal(spectral_embedding(graph, 3), sparse)
    degrees = np.asarray(graph.sum(axis=1)).ravel()
    whole = graph.toarray() + 1e-3 * degrees.mean() / 200
    root = 1 / np.sqrt(whole.sum(axis=1))
    step = root[:, None] * whole * root
    vectors = np.linalg.eigh(step)[1][:, -13:]
    alike = vectors @ (vectors.T @ np.linalg.matrix_power(step, 6) @ vectors) @ vectors.T  # three steps from each
    scale = np.sqrt(np.diag(alike))
    np.testing.assert_allclose(dense @ dense.T, alike / np.outer(scale, scale), atol=1e-8)


@pytest.mark.parametrize("dense_up_to", [0, 400])
def test_parts_that_nothing_links_are_places_of_their_own(monkeypatch, dense_up_to):
    monkeypatch.setattr(spectral, "_DENSE_UP_TO", dense_up_to)
    places = spectral_embedding(blocks(30, 20, 10), 3)
    np.testing.assert_allclose(places @ places.T, blocks(30, 20, 10).toarray() + np.eye(60), atol=0.05)
    places = spectral_embedding(blocks(3, 40, 3, 3, 30, 3), 2)  # more parts than components: the large ones count
    large = np.r_[3:43, 49:79]
    expected = (blocks(40, 30) + sp.eye(70)).toarray()
    np.testing.assert_allclose((places @ places.T)[np.ix_(large, large)], expected, atol=0.1)


def test_the_smallest_graphs_have_an_embedding():
    for graph in (sp.csr_matrix((1, 1)), sp.csr_matrix((6, 6)), blocks(2, 1), blocks(4)):
        places = spectral_embedding(graph, min(graph.shape[0], 3))
        assert places.shape == (graph.shape[0], graph.shape[0])
        assert np.isfinite(places).all()


def test_smoothed_rows_are_the_mean_over_two_steps():
    tables, observed = data(n_samples=40)
    graph = combined_graph(view_graphs(tables, observed, 3), observed, np.ones(3))
    step = graph.toarray() + 1e-9 * np.eye(40)
    step /= step.sum(axis=1, keepdims=True)
    twice = step @ step * observed[:, 0]
    expected = twice @ tables[0] / twice.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(smoothed_rows(graph, tables[0], observed[:, 0]), expected, atol=1e-9)
    dirty = np.where(observed[:, [0]], tables[0], np.nan)
    np.testing.assert_allclose(smoothed_rows(graph, dirty, observed[:, 0]), expected, atol=1e-9)
    seen = np.repeat([True, False], 5)
    rows = np.arange(20.0).reshape(10, 2)
    smooth = smoothed_rows(blocks(5, 5), rows.astype(np.float32), seen)
    np.testing.assert_allclose(smooth[5:], np.tile(rows[:5].mean(axis=0), (5, 1)))
    assert (smoothed_rows(blocks(5, 5), rows, np.zeros(10, bool)) == 0).all()


def test_memory_does_not_grow_with_the_square_of_the_samples():
    n_samples = 20_000
    rng = np.random.default_rng(0)
    groups = rng.integers(5, size=n_samples)
    tables = [(8 * rng.normal(size=(5, 4))[groups] + rng.normal(size=(n_samples, 4))) for _ in range(2)]
    observed = np.ones((n_samples, 2), bool)
    observed[::4, 0] = False
    tracemalloc.start()
    try:
        weights = agreement_weights(view_agreement(tables, observed, 5), tables, observed, 5)
        known = view_graphs(tables, observed, 5, n_neighbors=[10] * len(tables))
        places = spectral_embedding(combined_graph(known, observed, weights), 5)
        links_to(known, observed, tables, observed, weights)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < n_samples**2 * 8 / 20
    assert clustering_accuracy(groups, k_means(places, 5, seed=0).labels) > 0.9
