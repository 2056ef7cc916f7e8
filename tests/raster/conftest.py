import shutil

import pytest

from safe_trees import build_safe


@pytest.fixture(scope="session")
def made_products(tmp_path_factory):
    """One made product per name, built once."""
    made = {}

    def get(product):
        if product not in made:
            made[product] = build_safe(tmp_path_factory.mktemp("safe"), product)
        return made[product]

    return get


@pytest.fixture
def own_product(tmp_path, made_products):
    """A product of the test's own, to be changed or damaged."""

    def get(product):
        from dataclasses import replace

        tree = made_products(product)
        path = tmp_path / tree.path.name
        shutil.copytree(tree.path, path)
        return replace(tree, path=path, numbers=dict(tree.numbers))

    return get
