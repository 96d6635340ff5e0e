from sklearn.utils.estimator_checks import parametrize_with_checks

from acova import ACOVA


@parametrize_with_checks(
    [ACOVA(n_clusters=3, hidden=(16,), latent_dim=2, pretrain_epochs=10, warmup_epochs=20, epochs=10, batch_size=32)]
)
def test_is_a_scikit_learn_estimator(estimator, check):
    check(estimator)
