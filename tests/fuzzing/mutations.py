"""Changes of files, by what they are: wrong types at any path, numbers at the edges, cuts, repetitions."""

import copy
import json
import re

EDGES = (
    0, -1, 1, 2**31, 2**32, 2**53 + 1, 2**63, -(2**63) - 1, 10**30, 1e308, -1e308, 5e-324, 1e-320, 0.1,
)  # fmt: skip
TEXTS = (
    "",
    " ",
    "\x00",
    "x" * 5000,
    "NaN",
    "Infinity",
    "-inf",
    "1e999",
    "../..",
    "/dev/null",
    "é",
    "%s{0}",
    "\n",
)
NUMBERS = (
    "0",
    "-1",
    "1e999",
    "-1e999",
    "nan",
    "inf",
    "9" * 400,
    "1.5",
    "0x10",
    "",
    "½",
    "2147483648",
    "1e-400",
)


def value(rng):
    """Anything that JSON can say."""
    choice = rng.integers(9)
    if choice < 3:
        return EDGES[rng.integers(len(EDGES))]
    if choice < 5:
        return TEXTS[rng.integers(len(TEXTS))]
    return ([], {}, None, True)[choice - 5] if choice < 9 else [value(rng)]


def paths(document, here=()):
    """Every path of a document."""
    yield here
    if isinstance(document, dict):
        for key, each in document.items():
            yield from paths(each, (*here, key))
    elif isinstance(document, list):
        for i, each in enumerate(document):
            yield from paths(each, (*here, i))


def changed(document, rng):
    """A document with one to three of its values changed, removed, repeated, wrapped or put elsewhere."""
    document = copy.deepcopy(document)
    for _ in range(rng.integers(1, 4)):
        every = [path for path in paths(document) if path]
        if not every:
            return value(rng)
        path = every[rng.integers(len(every))]
        holder = document
        for step in path[:-1]:
            holder = holder[step]
        last, how = path[-1], rng.integers(8)
        if how == 0:
            del holder[last]
        elif how == 1 and isinstance(holder, list):
            holder.extend(copy.deepcopy(holder[last]) for _ in range(rng.integers(1, 50)))
        elif how == 2:
            holder[last] = [holder[last]]
        elif how == 3:
            holder[last] = {"x": holder[last]}
        elif how == 4:
            other = document
            for step in every[rng.integers(len(every))]:
                other = other[step]
            holder[last] = copy.deepcopy(other)
        else:
            holder[last] = value(rng)
    return document


def of_json(content, rng):
    """JSON of a changed document; sometimes with a key twice, nested deeply, or changed as text."""
    how = rng.integers(20)
    if how == 0:
        depth = int(rng.choice([50, 900, 20_000]))
        return b"[" * depth + content + b"]" * depth
    if how == 1:
        return content.replace(b"{", b'{"a": 1, "a": [2], ', 1)
    if how == 2:
        return of_bytes(content, rng)
    if how == 3:
        return of_text(content, rng)
    return json.dumps(changed(json.loads(content), rng)).encode()


def of_lines(content, rng):
    """Several documents, one a line: of one of them."""
    lines = content.splitlines(keepends=True)
    i = rng.integers(len(lines))
    lines[i] = of_json(lines[i], rng) + b"\n"
    return b"".join(lines)


def of_text(content, rng):
    """Text with tokens changed, removed, repeated or exchanged: of TOML, XML, CSV and WKT."""
    text = content.decode("utf-8", "replace")
    for _ in range(rng.integers(1, 4)):
        tokens = re.findall(r"[+-]?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?|\w+|[^\w]", text) or [""]
        i, how = int(rng.integers(len(tokens))), rng.integers(7)
        if how == 0:
            del tokens[i]
        elif how == 1:
            tokens[i] *= int(rng.choice([2, 30, 3000]))
        elif how == 2:
            j = int(rng.integers(len(tokens)))
            tokens[i], tokens[j] = tokens[j], tokens[i]
        elif how == 3:
            tokens[i] = TEXTS[rng.integers(len(TEXTS))]
        elif how == 4:
            tokens[i] = tokens[int(rng.integers(len(tokens)))]
        else:
            digits = [k for k, token in enumerate(tokens) if token[-1:].isdigit()]
            k = digits[rng.integers(len(digits))] if digits else i
            tokens[k] = NUMBERS[rng.integers(len(NUMBERS))]
        text = "".join(tokens)
    if rng.integers(12) == 0:
        return of_bytes(text.encode(), rng)
    return text.encode("utf-8", "replace")


def of_rows(content, rng):
    """A table with cells changed, rows and columns cut or repeated."""
    if rng.integers(4) == 0:
        return of_text(content, rng)
    rows = [line.split(",") for line in content.decode().splitlines()]
    for _ in range(rng.integers(1, 4)):
        row = rows[rng.integers(len(rows))]
        i, how = int(rng.integers(max(len(row), 1))), rng.integers(6)
        if how == 0 and row:
            del row[i]
        elif how == 1:
            row.insert(i, NUMBERS[rng.integers(len(NUMBERS))])
        elif how == 2:
            rows.insert(int(rng.integers(len(rows))), list(row))
        elif row:
            row[i] = str(rng.choice([*NUMBERS, *TEXTS]))
    return "\n".join(",".join(row) for row in rows).encode()


def of_bytes(content, rng):
    """Bytes flipped, cut, repeated, or overwritten by numbers at the edges."""
    data = bytearray(content)
    for _ in range(rng.integers(1, 5)):
        if not data:
            return bytes(data)
        i, how = int(rng.integers(len(data))), rng.integers(6)
        if how == 0:
            del data[i:]
        elif how == 1:
            del data[i : i + int(rng.integers(1, 64))]
        elif how == 2:
            data[i:i] = data[i : i + int(rng.integers(1, 64))]
        elif how == 3:
            data[i] ^= 1 << int(rng.integers(8))
        else:
            size = int(rng.choice([1, 2, 4, 8]))
            edge = int(rng.choice([0, 1, 0x7F, 0xFF])) if size == 1 else 0
            number = (
                edge.to_bytes(1, "big")
                if size == 1
                else bytes(rng.choice([0, 0x7F, 0xFF, 0x80], size).astype("u1"))
            )
            data[i : i + size] = number
    return bytes(data)


def of_header(content, rng):
    """Bytes of the first part of a file, where headers are."""
    part = min(len(content), int(rng.choice([64, 512, 4096])))
    return of_bytes(content[:part], rng) + content[part:]
