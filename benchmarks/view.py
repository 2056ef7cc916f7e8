"""Speed and memory of `uncover view` on a map of the size of a Sentinel-2 tile.

Run it with `python -m benchmarks view`; `--quick` takes a small map. A map of 512² pixels is repeated to
the whole size and written as the product's own Cloud-Optimised GeoTIFFs; the scene behind it is as large.
"""

import http.client
import json
import math
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import urlsplit
from xml.sax.saxutils import escape

import numpy as np
import rasterio
import rasterio.shutil
from rasterio.enums import Resampling

from benchmarks.gpu import problem
from benchmarks.map import ANGLES, PATCH, make_scene, measure_command, save_model
from benchmarks.registry import Table, benchmark
from uncover.raster.map_formats import WRITING, cog_options
from uncover.raster.product import Layer

WORLDS, TILES, CLICKS, CONNECTIONS = 25, 400, 1000, 4
#: What was asked for: seconds to the first picture, 95th percentiles of tiles and clicks, megabytes.
GOALS = {"first picture": 2.0, "tile": 0.2, "click": 0.3, "area": "none", "memory": 300.0}


def make_product(folder: Path, size: int) -> Path:
    """A finished map of size × size pixels with its model and its scene."""
    model, _, measure, _ = problem(np.random.default_rng(0), WORLDS)
    file = save_model(folder, model, "bench")
    for name, side in (("small", PATCH), ("large", size)):
        (folder / name).mkdir()
        make_scene(folder / name, side, measure)
    for path in (folder / "large").glob("*.tif"):  # as Sentinel-2 products have coarser images in theirs
        with rasterio.open(path, "r+") as band:
            band.build_overviews([2, 4, 8, 16], Resampling.nearest)
    product = folder / "map"
    command = [sys.executable, "-m", "uncover.cli", "map", str(file), str(folder / "small" / "scene.json")]
    command += [
        "--aod",
        "0.12",
        "--draws",
        str(WORLDS),
        "--angles",
        *ANGLES,
        "--paired",
        "--out",
        str(product),
    ]
    measure_command(command)
    for path in sorted(product.glob("*.tif")):
        _repeat(path, size)
    run = json.loads((product / "run.json").read_text())
    run["scene"] = str(folder / "large" / "scene.json")
    (product / "run.json").write_text(json.dumps(run))
    return product


def _repeat(path: Path, size: int) -> None:
    """Replace a layer by itself, side by side until it has that size."""
    small = path.with_suffix(".small.tif")
    shutil.move(path, small)
    with rasterio.open(small) as file:
        nearest = file.dtypes[0] == "uint8" or file.count == 1
        layer = Layer(path.stem, file.descriptions, file.dtypes[0], file.nodata, file.scales[0],
                      "nearest" if nearest else "average")  # fmt: skip
        kind = {"uint8": "Byte", "uint16": "UInt16"}[file.dtypes[0]]
        items = "".join(f"<MDI key={json.dumps(k)}>{escape(v)}</MDI>" for k, v in file.tags().items())
        a, b, c, d, e, f = tuple(file.transform)[:6]
        head = f"<SRS>{file.crs.to_string()}</SRS><GeoTransform>{c},{a},{b},{f},{d},{e}</GeoTransform>"
        bands = "".join(_band(file, i, kind, size) for i in range(1, file.count + 1))
    vrt = path.with_suffix(".vrt")
    head = f'<VRTDataset rasterXSize="{size}" rasterYSize="{size}">{head}<Metadata>{items}</Metadata>'
    vrt.write_text(f"{head}{bands}</VRTDataset>")
    with rasterio.Env(**WRITING):
        rasterio.shutil.copy(vrt, path, driver="COG", **cog_options(layer) | {"num_threads": "ALL_CPUS"})
    vrt.unlink()
    small.unlink()


def _band(file, i: int, kind: str, size: int) -> str:
    nodata = "" if file.nodata is None else f"<NoDataValue>{int(file.nodata)}</NoDataValue>"
    source = f'<SourceFilename relativeToVRT="1">{Path(file.name).name}</SourceFilename>'
    source += f"<SourceBand>{i}</SourceBand>"
    parts = []
    for row in range(0, size, PATCH):
        for col in range(0, size, PATCH):
            w, h = min(PATCH, size - col), min(PATCH, size - row)
            parts.append(
                f'<SimpleSource>{source}<SrcRect xOff="0" yOff="0" xSize="{w}" ySize="{h}"/>'
                f'<DstRect xOff="{col}" yOff="{row}" xSize="{w}" ySize="{h}"/></SimpleSource>'
            )
    return (
        f'<VRTRasterBand dataType="{kind}" band="{i}"><Description>{escape(file.descriptions[i - 1] or "")}'
        f"</Description>{nodata}<Offset>0</Offset><Scale>{file.scales[i - 1]!r}</Scale>{''.join(parts)}"
        "</VRTRasterBand>"
    )


