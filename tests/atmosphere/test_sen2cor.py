"""The Sen2Cor driver against an executable that speaks the same command line."""

import fcntl
import os
import struct
from xml.etree import ElementTree

import numpy as np
import pytest

from safe_trees import shared
from sen2cor_stand_in import AC_GIPP, GIPP, write_program
from uncover.atmosphere import ConstantVisibility, PerturbedCams, Sen2Cor, Sen2CorError
from uncover.atmosphere.grib import aod_fields, decode_ibm, encode_ibm, shift_aod
from uncover.atmosphere.sen2cor import Installation, optical_depth, visibility

NAME = "S2A_MSIL1C_20210908T042701_N0301_R133_T46RER_20210908T070248.SAFE"


def grib_1(values, decimal_scale=3):
    """A GRIB edition 1 message of ECMWF's aerosol optical depth, eight bits a value, simple packing."""
    scaled = np.array(values) * 10**decimal_scale
    reference = scaled.min()
    packed = np.round(scaled - reference).astype(np.uint8).tobytes()
    product = bytearray(28)
    product[0:3], product[3], product[8], product[26:28] = b"\x00\x00\x1c", 210, 207, b"\x00\x03"
    data = (11 + len(packed)).to_bytes(3, "big") + b"\x00\x00\x00" + encode_ibm(reference) + b"\x08" + packed
    total = 8 + len(product) + len(data) + 4
    return b"GRIB" + total.to_bytes(3, "big") + b"\x01" + bytes(product) + data + b"7777"


def grib_2(reference, category=210, number=207, discipline=192):
    """A GRIB edition 2 message with the sections that matter."""
    definition = (34).to_bytes(4, "big") + b"\x04\x00\x00\x00\x00" + bytes([category, number]) + bytes(23)
    packing = (21).to_bytes(4, "big") + b"\x05" + bytes(6) + struct.pack(">f", reference) + bytes(6)
    total = 16 + len(definition) + len(packing) + 4
    head = b"GRIB\x00\x00" + bytes([discipline, 2]) + total.to_bytes(8, "big")
    return head + definition + packing + b"7777"


@pytest.fixture
def setup(tmp_path):
    """An L1C product, the parameter files and the executable."""
    l1c = tmp_path / NAME
    aux = l1c / "GRANULE" / "L1C_T46RER_A032448_20210908T043714" / "AUX_DATA"
    aux.mkdir(parents=True)
    (l1c / "MTD_MSIL1C.xml").write_text("<Level-1C_User_Product/>")
    (aux / "AUX_CAMSFO").write_bytes(grib_1([0.05, 0.1, 0.2]))
    (tmp_path / "L2A_GIPP.xml").write_text(GIPP)
    (tmp_path / "L2A_CAL_AC_GIPP.xml").write_text(AC_GIPP)
    write_program(tmp_path / "L2A_Process")
    return tmp_path, l1c


def driver(folder, mode=None, **settings):
    return Sen2Cor(
        mode or ConstantVisibility(folder / "L2A_GIPP.xml"),
        executable=str(folder / "L2A_Process"),
        **settings,
    )


def told(product):
    root = ElementTree.parse(product / "MTD_MSIL2A.xml").getroot()
    return {element.tag: element.text for element in root}


@pytest.mark.parametrize("altitude", [0.0, 0.35, 0.7, 1.6, 2.5])
@pytest.mark.parametrize("aod", [0.09, 0.2, 0.8])
def test_visibility_and_optical_depth_are_inverse(aod, altitude):
    assert optical_depth(visibility(aod, altitude), altitude) == pytest.approx(aod)


def test_the_smallest_optical_depth_at_sea_level_is_about_008():
    assert optical_depth(120.0) == pytest.approx(0.08, abs=0.002)
    assert optical_depth(120.0, altitude=2.5) < optical_depth(120.0)


