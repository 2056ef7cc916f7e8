"""Small vector files for tests."""

import json


def write_vector(path, shapes, properties=None, crs="EPSG:4326", layer="labels"):
    """GeoJSON-like features in any CRS, written by pyogrio through its driver for the file's name."""
    import numpy as np
    import pyogrio
    import shapely

    columns = properties or {}
    pyogrio.raw.write(
        str(path),
        geometry=np.array([shapely.to_wkb(shape) for shape in shapes], dtype=object),
        field_data=[np.asarray(values) for values in columns.values()],
        fields=list(columns),
        geometry_type=shapes[0].geom_type if len({s.geom_type for s in shapes}) == 1 else "Unknown",
        crs=crs,
        driver="GPKG",
        layer=layer,
    )
    return path


def write_json(path, content):
    path.write_text(json.dumps(content))
    return path
