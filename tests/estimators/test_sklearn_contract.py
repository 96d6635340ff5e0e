from sklearn.utils.estimator_checks import parametrize_with_checks

from acova import ACOVA, DVIMC, MVP

SMALL = {"n_clusters": 3, "hidden": (32,), "latent_dim": 4, "epochs": 20, "batch_size": 32, "learning_rate": 5e-3}


@parametrize_with_checks(
    [
        ACOVA(**SMALL, pretrain_epochs=20, warmup_epochs=60),
        DVIMC(**SMALL, pretrain_epochs=20),
        MVP(**SMALL, warmup_epochs=20),
    ]
)
def test_is_a_scikit_learn_estimator(estimator, check):
    check(estimator)
