import shutil

import numpy as np
import pytest

from map_cases import contents, fitted, reflectance, save_model, write_scene
from safe_trees import build_safe
from uncover.pipeline import map_scene


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


@pytest.fixture
def small_units(monkeypatch):
    """Units of 64 pixels: many of them in a small scene."""
    monkeypatch.setattr("uncover.raster.product.UNIT", 64)
    monkeypatch.setattr("uncover.raster.scratch.UNIT", 64)
    monkeypatch.setattr("uncover.raster.scratch.SECONDS_BETWEEN_SYNCS", 0.02)


@pytest.fixture
def case(tmp_path, small_units):
    """A model and a scene of seven by six units."""
    values = reflectance(370, 420)
    values[:, 100:200, 50:90] = np.nan
    model = save_model(tmp_path / "m.uncover", fitted())
    return model, write_scene(tmp_path / "scene.tif", values, nodata=np.nan)


@pytest.fixture
def undisturbed(case, tmp_path):
    map_scene(*case, tmp_path / "undisturbed")
    return contents(tmp_path / "undisturbed")
