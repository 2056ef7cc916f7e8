// Tiles of stored numbers: fetched once, and painted here, so that what is seen is what is stored.
"use strict";

report.SIDE = 512;
report.RAMPS = {
  "dark to bright": report.data.maps[0].ramp,
  cividis: ["#00224e", "#35456c", "#666970", "#948e77", "#c8b866", "#fee838"],
  viridis: ["#440154", "#3b528b", "#21918c", "#5ec962", "#fde725"],
  greys: ["#1a1a1a", "#f7f7f7"],
};
/** Okabe and Ito's colours, then lighter and darker ones: told apart by every eye. */
report.SAFE = ["#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442", "#000000",
  "#7fb8d8", "#f2cf7f", "#7fceb9", "#e5bbd3", "#004a73", "#7a5500", "#00543c", "#8c3d00"];
/** Labels of a class that the map does not have. */
report.LACKING = ["a class that the map does not have", "#ff00ff"];
report.AGREEMENT = [["right", "#0072B2"], ["no class on the map", "#999999"], report.LACKING, ["wrong", "#D55E00"]];

(function scales() { // layers of one meaning have one scale on all maps, so that they can be compared by eye
  const layers = report.data.maps.flatMap((map) => map.layers);
  const meaning = ({ unit, name }) => unit || name;
  const most = {};
  for (const layer of layers) most[meaning(layer)] = Math.max(layer.top, most[meaning(layer)] ?? 0);
  for (const layer of layers) layer.top = most[meaning(layer)];
})();

/** The answer of the server, or an error that says in words why there is none. */
report.get = async function (address) {
  const lost = location.protocol === "file:" ? "browsers read no tiles beside a file; run python -m http.server in its folder"
    : report.data.static ? "the web server does not answer"
    : "the server has stopped; run uncover view again, and open the address that it prints";
  const answer = await fetch(address).catch(() => { throw new Error(lost); });
  if (answer.ok) return answer;
  const plain = answer.headers.get("Content-Type")?.startsWith("text/plain");
  throw new Error((plain && (await answer.text()).trim()) || `${address}: status ${answer.status}`);
};

/** Row and column at a latitude and a longitude, by the polynomials of an export. */
report.pixelOf = function (fitted, latitude, longitude) {
  if (!fitted) throw new Error("This export knows no latitudes and longitudes; give coordinates of the map.");
  const { middle, half, powers } = fitted;
  const u = (latitude - middle[0]) / half[0];
  const v = ((((longitude - middle[1] + 180) % 360) + 360) % 360 - 180) / half[1];
  if (Math.abs(u) > 1.05 || Math.abs(v) > 1.05) return null; // far from the map they say nothing
  const sum = (factors) => factors.reduce((all, c, n) => all + c * u ** powers[n][0] * v ** powers[n][1], 0);
  return { row: sum(fitted.row), col: sum(fitted.col) };
};

/** Latitude and longitude of a row and a column, by the same polynomials, in steps of Newton's method. */
report.degreesOf = function (fitted, row, col) {
  const place = [...fitted.middle];
  for (let n = 0; n < 20; n += 1) {
    const [at, south, east] = [[0, 0], [1e-4, 0], [0, 1e-4]].map((away) =>
      report.pixelOf(fitted, ...place.map((v, i) => v + away[i] * fitted.half[i])));
    if (!at || !south || !east) return null;
    const [a, b] = [row - at.row, col - at.col];
    const [p, q, r, s] = [south.row - at.row, east.row - at.row, south.col - at.col, east.col - at.col];
    const d = p * s - q * r;
    const moves = [(a * s - b * q) / d, (b * p - a * r) / d];
    moves.forEach((move, i) => { place[i] += 1e-4 * move * fitted.half[i]; });
  }
  return place;
};

/** Numbers of tiles, the least recently used forgotten first. */
report.tileStore = function (most = 96) {
  const kept = new Map();
  const kinds = { uint8: Uint8Array, uint16: Uint16Array, float32: Float32Array };

  async function load(address, dtype) {
    const { data } = report;
    const answer = await report.get(data.static ? `${address}.bin` : address);
    const body = data.static ? answer.body.pipeThrough(new DecompressionStream("gzip")) : answer.body;
    return new kinds[dtype](await new Response(body).arrayBuffer());
  }

  /** Numbers of a tile of a layer of a map; z counts from full resolution. */
  return function get(i, layer, z, row, col) {
    const address = `data/${i}/${report.data.maps[i].version}/${layer.name}/${z}/${row}-${col}`;
    const found = kept.get(address) ?? load(address, layer.dtype);
    kept.delete(address);
    kept.set(address, found);
    found.catch(() => kept.delete(address));
    if (kept.size > most) kept.delete(kept.keys().next().value);
    return found;
  };
};

