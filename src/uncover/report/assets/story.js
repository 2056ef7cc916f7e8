// The stories of single pixels: what was measured, what it may be, why it is uncertain.
"use strict";

/** An HTML element with attributes and children. */
report.element = (name, attributes = {}, ...children) => {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key === "style") Object.assign(made.style, value);
    else made.setAttribute(key, value);
  }
  made.append(...children);
  return made;
};

/** Stories of the pixels of a lattice, told into a box of the page. */
report.stories = function (map, box) {
  const { unpack } = report;
  const packed = map.stories;
  const rows = unpack(packed.rows);
  const cols = unpack(packed.cols);
  const count = rows.length * cols.length;
  const stored = {};
  for (const key of ["classes", "probability", "uncertainty", "quality", "mean", "away", "deviation", "worlds"]) {
    if (packed[key]) stored[key] = unpack(packed[key]);
  }
  const placeOf = (pixel) => ({
    row: rows[Math.floor(pixel / cols.length)],
    col: cols[pixel % cols.length],
  });
  const nearestLine = (lines, at) =>
    lines.reduce((best, line, i) => (Math.abs(line + 0.5 - at) < Math.abs(lines[best] + 0.5 - at) ? i : best), 0);
  const nearest = (row, col) => nearestLine(rows, row) * cols.length + nearestLine(cols, col);
  const part = (values, pixel, n) => Array.from(values.subarray(pixel * n, (pixel + 1) * n));
  const teller = report.teller(map, box);

  /** The story of a pixel as plain values. */
  function storyOf(pixel) {
    const plane = (values, i) => values[i * count + pixel] / 1e4;
    const story = {
      ...placeOf(pixel),
      k: stored.classes[pixel] - 1,
      quality: stored.quality[pixel],
      probability: map.classes.map((_, k) => plane(stored.probability, k)),
      parts: Object.fromEntries(map.parts.map((name, i) => [name, plane(stored.uncertainty, i)])),
      lost: "The scene was not there when this report was made: no spectrum.",
    };
    if (stored.worlds) {
      story.worldClasses = part(stored.worlds, pixel, stored.worlds.length / count).filter((k) => k > 0);
    }
    if (!stored.mean || !map.model) return story;
    const p = map.model.bands.length;
    const mean = part(stored.mean, pixel, p);
    if (!mean.every(Number.isFinite)) return { ...story, lost: "Nothing complete was measured here." };
    const R = packed.realisations;
    story.lines = [];
    for (let r = 0; R > 1 && r < R; r += 1) {
      story.lines.push(mean.map((value, i) => value + stored.away[(pixel * R + r) * p + i] * packed.unit[i]));
    }
    return { ...story, mean, spread: stored.deviation ? part(stored.deviation, pixel, p) : null };
  }

  return { rows, cols, placeOf, nearest, tell: (pixel) => teller(storyOf(pixel)) };
};