def test_one_run_per_optical_depth_with_its_own_parameter_file(setup):
    folder, l1c = setup
    aods = (0.1, 0.2, 0.4)
    result = driver(folder, processes=2).realise(l1c, aods, folder / "out")
    assert [p.name for p in result.products] == [NAME.replace("MSIL1C", "MSIL2A")] * 3
    for product, aod in zip(result.products, aods, strict=True):
        assert told(product)["mode"] == "0"
        assert float(told(product)["visibility"]) == pytest.approx(visibility(aod), abs=1e-3)
        assert len(list(product.glob("GRANULE/*/IMG_DATA/R10m/*_B02_10m.jp2"))) == 1
    np.testing.assert_allclose(result.reached, aods, atol=1e-4)
    assert result.clamped == 0
    assert "a comment of the user" in (folder / "out/realisation-000/L2A_GIPP.xml").read_text()
    assert (folder / "L2A_GIPP.xml").read_text() == GIPP  # the user's own is untouched


def test_what_cannot_be_reached_is_clamped_and_counted(setup):
    folder, l1c = setup
    with pytest.warns(UserWarning, match="2 of 3 optical depths could not be reached by Sen2Cor"):
        result = driver(folder).realise(l1c, (0.0, 0.03, 0.2), folder / "out")
    assert result.clamped == 2
    assert result.reached[0] == pytest.approx(optical_depth(120.0))


def test_a_failed_run_stops_with_the_last_lines_and_resumes(setup, monkeypatch):
    folder, l1c = setup
    aods, out = (0.1, 0.2, 0.4), folder / "out"
    monkeypatch.setenv("FAKE_FAIL_AT", f"{visibility(0.2):.4f}")
    with pytest.raises(Sen2CorError, match="no space left for the image database") as error:
        driver(folder).realise(l1c, aods, out)
    assert "\n" not in str(error.value)
    assert not (out / "realisation-001" / "done.json").exists()
    monkeypatch.delenv("FAKE_FAIL_AT")
    result = driver(folder).realise(l1c, aods, out)
    assert len(result.products) == 3
    runs = [(out / f"realisation-{r:03d}/runs.txt").read_text() for r in range(3)]
    assert runs == ["run\n"] * 3  # the first was not run again


def test_a_finished_run_is_not_repeated_but_another_setting_is_refused(setup):
    folder, l1c = setup
    first = driver(folder).realise(l1c, (0.2,), folder / "out")
    assert driver(folder).realise(l1c, (0.2,), folder / "out") == first
    with pytest.raises(Sen2CorError, match="holds a run with other settings"):
        driver(folder).realise(l1c, (0.3,), folder / "out")


def test_a_run_without_a_product_is_a_failure(setup, monkeypatch):
    folder, l1c = setup
    monkeypatch.setenv("FAKE_SILENT", "1")
    with pytest.raises(Sen2CorError, match="exit code 0, 0 products"):
        driver(folder).realise(l1c, (0.2,), folder / "out")


def test_the_cams_branch_is_forced_and_its_field_shifted(setup):
    folder, l1c = setup
    mode = PerturbedCams(folder / "L2A_GIPP.xml", folder / "L2A_CAL_AC_GIPP.xml", estimate=0.1)
    with pytest.warns(UserWarning, match="1 of 2"):
        result = driver(folder, mode).realise(l1c, (0.16, 0.01), folder / "out")
    assert told(result.products[0])["mode"] == "1"
    assert told(result.products[0])["share"] == "100.0"  # per cent
    assert told(result.products[0])["AOT_RETRIEVAL_METHOD"] == "CAMS"
    prepared = mode.prepare(l1c, 0.16, folder / "again")
    for file in prepared.files:
        file.path.parent.mkdir(parents=True, exist_ok=True)
        file.write()
    (shifted,) = (folder / "again/input").glob("*/GRANULE/*/AUX_DATA/AUX_CAMSFO")
    assert aod_fields(shifted.read_bytes())[0].smallest == pytest.approx(0.05 + 0.06, abs=1e-6)
    assert result.reached == pytest.approx((0.16, 0.05))  # the least value, 0.05, can only go down to 0
    (original,) = l1c.glob("GRANULE/*/AUX_DATA/AUX_CAMSFO")
    assert aod_fields(original.read_bytes())[0].smallest == pytest.approx(0.05)


