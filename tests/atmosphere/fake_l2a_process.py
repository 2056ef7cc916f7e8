"""A stand-in for Sen2Cor's L2A_Process: the same command line, a SAFE L2A tree, no atmospheric correction.

What it was told is written into the product, so that tests can read it back. Environment variables make it
fail: FAKE_FAIL_AT (a visibility in km) stops it with an error message, FAKE_SILENT makes it write nothing.
"""

import argparse
import math
import os
import re
import sys
from pathlib import Path
from xml.etree import ElementTree


def arguments():
    parser = argparse.ArgumentParser(prog="L2A_Process")
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
    if os.environ.get("FAKE_SILENT"):
        return 0
    if math.isclose(float(os.environ.get("FAKE_FAIL_AT", "nan")), kilometres, abs_tol=0.05):
        print("Progress[%]: 12.34 : L2A_Tables: start import", flush=True)
        print("ERROR: L2A_Tables: no space left for the image database", file=sys.stderr)
        return 1
    write_product(options, mode, kilometres)
    (options.work_dir / "runs.txt").open("a").write("run\n")
    print("Progress[%]: 100.00 : Application terminated successfully.")
    return 0


def write_product(options, mode, kilometres):
    name = re.sub("MSIL1C", "MSIL2A", options.input_dir.name)
    tile = re.search(r"_(T\w{5})_", name).group(1)
    product = options.output_dir / name
    granule = product / "GRANULE" / f"L2A_{tile}_A032448_20210908T043714"
    bands = granule / "IMG_DATA" / f"R{options.resolution}m"
    bands.mkdir(parents=True)
    ac = options.GIP_L2A_AC
    share = ElementTree.parse(ac).findtext("ACL_Prio_1/AC_Min_Ddv_Area") if ac else "default"
    (product / "MTD_MSIL2A.xml").write_text(
        f"<Level-2A_User_Product><mode>{mode}</mode><visibility>{kilometres}</visibility>"
        f"<share>{share}</share></Level-2A_User_Product>"
    )
    (product / "manifest.safe").write_text("<XFDU/>")
    (granule / "MTD_TL.xml").write_text("<Level-2A_Tile_ID/>")
    for band in ("B02", "B03", "B04", "B8A", "B11", "B12"):
        path = bands / f"{tile}_20210908T042701_{band}_{options.resolution}m.jp2"
        path.write_bytes(b"\x00\x00\x00\x0cjP  \r\n\x87\n")  # the signature box of JPEG 2000


if __name__ == "__main__":
    sys.exit(main())