class Client:
    """One connection of a browser, which stays open."""

    def __init__(self, address: str) -> None:
        parts = urlsplit(address)
        self.base, self.http = parts.path, http.client.HTTPConnection(parts.hostname, parts.port, timeout=60)

    def get(self, path: str) -> tuple[float, bytes]:
        """Seconds and content of an answer."""
        start = time.perf_counter()
        self.http.request("GET", self.base + path)
        answer = self.http.getresponse()
        body = answer.read()
        if answer.status != 200:
            raise SystemExit(f"{path}: status {answer.status}, {body[:200]!r}")
        return time.perf_counter() - start, body


def watch(product: Path, clicked: int) -> list[list]:
    """Numbers of one session: first picture, tiles over all layers and levels, clicks, an area, memory."""
    start = time.perf_counter()
    command = [sys.executable, "-m", "uncover.cli", "view", str(product), "--no-browser"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        client = Client(server.stdout.readline().strip())
        page = client.get("")[1].decode()
        for name in ("ol.js", "view.js", "tiles.js", "story.js", "page.css"):
            client.get(name)
        about = json.loads(re.search(r'id="data">(.*?)</script>', page, re.DOTALL)[1])["maps"][0]
        base = f"data/0/{about['version']}"
        z = max(0, about["levels"] - 2)  # as it fits a window of 800 rows
        for path in _level(base, about, "class", z):
            client.get(path)
        first = time.perf_counter() - start
        tiles = _tiles(client, base, about)
        rng = np.random.default_rng(1)
        places = rng.integers(0, about["size"][0], (clicked, 2))
        clicks, stories = [], []
        for row, col in places:
            (numbers, story), (spectrum, _) = (
                client.get(f"{base}/{part}/{row}-{col}") for part in ("story", "measured")
            )
            clicks.append(numbers + spectrum)
            stories.append(json.loads(story)["numbers"])
        _compare(product, places, stories)
        side = about["size"][0]
        corners = [(0.1, 0.1), (0.1, 0.9), (0.9, 0.9), (0.9, 0.1)]
        outline = ";".join(f"{side * row},{side * col}" for row, col in corners)
        area = client.get(f"{base}/areas?outline={outline}")[0]
        status = Path(f"/proc/{server.pid}/status").read_text()
        memory = float(re.search(r"VmHWM:\s+(\d+)", status)[1]) / 1024
    finally:
        server.terminate()
        server.wait()
    found = {"first picture": [first], "tile": tiles, "click": clicks, "area": [area], "memory": [memory]}
    return [
        [name, len(v), float(np.median(v)), float(np.percentile(v, 95)), float(np.max(v)), GOALS[name]]
        for name, v in found.items()
    ]


def _compare(product: Path, places: np.ndarray, told: list[dict]) -> None:
    """Stop where a number that a click told is not that of the files."""
    for name in ("class", "probability", "uncertainty", "quality"):
        with rasterio.open(product / f"{name}.tif") as file:
            keys = file.descriptions if name == "uncertainty" else [name]
            keys = [f"p{i}" for i in file.indexes] if name == "probability" else keys
            for (row, col), numbers in zip(places, told, strict=True):
                stored = file.read(window=((row, row + 1), (col, col + 1)))[:, 0, 0].tolist()
                if [numbers[key] for key in keys] != stored:
                    raise SystemExit(f"row {row}, column {col}: {numbers}, but {stored} in {name}.tif")


def _level(base: str, about: dict, layer: str, z: int) -> list[str]:
    side = math.ceil(about["size"][0] / 2**z)
    n = math.ceil(side / 512)
    return [f"{base}/{layer}/{z}/{row}-{col}" for row in range(n) for col in range(n)]


def _tiles(client: Client, base: str, about: dict) -> list[float]:
    """Seconds of tiles as a person pans and zooms: neighbours of one layer, by several connections."""
    rng = random.Random(0)
    wanted = []
    while len(wanted) < TILES:
        layer, z = rng.choice(about["layers"])["name"], rng.randrange(about["levels"])
        wanted += rng.sample(found := _level(base, about, layer, z), min(4, len(found)))
    address = f"http://{client.http.host}:{client.http.port}{client.base}"
    clients = [Client(address) for _ in range(CONNECTIONS)]
    with ThreadPoolExecutor(CONNECTIONS) as pool:
        parts = pool.map(
            lambda i: [clients[i].get(path)[0] for path in wanted[i::CONNECTIONS]], range(CONNECTIONS)
        )
        return [seconds for part in parts for seconds in part]


@benchmark("view")
def run(quick=False):
    """Waiting times beside what was asked for, and the peak memory of the server."""
    size = 2048 if quick else 10_980
    with tempfile.TemporaryDirectory() as name:
        rows = watch(make_product(Path(name), size), 60 if quick else CLICKS)
    caption = (
        f"uncover view of a map of {size} x {size} pixels, {WORLDS} worlds: seconds from the command to the "
        f"first picture, of tiles of all layers and levels ({CONNECTIONS} connections at a time), of "
        "clicks (all numbers are those of the files, bit by bit), of the classes in a rectangle of 64 % of "
        "the map, and peak resident megabytes of the server"
    )
    columns = {
        "of": "s",
        "number": "d",
        "median": ".3f",
        "95th percentile": ".3f",
        "largest": ".3f",
        "goal": ".1f",
    }
    return [Table("view", caption, columns, rows)]
