"""Sen2Cor as tests have it: a folder like that of its installer, with the stand-in as its program."""

import sys
from pathlib import Path

GIPP = """<?xml version="1.0" encoding="UTF-8"?>
<Level-2A_Ground_Image_Processing_Parameter>
  <!-- a comment of the user -->
  <Atmospheric_Correction>
    <Flags><VIS_Update_Mode>1</VIS_Update_Mode><WV_Correction>1</WV_Correction></Flags>
    <Calibration><Visibility>40.0</Visibility><Altitude>0.100</Altitude></Calibration>
  </Atmospheric_Correction>
</Level-2A_Ground_Image_Processing_Parameter>
"""
AC_GIPP = """<?xml version="1.0" encoding="UTF-8"?>
<Level-2A_CAL_AC_Ground_Image_Processing_Parameter>
  <ACL_Prio_1><AC_Min_Ddv_Area>2.0</AC_Min_Ddv_Area></ACL_Prio_1>
</Level-2A_CAL_AC_Ground_Image_Processing_Parameter>
"""


def write_program(path):
    """The stand-in as an executable."""
    script = Path(__file__).with_name("fake_l2a_process.py")
    path.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{script}" "$@"\n')
    path.chmod(0o755)


def install(folder):
    """An installation, as its installer leaves it."""
    root = folder / "Sen2Cor-02.11.00-Linux64"
    cfg = root / "lib/python2.7/site-packages/sen2cor/cfg"
    for each in (root / "bin", cfg):
        each.mkdir(parents=True)
    write_program(root / "bin" / "L2A_Process")
    (cfg / "L2A_GIPP.xml").write_text(GIPP)
    (cfg / "L2A_CAL_AC_GIPP.xml").write_text(AC_GIPP)
    return root