/** Red, green, blue and opacity of "#rrggbb" as one number, as a canvas stores it. */
report.packedColour = function (colour, opacity = 255) {
  const n = parseInt(colour.slice(1), 16);
  return ((opacity << 24) | ((n & 255) << 16) | (n & 0xff00) | (n >> 16)) >>> 0;
};

/** A colour of a ramp, at a share from 0 to 1. */
report.rampColour = function (ramp, share) {
  const place = Math.min(Math.max(share, 0), 1) * (ramp.length - 1);
  const i = Math.min(Math.floor(place), ramp.length - 2);
  const [one, two] = [ramp[i], ramp[i + 1]].map((c) => parseInt(c.slice(1), 16));
  const mix = [16, 8, 0].map((s) => Math.round(((one >> s) & 255) + (place - i) * (((two >> s) & 255) - ((one >> s) & 255))));
  return `#${mix.map((v) => v.toString(16).padStart(2, "0")).join("")}`;
};

report.classNames = [...new Set(report.data.maps.flatMap((map) => map.classes.map(({ name }) => name)))];

/** Colours of the classes of a map: its own, or those that every eye tells apart, the same on all maps. */
report.classColours = ({ classes }, { palette }) => classes.map(({ name, colour }) =>
  (palette === "safe" ? report.SAFE[report.classNames.indexOf(name) % report.SAFE.length] : colour));

/** A table with the colour of every stored number of a layer. */
report.colourTable = function (map, layer, style) {
  const { packedColour, rampColour } = report;
  const table = new Uint32Array(layer.dtype === "uint8" ? 256 : 65536);
  if (layer.kind === "number") {
    const ramp = report.RAMPS[style.ramp];
    const float = layer.dtype === "float32"; // its table goes from 0 to the top of the scale
    const step = float ? layer.top / 65534 : layer.scale;
    for (let n = 0; n < table.length; n += 1) table[n] = packedColour(rampColour(ramp, (n * step) / layer.top));
    if (float || layer.nodata !== null) table[float ? 65535 : layer.nodata] = 0;
  } else if (layer.kind === "flags") {
    for (let n = 0; n < table.length; n += 1) {
      const first = map.flags.find(({ bit, colour }) => n & bit && colour.length === 7);
      if (first) table[n] = packedColour(first.colour);
    }
  } else if (layer.kind === "agreement") {
    report.AGREEMENT.forEach(([, colour], i) => { table[i + 1] = packedColour(colour); });
  } else {
    const colours = report.classColours(map, style);
    map.classes.forEach(({ code, name }, k) => {
      const quiet = style.only && style.only !== name;
      table[layer.kind === "labels" ? k + 1 : code] = packedColour(colours[k], quiet ? 26 : 255);
    });
    if (layer.kind === "labels") table[255] = packedColour(report.LACKING[1]);
  }
  return table;
};

/** Labels one pixel larger on every side, where there are none: seen from afar, single pixels keep their colour. */
report.larger = function (numbers) {
  const { SIDE } = report;
  const out = numbers.slice();
  numbers.forEach((label, at) => {
    if (!label) return;
    const [row, col] = [Math.floor(at / SIDE), at % SIDE];
    for (let y = Math.max(row - 1, 0); y <= Math.min(row + 1, SIDE - 1); y += 1) {
      for (let x = Math.max(col - 1, 0); x <= Math.min(col + 1, SIDE - 1); x += 1) {
        const there = y * SIDE + x;
        if (!numbers[there]) out[there] = Math.max(out[there], label);
      }
    }
  });
  return out;
};

/** A tile as a picture. `faded`: the numbers of the probability that makes the classes opaque. */
report.paint = function (numbers, layer, table, faded = null, scale = 1) {
  const n = report.SIDE * report.SIDE;
  const picture = new ImageData(report.SIDE, report.SIDE);
  const out = new Uint32Array(picture.data.buffer);
  if (layer.kind === "colours") {
    for (let i = 0; i < n; i += 1) {
      if (numbers[i]) out[i] = (255 << 24) | (numbers[i + 2 * n] << 16) | (numbers[i + n] << 8) | numbers[i];
    }
  } else if (layer.dtype === "float32") {
    for (let i = 0; i < n; i += 1) {
      const v = numbers[i];
      out[i] = table[v !== v ? 65535 : Math.min(65534, Math.max(0, Math.round((v / layer.top) * 65534)))];
    }
  } else {
    for (let i = 0; i < n; i += 1) out[i] = table[numbers[i]];
  }
  if (faded) {
    for (let i = 0; i < n; i += 1) {
      const p = Math.min(1, Math.max(0.08, faded[i] * scale));
      picture.data[4 * i + 3] = Math.round(picture.data[4 * i + 3] * p * p); // squared: doubt is seen sooner
    }
  }
  return createImageBitmap(picture);
};
