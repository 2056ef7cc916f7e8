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
report.AGREEMENT = [["right", "#0072B2"], ["wrong", "#D55E00"], ["no class on the map", "#999999"]];

/** Numbers of tiles, the least recently used forgotten first. */
report.tileStore = function (most = 96) {
  const kept = new Map();
  const kinds = { uint8: Uint8Array, uint16: Uint16Array, float32: Float32Array };

  async function load(address, dtype) {
    const { data } = report;
    const answer = await fetch(data.static ? `${address}.bin` : address);
    if (!answer.ok) throw new Error((await answer.text()).trim().slice(0, 300) || `status ${answer.status}`);
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

/** Colours of the classes of a map: its own, or those that every eye tells apart. */
report.classColours = (map, style) =>
  map.classes.map((each, k) => (style.palette === "safe" ? report.SAFE[k % report.SAFE.length] : each.colour));

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
    if (layer.kind === "labels") table[255] = packedColour("#ff00ff");
  }
  return table;
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
