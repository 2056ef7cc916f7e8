"""Letters for pictures that are made without a drawing library: five columns of seven dots each."""

from __future__ import annotations

import unicodedata

import numpy as np
from numpy.typing import NDArray

# One character after the other from the blank on; each pair of digits is a column, its lowest bit at the top.
_COLUMNS = (
    "0000000000 00005F0000 0007000700 147F147F14 242A7F2A12 2313086462 3649552250 0005030000 001C224100 "
    "0041221C00 082A1C2A08 08083E0808 0050300000 0808080808 0060600000 2010080402 3E5149453E 00427F4000 "
    "4261514946 2141454B31 1814127F10 2745454539 3C4A494930 0171090503 3649494936 064949291E 0036360000 "
    "0056360000 0008142241 1414141414 4122140800 0201510906 324979413E 7E1111117E 7F49494936 3E41414122 "
    "7F4141221C 7F49494941 7F09090901 3E41495132 7F0808087F 00417F4100 2040413F01 7F08142241 7F40404040 "
    "7F0204027F 7F0408107F 3E4141413E 7F09090906 3E4151215E 7F09192946 4649494931 01017F0101 3F4040403F "
    "1F2040201F 7F2018207F 6314081463 0304780403 6151494543 007F414100 0204081020 0041417F00 0402010204 "
    "4040404040 0001020400 2054545478 7F48444438 3844444420 384444487F 3854545418 087E090102 081454543C "
    "7F08040478 00447D4000 2040443D00 007F102844 00417F4000 7C04180478 7C08040478 3844444438 7C14141408 "
    "081414187C 7C08040408 4854545420 043F444020 3C4040207C 1C2040201C 3C4030403C 4428102844 0C5050503C "
    "4464544C44 0008364100 00007F0000 0041360800 1008081008"
)
_GLYPHS = [
    np.array([[int(code[i : i + 2], 16) >> row & 1 for i in range(0, 10, 2)] for row in range(7)], np.bool_)
    for code in _COLUMNS.split()
]


def lettering(text: str, size: int = 2) -> NDArray[np.bool_]:
    """Dots of a line of text, (row, col); letters that are not there lose their accents or become '?'.

    >>> print("\\n".join("".join(".#"[int(dot)] for dot in row) for row in lettering("T1", size=1)))
    #####...#...
    ..#....##...
    ..#.....#...
    ..#.....#...
    ..#.....#...
    ..#.....#...
    ..#....###..
    """
    plain = unicodedata.normalize("NFKD", text)
    letters = [c for c in plain if not unicodedata.combining(c)]
    glyphs = [_GLYPHS[ord(c) - 32] if 32 <= ord(c) < 127 else _GLYPHS[ord("?") - 32] for c in letters]
    gap = np.zeros((7, 1), np.bool_)
    line = np.concatenate([part for glyph in glyphs for part in (glyph, gap)] or [gap], axis=1)
    return np.kron(line, np.ones((size, size), np.bool_))
