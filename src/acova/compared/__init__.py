"""Methods that ACOVA is compared with: each with its losses, its network, its training and its estimator."""
