"""A stand-in for Sen2Cor's L2A_Process: the same command line, a SAFE L2A tree, a correction of one line.

It obeys what it is told as Sen2Cor does: with VIS_Update_Mode 0 the visibility, else dark vegetation, which
30 % of every scene is, and CAMS where AC_Min_Ddv_Area asks for more. What it was told is written into the
product. The correction subtracts HAZE times the optical depth in AUX_CAMSFO, which GDAL decodes.

Environment variables make it fail: FAKE_FAIL_AT (a visibility in km) or FAKE_FAIL_IN (a folder's name) stops
it with an error message, FAKE_FULL_IN likewise as a full disk would, with half a product, FAKE_SILENT makes
it write nothing. FAKE_VERSION is the version that it states, FAKE_SECONDS how long it takes.
"""

import argparse
import math
import os
import re
import sys
import time
from pathlib import Path
from xml.etree import ElementTree

HAZE = {
    "B02": 0.20, "B03": 0.14, "B04": 0.10, "B05": 0.09, "B06": 0.08,
    "B07": 0.07, "B08": 0.06, "B8A": 0.05, "B11": 0.02, "B12": 0.01,
}  # fmt: skip
METRES = {band: 10 if band in ("B02", "B03", "B04", "B08") else 20 for band in HAZE}
DARK_VEGETATION = 30.0  # per cent of the scene
OFFSET = 1000  # what is added to the numbers, as from baseline 04.00 on


def arguments():
    version = os.environ.get("FAKE_VERSION", "2.11.0")
    parser = argparse.ArgumentParser(
        prog="L2A_Process",
        description=f"Sentinel-2 Level 2A Processor (Sen2Cor). Version: {version}, created: 2022.10.07, "
        "supporting Level-1C product version 14.2 - 14.9.",
    )
    parser.add_argument("input_dir", type=Path)
    parser.add_argument("--resolution", type=int, choices=(10, 20, 60))
    for name in ("--output_dir", "--work_dir", "--GIP_L2A", "--GIP_L2A_AC"):
        parser.add_argument(name, type=Path)
    return parser.parse_args()


def main():
    options = arguments()
    settings = ElementTree.parse(options.GIP_L2A).getroot()
    mode = settings.findtext("Atmospheric_Correction/Flags/VIS_Update_Mode")
    kilometres = float(settings.findtext("Atmospheric_Correction/Calibration/Visibility"))
    print(f"Sentinel-2 Level 2A Processor (Sen2Cor). Version: fake, visibility {kilometres:.2f}")
    world = options.work_dir.parent.name
    time.sleep(float(os.environ.get("FAKE_SECONDS", "0")))
    if os.environ.get("FAKE_SILENT"):
        return 0
    fails = math.isclose(float(os.environ.get("FAKE_FAIL_AT", "nan")), kilometres, abs_tol=0.05)
    if fails or os.environ.get("FAKE_FAIL_IN") == world:
        print("Progress[%]: 12.34 : L2A_Tables: start import", flush=True)
        print("ERROR: L2A_Tables: no space left for the image database", file=sys.stderr)
        return 1
    full = os.environ.get("FAKE_FULL_IN") == world
    write_product(options, mode, kilometres, full)
    if full:
        print("IOError: [Errno 28] No space left on device", file=sys.stderr)
        return 1
    with (options.work_dir.parent / "runs.txt").open("a") as runs:
        runs.write("run\n")
    print("Progress[%]: 100.00 : Application terminated successfully.")
    return 0


def write_product(options, mode, kilometres, full):
    name = re.sub("MSIL1C", "MSIL2A", options.input_dir.name)
    tile = re.search(r"_(T\w{5})_", name).group(1)
    product = options.output_dir / name
    granule = product / "GRANULE" / f"L2A_{tile}_A032448_20210908T043714"
    (product / "GRANULE").mkdir(parents=True)
    ac = options.GIP_L2A_AC
    share = ElementTree.parse(ac).findtext("ACL_Prio_1/AC_Min_Ddv_Area") if ac else "default"
    method = "CAMS" if ac and float(share) > DARK_VEGETATION else "SEN2COR_DDV"
    told = f"<mode>{mode}</mode><visibility>{kilometres}</visibility><share>{share}</share>"
    images = next(options.input_dir.glob("GRANULE/*/IMG_DATA"), None)
    if images is None:
        write_empty(granule, tile, options.resolution)
        metadata = f"<Level-2A_User_Product>{told}{retrieval(method)}</Level-2A_User_Product>"
    else:
        aod = forecast(options.input_dir)
        write_images(images, granule, tile, aod, "B04" if full else None)
        metadata = user_product(options.input_dir, told, method, aod)
    (product / "MTD_MSIL2A.xml").write_text(metadata)
    (product / "manifest.safe").write_text("<XFDU/>")