/** A function that tells the story of a pixel, given as plain values, into a box with three chapters. */
report.teller = function (map, box) {
  const { element } = report;
  tell.use = (other) => { map = other; };
  const number = (value, digits = 2) => value.toFixed(digits);

  function tell(story) {
    const { row, col, k } = story;
    const [a, b, c, d, e, f] = map.transform;
    const x = a * (col + 0.5) + b * (row + 0.5) + c;
    const y = d * (col + 0.5) + e * (row + 0.5) + f;
    const digits = Math.abs(a) < 0.1 ? 5 : 0;
    const at = map.crs ? ` (${x.toFixed(digits)}, ${y.toFixed(digits)} in ${map.crs})` : "";
    const flags = Object.entries(map.flags)
      .filter(([bit]) => story.quality & Number(bit))
      .map(([, name]) => name);
    const warned = flags.length ? ` Flags: ${flags.join(", ")}.` : " No flags.";
    const said = k < 0 ? "no class."
      : `${map.classes[k].name}, with probability ${number(story.probability[k], 3)}.`;
    box.querySelector(".where").textContent = `Row ${row}, column ${col}${at}: ${said}${warned}`;
    chapter("spectrum").replaceChildren(...spectrum(story));
    chapter("probability").replaceChildren(...(k < 0 ? ["–"] : probabilities(story)));
    const parts = "total" in story.parts ? budget(story) : ["The map has no layers of uncertainty."];
    chapter("budget").replaceChildren(...(k < 0 ? ["–"] : parts));
  }

  const chapter = (name) => box.querySelector(`[data-chapter="${name}"] .body`);

  function probabilities(story) {
    const order = map.classes.map((_, k) => k).sort((i, j) => story.probability[j] - story.probability[i]);
    const list = element("dl", { class: "bars" });
    for (const k of order) {
      const p = story.probability[k];
      const bar = element("i", { style: { width: `${100 * p}%`, background: map.classes[k].colour } });
      const track = element("div", { class: "track", "aria-hidden": "true" }, bar);
      for (const world of story.worlds ?? []) {
        track.append(element("b", { style: { left: `${100 * world[k]}%` } }));
      }
      list.append(element("dt", {}, map.classes[k].name), track, element("dd", {}, number(p, 3)));
    }
    return [list, ...spread(story, order), ...worldClasses(story)];
  }

  /** The range of the probability over the worlds, of the classes where it is wide enough to be seen. */
  function spread({ worlds }, order) {
    if (!worlds?.length) return [];
    const ranges = order.map((k) => [k, worlds.map((world) => world[k])])
      .map(([k, p]) => [map.classes[k].name, Math.min(...p), Math.max(...p)])
      .filter(([, low, high]) => high - low >= 0.005)
      .map(([name, low, high]) => `${name} ${number(low)} to ${number(high)}`);
    const words = ranges.length ? ranges.join(", ") : "the same to 0.005";
    return [element("p", {}, `Marks: the ${worlds.length} worlds; ${words}.`)];
  }

  function worldClasses({ worldClasses: found }) {
    if (!found?.length) return [];
    const strip = element("div", { class: "worlds", "aria-hidden": "true" });
    for (const k of found) strip.append(element("i", { style: { background: map.classes[k - 1].colour } }));
    const counted = map.classes
      .map((each, k) => [each.name, found.filter((other) => other === k + 1).length])
      .filter(([, times]) => times > 0)
      .sort((one, other) => other[1] - one[1])
      .map(([name, times]) => `${name} in ${times}`);
    return [strip, element("p", {}, `Of ${found.length} worlds: ${counted.join(", ")}. A world is one way in which the measurement may be wrong.`)];
  }

  function budget(story) {
    const part = (name) => story.parts[name];
    const most = Math.log(Math.max(map.classes.length, 2));
    const parts = [["measurement", "#0072B2"], ["model", "#E69F00"], ["overlap", "#009E73"]];
    const bar = element("div", { class: "stack", "aria-hidden": "true" });
    const list = element("dl", { class: "bars" });
    for (const [name, colour] of parts) {
      bar.append(element("i", { style: { width: `${(100 * part(name)) / most}%`, background: colour } }));
      list.append(
        element("dt", {}, name),
        element("div", {}, element("i", { class: "swatch", style: { display: "inline-block", background: colour } })),
        element("dd", {}, `${number(part(name), 3)} nats`),
      );
    }
    list.append(element("dt", {}, "total"), element("div"), element("dd", {}, `${number(part("total"), 3)} nats`));
    const words = `The bar is full at ${number(most)} nats, where all classes are equally probable. ` +
      `Margin ${number(part("margin"))}; typicality ${part("typicality") < 5e-4 ? "below 0.001" : number(part("typicality"), 3)}.` +
      ("unknown" in story.parts ? ` None of the classes: ${number(part("unknown"), 3)}.` : "");
    return [bar, list, element("p", {}, words)];
  }

  // ---------------------------------------------------------------- the spectrum, drawn by hand
  function spectrum({ mean, lines, spread, lost, k }) {
    if (!mean || !map.model) return [element("p", {}, lost)];
    const low = k < 0 ? mean : map.model.mean[k].map((m, i) => m - 2 * map.model.deviation[k][i]);
    const high = k < 0 ? mean : map.model.mean[k].map((m, i) => m + 2 * map.model.deviation[k][i]);
    const every = [...mean, ...lines.flat(), ...low, ...high, ...map.model.mean.flat()];
    const words = spectrumWords(lines.length, spread, k);
    return [plot({ mean, lines, spread, low, high, every, k }), element("p", {}, words)];
  }

  function spectrumWords(R, spread, k) {
    const known = k < 0 ? "" : ` The shade is ${map.classes[k].name} as the model knows it, mean ± 2 s.`;
    const others = " Dashed: means of the classes.";
    if (R > 1) return `Thick: mean; thin: ${R} realisations, one for each world.${known}${others}`;
    return (spread ? "Bars: ± 2 standard uncertainties." : "Thick: the values as they were measured.") + known + others;
  }

  function plot({ mean, lines, spread, low, high, every, k }) {
    const W = 380, H = 230, left = 42, bottom = 34, top = 8, right = 8;
    const smallest = Math.min(0, ...every), largest = Math.max(...every) * 1.04;
    const x = (i) => left + ((i + 0.5) * (W - left - right)) / mean.length;
    const y = (v) => H - bottom - ((v - smallest) * (H - bottom - top)) / (largest - smallest);
    const svg = shape("svg", { viewBox: `0 0 ${W} ${H}`, role: "img", "aria-label": spectrumLabel(mean) });
    for (const tick of ticks(smallest, largest)) {
      svg.append(shape("line", { x1: left, x2: W - right, y1: y(tick), y2: y(tick), class: "rule" }));
      svg.append(shape("text", { x: left - 5, y: y(tick) + 4, "text-anchor": "end" }, String(Number(tick.toPrecision(3)))));
    }
    map.model.bands.forEach((band, i) => {
      const skip = mean.length > 14 && i % 2;
      if (!skip) svg.append(shape("text", { x: x(i), y: H - bottom + 15, "text-anchor": "middle" }, band));
    });
    svg.append(shape("text", { x: W - right, y: H - 3, "text-anchor": "end" }, `${map.model.units} by band`));
    const path = (values) => values.map((v, i) => `${i ? "L" : "M"}${x(i).toFixed(1)} ${y(v).toFixed(1)}`).join("");
    if (k >= 0) {
      const back = high.map((v, i) => `L${x(i).toFixed(1)} ${y(v).toFixed(1)}`).reverse().join("");
      svg.append(shape("path", { d: `${path(low)}${back}Z`, fill: map.classes[k].colour, "fill-opacity": 0.35 }));
    }
    map.model.mean.forEach((values, i) => {
      svg.append(shape("path", { d: path(values), class: "class-mean", stroke: map.classes[i].colour }));
    });
    for (const line of lines) svg.append(shape("path", { d: path(line), class: "world" }));
    svg.append(shape("path", { d: path(mean), class: "measured" }));
    if (spread) {
      mean.forEach((v, i) => svg.append(shape("line", {
        x1: x(i), x2: x(i), y1: y(v - 2 * spread[i]), y2: y(v + 2 * spread[i]), class: "measured",
      })));
    }
    return svg;
  }

  const spectrumLabel = (mean) =>
    `Spectrum: ${map.model.bands.map((band, i) => `${band} ${mean[i].toPrecision(3)}`).join(", ")}`;

  function shape(name, attributes, text) {
    const made = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    if (text !== undefined) made.textContent = text;
    return made;
  }

  function ticks(from, to) {
    const rough = (to - from) / 4;
    const power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].map((m) => m * power).find((m) => m >= rough);
    const found = [];
    for (let v = Math.ceil(from / step) * step; v <= to; v += step) found.push(v);
    return found;
  }

  return tell;
};