def test_a_product_by_dark_vegetation_is_refused(setup):
    """A threshold that many scenes pass, such as 1 %, leaves the shifted field aside."""
    folder, l1c = setup
    mode = PerturbedCams(folder / "L2A_GIPP.xml", folder / "L2A_CAL_AC_GIPP.xml", estimate=0.1)
    product = driver(folder, mode).realise(l1c, (0.16,), folder / "out").products[0]
    metadata = product / "MTD_MSIL2A.xml"
    metadata.write_text(metadata.read_text().replace(">CAMS<", ">SEN2COR_DDV<"))
    with pytest.raises(Sen2CorError, match="the optical depth of SEN2COR_DDV in realisation-000, not the"):
        mode.check(product)


def test_a_plan_shows_every_command_and_file_and_writes_nothing(setup):
    folder, l1c = setup
    mode = PerturbedCams(folder / "L2A_GIPP.xml", folder / "L2A_CAL_AC_GIPP.xml", estimate=0.1)
    before = sorted(folder.rglob("*"))
    lines = driver(folder, mode).plan(l1c, (0.16, 0.12), folder / "out")
    assert sorted(folder.rglob("*")) == before
    commands = [line for line in lines if not line.startswith("#")]
    for r, command in enumerate(commands):
        world = folder / "out" / f"realisation-{r:03d}"
        assert command == (
            f"{folder}/L2A_Process {world}/input/{NAME} --work_dir {world}/work --output_dir {world}/output "
            f"--resolution 10 --GIP_L2A {world}/L2A_GIPP.xml --GIP_L2A_AC {world}/L2A_CAL_AC_GIPP.xml"
        )
    text = "\n".join(lines)
    assert "AC_Min_Ddv_Area 100.0" in text
    assert "AUX_CAMSFO shifted by +0.0600" in text
    assert text.count("done.json") == 2


def test_a_run_that_outlives_its_parent_is_not_started_twice(setup):
    folder, l1c = setup
    world = folder / "out" / "realisation-000"
    world.mkdir(parents=True)
    handle = os.open(world, os.O_RDONLY)
    fcntl.flock(handle, fcntl.LOCK_EX)
    with pytest.raises(
        Sen2CorError, match=r"Sen2Cor still runs in .*realisation-000 \(.*process.*\); wait for it"
    ):
        driver(folder).realise(l1c, (0.2,), folder / "out")
    os.close(handle)
    assert len(driver(folder).realise(l1c, (0.2,), folder / "out").products) == 1


def test_an_installation_is_found_by_its_folder(setup, monkeypatch):
    folder, _ = setup
    monkeypatch.delenv("SEN2COR_HOME", raising=False)
    monkeypatch.delenv("SEN2COR_BIN", raising=False)
    monkeypatch.setenv("HOME", str(folder / "home"))
    root = folder / "Sen2Cor-02.11.00-Linux64"
    (root / "bin").mkdir(parents=True)
    (folder / "L2A_Process").rename(root / "bin" / "L2A_Process")
    with pytest.raises(
        Sen2CorError, match=r"Sen2Cor's L2A_GIPP.xml was not found in .*; run L2A_Process once"
    ):
        Installation.find(root)
    cfg = root / "lib/python2.7/site-packages/sen2cor/cfg"
    cfg.mkdir(parents=True)
    for name in ("L2A_GIPP.xml", "L2A_CAL_AC_GIPP.xml"):
        (folder / name).rename(cfg / name)
    found = Installation.find(root)
    assert (found.version, found.gipp, found.ac_gipp) == (
        "2.11.0", cfg / "L2A_GIPP.xml", cfg / "L2A_CAL_AC_GIPP.xml"
    )  # fmt: skip
    own = folder / "home/sen2cor/2.11/cfg"  # where Sen2Cor puts the user's own
    own.mkdir(parents=True)
    (own / "L2A_GIPP.xml").write_text(GIPP)
    assert Installation.find(root / "bin" / "L2A_Process").gipp == own / "L2A_GIPP.xml"


def test_the_cams_branch_needs_a_cams_file(setup):
    folder, l1c = setup
    next(l1c.glob("GRANULE/*/AUX_DATA/AUX_CAMSFO")).unlink()
    mode = PerturbedCams(folder / "L2A_GIPP.xml", folder / "L2A_CAL_AC_GIPP.xml", estimate=0.1)
    with pytest.raises(Sen2CorError, match="has 0 CAMS files"):
        driver(folder, mode).realise(l1c, (0.16,), folder / "out")


