"""Every registered method has a report, a comparison, and the colours of covariates."""

import re

import pytest
from quick import make_tiny

from acova.estimators import list_methods
from acova.report import render_report
from acova.report.sections import SECTIONS


@pytest.mark.parametrize("name", list_methods())
def test_every_method_has_a_report(name, toy):
    model = make_tiny(name).fit(toy[0])
    page = render_report(model, method="PCA", covariates={"class": toy[1].astype(str)}, compare=model)
    assert f"found by {name} in 3 views" in page
    assert f"the other run ({name})" in page
    present = set(re.findall(r'<section id="(\w+)">', page))
    assert present <= {section.name for section in SECTIONS}
    assert {"trust", "map", "clusters", "comparison", "data", "training", "samples", "settings"} <= present
    assert ("no latent space" in page) == (not hasattr(model, "latent_"))
    assert ("gives no probabilities" in page) == (not hasattr(model, "probabilities_"))
