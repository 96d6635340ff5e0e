import numpy as np
import torch

from acova.estimators.start import averaged_codes, code_similarity, components_around


def test_codes_of_complete_samples_are_averaged_over_the_views():
    rng = np.random.default_rng(0)
    codes = rng.normal(size=(50, 3, 2))
    observed = rng.random((50, 3)) < 0.9
    np.testing.assert_allclose(averaged_codes(codes, observed, 2), codes[observed.all(1)].mean(1))


def test_with_few_complete_samples_all_count_by_the_views_they_have():
    rng = np.random.default_rng(0)
    codes = rng.normal(size=(30, 3, 2))
    observed = rng.random((30, 3)) < 0.4
    observed[:, 0] |= ~observed.any(1)
    expected = [codes[i, observed[i]].mean(0) for i in range(30)]
    np.testing.assert_allclose(averaged_codes(codes, observed, 3), expected)


def test_components_have_the_moments_of_their_samples():
    rng = np.random.default_rng(0)
    label = np.repeat([0, 1, 2], [20, 30, 50])
    mean = np.array([[0, 0], [50, 0], [0, 50]])[label] + rng.normal(size=(100, 2))
    variance = rng.random((100, 2))
    centres, spread = components_around(mean, variance, label, 3)
    draws = mean + np.sqrt(variance) * rng.normal(size=(20_000, 1, 2))
    for k in range(3):
        mine = label == k
        np.testing.assert_allclose(centres[k], mean[mine].mean(0))
        np.testing.assert_allclose(spread[k], mean[mine].var(0) + variance[mine].mean(0))
        np.testing.assert_allclose(spread[k], draws[:, mine].reshape(-1, 2).var(0), rtol=0.03)


def test_similarity_is_positive_definite_even_for_identical_views():
    codes = np.repeat(np.random.default_rng(0).normal(size=(20, 1, 4)), 3, axis=1)
    similarity = code_similarity(codes, np.ones((20, 3), dtype=bool))
    torch.testing.assert_close(similarity[0, 1].item(), 0.99)
    assert torch.linalg.eigvalsh(similarity).min() > 0
    assert torch.equal(code_similarity(codes, np.eye(20, 3, dtype=bool)), torch.eye(3, dtype=torch.float64))