@pytest.mark.parametrize("value", [0.0, 1.0, -118.625, 50.0, 0.1, 1e-9, 3.2e7, 0.9999999999])
def test_ibm_floats_come_back(value):
    assert decode_ibm(encode_ibm(value)) == pytest.approx(value, rel=1e-6)


def test_only_the_reference_value_of_the_aod_field_changes():
    other = grib_2(3.0, category=2, number=3, discipline=0)
    content = other + grib_2(0.25) + grib_1([0.05, 0.1])
    changed = shift_aod(content, 0.1)
    assert len(changed) == len(content)
    assert changed[: len(other)] == other
    assert [f.smallest for f in aod_fields(changed)] == pytest.approx([0.35, 0.15])
    assert sum(a != b for a, b in zip(changed, content, strict=True)) <= 8


@pytest.mark.parametrize("folder", ["safe_l2a_real", "s2_metadata"])
@pytest.mark.parametrize("shift", [0.07, -0.01])
def test_the_field_of_a_real_forecast_is_shifted_and_nothing_else(tmp_path, folder, shift):
    """GDAL's own decoder sees the same fields as before, and the optical depth moved by the shift."""
    rasterio = pytest.importorskip("rasterio")
    path = next(shared(folder).glob("*/GRANULE/*/AUX_DATA/AUX_CAMSFO"))
    changed = tmp_path / "AUX_CAMSFO"
    changed.write_bytes(shift_aod(path.read_bytes(), shift))
    assert changed.stat().st_size == path.stat().st_size
    with rasterio.open(path) as before, rasterio.open(changed) as after:
        moved = [i for i in before.indexes if "var207" in before.tags(i)["GRIB_ELEMENT"]]
        assert len(moved) == 1
        assert after.count == before.count
        for i in before.indexes:
            expected = before.read(i) + (shift if i in moved else 0)
            np.testing.assert_allclose(after.read(i), expected, rtol=1e-12, atol=1e-6 if i in moved else 0)


def missing_gipp(folder, l1c):
    Sen2Cor(ConstantVisibility(folder / "none.xml"), executable=str(folder / "L2A_Process")).realise(
        l1c, (0.2,), folder / "out"
    )


def old_gipp(folder, l1c):
    (folder / "L2A_GIPP.xml").write_text("<Level-2A/>")
    driver(folder).realise(l1c, (0.2,), folder / "out")


def given_l2a(folder, l1c):
    (l1c / "MTD_MSIL1C.xml").rename(l1c / "MTD_MSIL2A.xml")
    driver(folder).realise(l1c, (0.2,), folder / "out")


def given_nothing(folder, l1c):
    driver(folder).realise(folder / "empty.SAFE", (0.2,), folder / "out")


def not_installed(folder, l1c):
    Sen2Cor(ConstantVisibility(folder / "L2A_GIPP.xml"), executable="L2A_Process_of_nowhere").realise(
        l1c, (0.2,), folder / "out"
    )


def another_version(folder, l1c):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FAKE_VERSION", "2.8.0")
        driver(folder).realise(l1c, (0.2,), folder / "out")


def not_sen2cor(folder, l1c):
    Sen2Cor(ConstantVisibility(folder / "L2A_GIPP.xml"), executable="true").realise(
        l1c, (0.2,), folder / "out"
    )


@pytest.mark.parametrize(
    ("act", "message"),
    [
        (missing_gipp, "there is no parameter file"),
        (old_gipp, "has no Atmospheric_Correction/Flags/VIS_Update_Mode"),
        (given_l2a, "is an L2A product; Sen2Cor corrects L1C"),
        (given_nothing, "is not an L1C SAFE folder"),
        (not_installed, "was not found in L2A_Process_of_nowhere; install Sen2Cor"),
        (another_version, "is Sen2Cor 2.8.0; the command line and parameter files of 2.10, 2.11, 2.12"),
        (not_sen2cor, "states no version of Sen2Cor"),
    ],
)
def test_bad_input_is_one_clear_line(setup, act, message):
    with pytest.raises((Sen2CorError, ValueError), match=message) as error:
        act(*setup)
    assert "\n" not in str(error.value)