def retrieval(method, aod=0.1):
    return (
        f"<AOT_RETRIEVAL_METHOD>{method}</AOT_RETRIEVAL_METHOD><GRANULE_MEAN_AOT>{aod:.6f}</GRANULE_MEAN_AOT>"
    )


def forecast(l1c):
    """The mean of the field, by GDAL's decoder."""
    import rasterio

    with rasterio.open(next(l1c.glob("GRANULE/*/AUX_DATA/AUX_CAMSFO"))) as dataset:
        band = next(i for i in dataset.indexes if "var207" in dataset.tags(i)["GRIB_ELEMENT"])
        return float(dataset.read(band).mean())


def user_product(l1c, told, method, aod):
    text = next(l1c.glob("MTD_MSIL1C.xml")).read_text()
    datatake = re.sub(r"_N\d\d\.\d\d$", "_N99.99", re.search(r'datatakeIdentifier="([^"]+)"', text).group(1))
    start = re.search(r"<PRODUCT_START_TIME>(.*?)</PRODUCT_START_TIME>", text).group(1)
    offsets = "".join(f'<BOA_ADD_OFFSET band_id="{i}">{-OFFSET}</BOA_ADD_OFFSET>' for i in range(13))
    return (
        "<Level-2A_User_Product><PROCESSING_LEVEL>Level-2A</PROCESSING_LEVEL>"
        f"<PRODUCT_START_TIME>{start}</PRODUCT_START_TIME>"
        f'<PROCESSING_BASELINE>99.99</PROCESSING_BASELINE><Datatake datatakeIdentifier="{datatake}">'
        "<SPACECRAFT_NAME>Sentinel-2A</SPACECRAFT_NAME></Datatake>"
        f"<BOA_QUANTIFICATION_VALUE>10000</BOA_QUANTIFICATION_VALUE>{offsets}{told}{retrieval(method, aod)}"
        "</Level-2A_User_Product>"
    )


def write_images(images, granule, tile, aod, last):
    """Corrected bands, and a scene classification without a cloud; up to the `last` band on a full disk."""
    import numpy as np
    import rasterio

    granule.mkdir()
    (granule / "MTD_TL.xml").write_text((images.parent / "MTD_TL.xml").read_text())
    for band, metres in METRES.items():
        with rasterio.open(next(images.glob(f"*_{band}.jp2"))) as dataset:
            numbers, profile = dataset.read(1), dataset.profile
        corrected = np.round(numbers - 10000 * HAZE[band] * aod + OFFSET).astype(np.uint16)
        write_band(granule / "IMG_DATA" / f"R{metres}m" / f"{tile}_{band}_{metres}m.jp2", corrected, profile)
        if band == last:
            return
    classes = np.full(corrected.shape, 4, np.uint8)
    write_band(granule / "IMG_DATA" / "R20m" / f"{tile}_SCL_20m.jp2", classes, profile | {"dtype": "uint8"})


def write_band(path, numbers, profile):
    import rasterio

    path.parent.mkdir(parents=True, exist_ok=True)
    with rasterio.open(path, "w", **profile, QUALITY="100", REVERSIBLE="YES") as dataset:
        dataset.write(numbers, 1)


def write_empty(granule, tile, resolution):
    """Files of the right names without pixels, for tests of the driver alone."""
    for band, own in {**METRES, "SCL": 20}.items():
        metres = max(own, resolution)
        path = granule / "IMG_DATA" / f"R{metres}m" / f"{tile}_20210908T042701_{band}_{metres}m.jp2"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"\x00\x00\x00\x0cjP  \r\n\x87\n")  # the signature box of JPEG 2000
    (granule / "MTD_TL.xml").write_text("<Level-2A_Tile_ID/>")


if __name__ == "__main__":
    sys.exit(main())
