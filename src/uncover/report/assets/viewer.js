// Two layers of a map that move together, and the story of the pixel that was chosen.
"use strict";

(function () {
  const { data, unpack } = report;
  const root = document.getElementById("viewer");
  if (!root || !data.viewer) return;
  const map = data.viewer;
  const [width, height] = map.size;
  const element = (name, attributes = {}, ...children) => {
    const made = document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) {
      if (key === "style") Object.assign(made.style, value);
      else made.setAttribute(key, value);
    }
    made.append(...children);
    return made;
  };

  // ---------------------------------------------------------------- what is shown: one view for both panes
  const view = { col: width / 2, row: height / 2, zoom: 1 }; // zoom: times that of the whole map
  const state = { mode: "beside", share: 0.5, layer: { left: "class", right: "total" }, pixel: null };
  const panes = {};
  for (const side of ["left", "right"]) {
    const pane = root.querySelector(`.pane[data-side="${side}"]`);
    panes[side] = {
      pane,
      canvas: pane.querySelector("canvas"),
      select: pane.querySelector("select"),
      legend: pane.querySelector(".legend"),
      reading: pane.querySelector(".reading"),
    };
  }
  const images = Object.fromEntries(
    map.layers.map((layer) => [layer.name, document.getElementById(`layer-${layer.name}`)]),
  );
  const described = Object.fromEntries(map.layers.map((layer) => [layer.name, layer]));

  /** Screen pixels per map pixel. */
  const scaleOf = (canvas) =>
    view.zoom * Math.min(canvas.clientWidth / width, canvas.clientHeight / height);

  function toMap(canvas, x, y) {
    const scale = scaleOf(canvas);
    return {
      col: view.col + (x - canvas.clientWidth / 2) / scale,
      row: view.row + (y - canvas.clientHeight / 2) / scale,
    };
  }

  function keepInside() {
    view.zoom = Math.min(Math.max(view.zoom, 1), Math.max(4, Math.max(width, height) / 12));
    const free = 0.5 / view.zoom;
    view.col = Math.min(Math.max(view.col, width * Math.min(free, 0.5)), width * (1 - Math.min(free, 0.5)));
    view.row = Math.min(Math.max(view.row, height * Math.min(free, 0.5)), height * (1 - Math.min(free, 0.5)));
  }

  // ---------------------------------------------------------------- drawing
  function drawLayer(context, canvas, name) {
    const scale = scaleOf(canvas);
    context.imageSmoothingEnabled = name === "scene" && scale < 4;
    const left = canvas.clientWidth / 2 - view.col * scale;
    const top = canvas.clientHeight / 2 - view.row * scale;
    context.drawImage(images[name], left, top, width * scale, height * scale);
  }

  function drawMark(context, canvas) {
    if (state.pixel === null) return;
    const scale = scaleOf(canvas);
    const place = placeOf(state.pixel);
    const x = canvas.clientWidth / 2 + (place.col + 0.5 - view.col) * scale;
    const y = canvas.clientHeight / 2 + (place.row + 0.5 - view.row) * scale;
    const arm = Math.max(7, scale);
    for (const [colour, thick] of [["#000", 4], ["#fff", 2]]) {
      context.strokeStyle = colour;
      context.lineWidth = thick;
      context.beginPath();
      context.arc(x, y, arm, 0, 2 * Math.PI);
      for (const [dx, dy] of [[1, 0], [-1, 0], [0, 1], [0, -1]]) {
        context.moveTo(x + dx * arm, y + dy * arm);
        context.lineTo(x + dx * 2 * arm, y + dy * 2 * arm);
      }
      context.stroke();
    }
  }

  function drawPane(side) {
    const { canvas } = panes[side];
    if (!canvas.clientWidth) return;
    const ratio = window.devicePixelRatio || 1;
    canvas.width = Math.round(canvas.clientWidth * ratio);
    canvas.height = Math.round(canvas.clientHeight * ratio);
    canvas.classList.toggle("near", view.zoom > 1.01);
    const context = canvas.getContext("2d");
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    drawLayer(context, canvas, state.layer[side]);
    if (side === "left" && state.mode !== "beside") {
      context.save();
      if (state.mode === "swipe") {
        const edge = canvas.clientWidth * (1 - state.share);
        context.beginPath();
        context.rect(edge, 0, canvas.clientWidth - edge, canvas.clientHeight);
        context.clip();
        context.clearRect(edge, 0, canvas.clientWidth - edge, canvas.clientHeight);
      } else {
        context.globalAlpha = state.share;
      }
      drawLayer(context, canvas, state.layer.right);
      context.restore();
      if (state.mode === "swipe") {
        const edge = canvas.clientWidth * (1 - state.share);
        context.fillStyle = "#fff";
        context.fillRect(edge - 2, 0, 4, canvas.clientHeight);
        context.fillStyle = "#000";
        context.fillRect(edge - 0.5, 0, 1, canvas.clientHeight);
      }
    }
    drawMark(context, canvas);
  }

  let waiting = false;
  function draw() {
    keepInside();
    root.dataset.view = [view.col, view.row, view.zoom].map((v) => v.toFixed(2)).join(" ");
    if (waiting) return;
    waiting = true;
    requestAnimationFrame(() => {
      waiting = false;
      drawPane("left");
      drawPane("right");
    });
  }

  function showLegend(side) {
    const { legend, reading, canvas, select } = panes[side];
    const layer = described[state.layer[side]];
    select.value = layer.name;
    legend.replaceChildren(
      ...layer.legend.map((entry) => {
        if (entry.length === 2) {
          return element("span", {}, element("i", { class: "swatch", style: { background: entry[1] } }), entry[0]);
        }
        const colours = entry.slice(1, -1);
        const ramp = { background: `linear-gradient(to right, ${colours.join(",")})` };
        return element("span", {}, entry[0], element("i", { class: "ramp", style: ramp }), entry.at(-1));
      }),
    );
    reading.textContent = `${layer.title.replace("… ", "Uncertainty ")}: ${layer.reading}.`;
    canvas.setAttribute("aria-label", images[layer.name].alt);
  }

  // ---------------------------------------------------------------- stories
  const packed = map.stories;
  const rows = unpack(packed.rows);
  const cols = unpack(packed.cols);
  const count = rows.length * cols.length;
  const story = {};
  for (const key of ["classes", "probability", "uncertainty", "quality", "mean", "away", "deviation", "worlds"]) {
    if (packed[key]) story[key] = unpack(packed[key]);
  }
  const placeOf = (pixel) => ({
    row: rows[Math.floor(pixel / cols.length)],
    col: cols[pixel % cols.length],
  });
  const nearest = (lines, at) =>
    lines.reduce((best, line, i) => (Math.abs(line + 0.5 - at) < Math.abs(lines[best] + 0.5 - at) ? i : best), 0);
  const number = (value, digits = 2) => value.toFixed(digits);

  function choose(pixel) {
    state.pixel = pixel;
    root.dataset.pixel = String(pixel);
    tell(pixel);
    draw();
  }

  function tell(pixel) {
    const place = placeOf(pixel);
    const [a, b, c, d, e, f] = map.transform;
    const x = a * (place.col + 0.5) + b * (place.row + 0.5) + c;
    const y = d * (place.col + 0.5) + e * (place.row + 0.5) + f;
    const digits = Math.abs(a) < 0.1 ? 5 : 0;
    const at = map.crs ? ` (${x.toFixed(digits)}, ${y.toFixed(digits)} in ${map.crs})` : "";
    const k = story.classes[pixel] - 1;
    const flags = Object.entries(map.flags)
      .filter(([bit]) => story.quality[pixel] & Number(bit))
      .map(([, name]) => name);
    const warned = flags.length ? ` Flags: ${flags.join(", ")}.` : " No flags.";
    const said = k < 0 ? "no class, nothing complete was measured here."
      : `${map.classes[k].name}, with probability ${number(story.probability[k * count + pixel] / 1e4)}.`;
    root.querySelector(".where").textContent = `Row ${place.row}, column ${place.col}${at}: ${said}${warned}`;
    chapter("spectrum").replaceChildren(...spectrum(pixel, k));
    chapter("probability").replaceChildren(...(k < 0 ? ["–"] : probabilities(pixel)));
    chapter("budget").replaceChildren(...(k < 0 ? ["–"] : budget(pixel)));
  }

  const chapter = (name) => root.querySelector(`[data-chapter="${name}"] .body`);

  function probabilities(pixel) {
    const order = map.classes.map((_, k) => k)
      .sort((i, j) => story.probability[j * count + pixel] - story.probability[i * count + pixel]);
    const list = element("dl", { class: "bars" });
    for (const k of order) {
      const p = story.probability[k * count + pixel] / 1e4;
      const bar = element("i", { style: { width: `${100 * p}%`, background: map.classes[k].colour } });
      list.append(
        element("dt", {}, map.classes[k].name),
        element("div", { class: "track", "aria-hidden": "true" }, bar),
        element("dd", {}, number(p, 3)),
      );
    }
    return [list, ...worlds(pixel)];
  }

  function worlds(pixel) {
    if (!story.worlds) return [];
    const n = packed.realisations;
    const found = Array.from(story.worlds.subarray(pixel * n, (pixel + 1) * n)).filter((k) => k > 0);
    if (!found.length) return [];
    const strip = element("div", { class: "worlds", "aria-hidden": "true" });
    for (const k of found) strip.append(element("i", { style: { background: map.classes[k - 1].colour } }));
    const counted = map.classes
      .map((each, k) => [each.name, found.filter((other) => other === k + 1).length])
      .filter(([, times]) => times > 0)
      .sort((one, other) => other[1] - one[1])
      .map(([name, times]) => `${name} in ${times}`);
    return [strip, element("p", {}, `Of ${found.length} worlds: ${counted.join(", ")}. A world is one way in which the measurement may be wrong.`)];
  }

  function budget(pixel) {
    const part = (name) => story.uncertainty[map.parts.indexOf(name) * count + pixel] / 1e4;
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
      `Margin ${number(part("margin"))}; typicality ${part("typicality") < 5e-4 ? "below 0.001" : number(part("typicality"), 3)}.`;
    return [bar, list, element("p", {}, words)];
  }

  // ---------------------------------------------------------------- the spectrum, drawn by hand
  function spectrum(pixel, k) {
    if (!story.mean || !map.model) {
      return [element("p", {}, "The scene was not there when this report was made: no spectrum.")];
    }
    const p = map.model.bands.length;
    const mean = Array.from(story.mean.subarray(pixel * p, (pixel + 1) * p));
    if (!mean.every(Number.isFinite)) return [element("p", {}, "Nothing complete was measured here.")];
    const R = packed.realisations;
    const lines = [];
    for (let r = 0; R > 1 && r < R; r += 1) {
      lines.push(mean.map((value, i) => value + story.away[(pixel * R + r) * p + i] * packed.unit[i]));
    }
    const spread = story.deviation ? Array.from(story.deviation.subarray(pixel * p, (pixel + 1) * p)) : null;
    const low = k < 0 ? mean : map.model.mean[k].map((m, i) => m - 2 * map.model.deviation[k][i]);
    const high = k < 0 ? mean : map.model.mean[k].map((m, i) => m + 2 * map.model.deviation[k][i]);
    const every = [...mean, ...lines.flat(), ...low, ...high];
    return [plot({ mean, lines, spread, low, high, every, k }), element("p", {}, spectrumWords(R, spread, k))];
  }

  function spectrumWords(R, spread, k) {
    const known = k < 0 ? "" : ` The shade is ${map.classes[k].name} as the model knows it, mean ± 2 s.`;
    if (R > 1) return `Thick: mean; thin: ${R} realisations, one for each world.${known}`;
    return (spread ? "Bars: ± 2 standard uncertainties." : "The values as they were measured.") + known;
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

  // ---------------------------------------------------------------- hands and keys
  function zoomAt(factor, canvas, x, y) {
    const before = toMap(canvas, x, y);
    view.zoom = factor === 0 ? 1 : view.zoom * factor;
    keepInside();
    const after = toMap(canvas, x, y);
    view.col += before.col - after.col;
    view.row += before.row - after.row;
    draw();
  }

  function listen(canvas) {
    const fingers = new Map();
    let moved = 0;
    canvas.addEventListener("pointerdown", (event) => {
      fingers.set(event.pointerId, { x: event.offsetX, y: event.offsetY });
      if (fingers.size === 1) moved = 0;
      canvas.setPointerCapture(event.pointerId);
    });
    canvas.addEventListener("pointermove", (event) => {
      const last = fingers.get(event.pointerId);
      if (!last) return;
      const [dx, dy] = [event.offsetX - last.x, event.offsetY - last.y];
      moved += Math.abs(dx) + Math.abs(dy);
      if (fingers.size === 2) pinch(canvas, fingers, event);
      else {
        view.col -= dx / scaleOf(canvas);
        view.row -= dy / scaleOf(canvas);
      }
      fingers.set(event.pointerId, { x: event.offsetX, y: event.offsetY });
      draw();
    });
    canvas.addEventListener("pointerup", (event) => {
      const alone = fingers.size === 1;
      fingers.delete(event.pointerId);
      if (!alone || moved > 6) return;
      const at = toMap(canvas, event.offsetX, event.offsetY);
      choose(nearest(rows, at.row) * cols.length + nearest(cols, at.col));
    });
    canvas.addEventListener("pointercancel", (event) => fingers.delete(event.pointerId));
    canvas.addEventListener("wheel", (event) => {
      if (!event.ctrlKey && !event.metaKey) return; // else the page scrolls
      event.preventDefault();
      zoomAt(Math.exp(-event.deltaY / 300), canvas, event.offsetX, event.offsetY);
    }, { passive: false });
    canvas.addEventListener("keydown", (event) => onKey(event, canvas));
  }

  function pinch(canvas, fingers, event) {
    const still = [...fingers.entries()].find(([id]) => id !== event.pointerId)[1];
    const last = fingers.get(event.pointerId);
    const before = Math.hypot(last.x - still.x, last.y - still.y);
    const after = Math.hypot(event.offsetX - still.x, event.offsetY - still.y);
    if (before > 0) zoomAt(after / before, canvas, still.x, still.y);
  }

  function onKey(event, canvas) {
    const steps = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
    const middle = [canvas.clientWidth / 2, canvas.clientHeight / 2];
    if (event.key in steps) {
      const [down, across] = steps[event.key];
      if (event.shiftKey) {
        view.row += (down * height) / (8 * view.zoom);
        view.col += (across * width) / (8 * view.zoom);
        draw();
      } else {
        const row = Math.min(Math.max(Math.floor(state.pixel / cols.length) + down, 0), rows.length - 1);
        const col = Math.min(Math.max((state.pixel % cols.length) + across, 0), cols.length - 1);
        choose(row * cols.length + col);
      }
    } else if (event.key === "+" || event.key === "=") zoomAt(1.6, canvas, ...middle);
    else if (event.key === "-") zoomAt(0.625, canvas, ...middle);
    else if (event.key === "0") zoomAt(0, canvas, ...middle);
    else return;
    event.preventDefault();
  }

  function setMode(mode) {
    state.mode = root.dataset.mode = mode;
    for (const button of root.querySelectorAll("button[data-mode]")) {
      button.setAttribute("aria-pressed", String(button.dataset.mode === mode));
    }
    root.querySelector(".slider").hidden = mode === "beside";
    draw();
  }

  // ---------------------------------------------------------------- begin
  for (const hidden of root.querySelectorAll(".controls, .panes, .story")) hidden.hidden = false;
  root.querySelector(".layers").classList.add("quiet");
  for (const [side, { canvas, select }] of Object.entries(panes)) {
    listen(canvas);
    select.addEventListener("change", () => {
      state.layer[side] = select.value;
      showLegend(side);
      draw();
    });
    showLegend(side);
    new ResizeObserver(draw).observe(canvas);
  }
  for (const button of root.querySelectorAll("button[data-mode]")) {
    button.addEventListener("click", () => setMode(button.dataset.mode));
  }
  for (const button of root.querySelectorAll("button[data-zoom]")) {
    const { canvas } = panes.left;
    button.addEventListener("click", () =>
      zoomAt(Number(button.dataset.zoom), canvas, canvas.clientWidth / 2, canvas.clientHeight / 2));
  }
  root.querySelector(".slider input").addEventListener("input", (event) => {
    state.share = event.target.value / 100;
    draw();
  });
  document.addEventListener("themechange", draw);
  Promise.all(Object.values(images).map((image) => image.decode())).then(() => {
    choose(packed.first);
    root.dataset.ready = "yes";
  });
})();

(function labels() {
  const box = document.getElementById("labels-shown");
  if (!box) return;
  box.addEventListener("change", () => {
    document.getElementById("labels-picture").hidden = !box.checked;
  });
})();
