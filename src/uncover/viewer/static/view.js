// The map, its layers and what answers a click; everything that is chosen stands in the address.
"use strict";

(function view() {
  const { data, element } = report;
  const maps = data.maps;
  const first = maps[0];
  const $ = (id) => document.getElementById(id);
  const number = (value, digits = 3) => value.toLocaleString("en", { maximumSignificantDigits: digits });
  const named = (i, words) => (maps.length > 1 ? `${maps[i].name}: ${words}` : words);
  const kept = new URLSearchParams(location.hash.slice(1));
  const standard = {
    left: "0/class", right: "", behind: "", over: "", opacity: "100", ramp: "dark to bright",
    palette: "map", only: "", share: "50", of: "0", pixel: "", at: "",
  };
  const state = { ...standard, ...Object.fromEntries(kept) };

  // ---------------------------------------------------------------- what can be shown
  const choices = new Map();
  for (const [i, map] of maps.entries()) {
    for (const each of map.layers) {
      const layer = { ...each, title: named(i, each.title) };
      const group = named(i, layer.group);
      choices.set(`${i}/${layer.name}`, { i, map, layer, group });
      if (layer.name === "class") {
        const title = named(i, "Class, faint if unsure");
        choices.set(`${i}/faded`, { i, map, layer: { ...layer, title, faded: true }, group });
      }
    }
  }
  const layerOf = (map, name) => map.layers.find((layer) => layer.name === name);

  function fill(select, none, wanted) {
    if (none !== null) select.append(element("option", { value: "" }, none));
    const groups = new Map();
    for (const [key, { layer, group }] of choices) {
      if (!wanted(layer)) continue;
      if (!groups.has(group)) groups.set(group, element("optgroup", { label: group }));
      groups.get(group).append(element("option", { value: key }, layer.title));
    }
    select.append(...groups.values());
  }
  fill($("left"), null, () => true);
  fill($("right"), "nothing", () => true);
  fill($("behind"), "nothing", ({ kind }) => kind === "colours");
  fill($("over"), "nothing", ({ kind }) => kind === "labels" || kind === "agreement");
  for (const name of Object.keys(report.RAMPS)) $("ramp").append(element("option", {}, name));
  $("palette").append(element("option", { value: "map" }, "of the map"),
    element("option", { value: "safe" }, "colour-blind safe"));
  $("class-names").append(...report.classNames.map((name) => element("option", { value: name })));
  document.querySelector(".labels-only").hidden = !$("over").querySelector("optgroup");
  document.title = `${first.title}: uncover view`;
  document.querySelector("h1").textContent = maps.map(({ title, name }) => (maps.length > 1 ? name : title)).join(" and ");
  const facts = maps.map(({ size: [w, h], metres }) =>
    `${w.toLocaleString("en")} × ${h.toLocaleString("en")} pixels${metres ? ` of ${number(metres)} m` : ""}`);
  document.querySelector(".facts").textContent = [[...new Set(facts)].join(" and "), first.crs].filter(Boolean).join(", ");

  // ---------------------------------------------------------------- the map, in pixels of the first map
  /** A place on another map, in its columns and rows. */
  function onMap(i, [x, y]) {
    const [scale, left, top] = maps[i].relation;
    return [(-y - top) / scale, (x - left) / scale];
  }
  /** Row and column of the pixel of a map at a place; null where it does not reach. */
  function pixelAt(i, place) {
    const [row, col] = onMap(i, place).map(Math.floor);
    return row >= 0 && col >= 0 && row < maps[i].size[1] && col < maps[i].size[0] ? [row, col] : null;
  }
  /** The place of a row and a column of a map. */
  function placeOf(i, row, col) {
    const [scale, left, top] = maps[i].relation;
    return [left + scale * col, -(top + scale * row)];
  }
  const centre = (i, row, col) => placeOf(i, row + 0.5, col + 0.5);
  const extent = maps.reduce((all, { size: [w, h] }, i) =>
    ol.extent.extend(all, ol.extent.boundingExtent([placeOf(i, 0, 0), placeOf(i, h, w)])), ol.extent.createEmpty());
  const [wide, high] = [ol.extent.getWidth(extent), ol.extent.getHeight(extent)];
  const around = ol.extent.buffer(extent, Math.max(wide, high) / 4);
  const tileOf = report.tileStore();
  const say = (words) => { document.querySelector(".message").textContent = words; };
  const projection = new ol.proj.Projection({
    code: "PIXELS", units: "pixels", extent,
    metersPerUnit: first.metres ?? undefined, getPointResolution: (resolution) => resolution,
  });

  /** Pixels of the map are smaller than three of the screen: labels of one pixel are drawn larger. */
  const far = () => map.getView().getResolution() > 1 / 3;

  /** A layer of tiles; what it shows is decided when a tile is painted. */
  function stacked(name, slot) {
    const layer = new ol.layer.Tile({ className: `ol-layer ${name}` });
    let shown = null;
    function show() {
      const choice = choices.get(state[slot]);
      layer.setVisible(Boolean(choice));
      if (!choice) { shown = null; return; }
      const larger = choice.layer.group === "Labels" && far();
      const looks = [state[slot], state.ramp, state.palette, state.only, larger].join();
      if (looks === shown) return;
      shown = looks;
      layer.setSource(sourceOf(choice, larger));
    }
    return { layer, show };
  }

  function sourceOf({ i, map, layer }, larger) {
    const [scale, left, top] = map.relation;
    const [w, h] = map.size;
    const table = report.colourTable(map, layer, state);
    const largest = layer.faded ? layerOf(map, "largest") : null;
    const last = map.levels - 1;
    const tileGrid = new ol.tilegrid.TileGrid({
      origin: [left, -top], extent: [left, -top - h * scale, left + w * scale, -top], tileSize: report.SIDE,
      resolutions: Array.from({ length: map.levels }, (_, z) => scale * 2 ** (last - z)),
    });
    async function loader(z, x, y) {
      try {
        const numbers = await tileOf(i, layer, last - z, y, x);
        const faded = largest && await tileOf(i, largest, last - z, y, x);
        return await report.paint(larger ? report.larger(numbers) : numbers, layer, table, faded, largest?.scale);
      } catch (error) {
        say(`A tile could not be read: ${error.message}`);
        throw error;
      }
    }
    return new ol.source.ImageTile({ projection, tileGrid, loader, interpolate: false, transition: 0, wrapX: false });
  }

  const stack = {
    behind: stacked("behind", "behind"), left: stacked("left", "left"),
    right: stacked("right", "right"), over: stacked("over", "over"),
  };
  const drawn = new ol.source.Vector();
  const marked = new ol.source.Vector();
  const line = (colour, thick) => new ol.style.Style({ stroke: new ol.style.Stroke({ color: colour, width: thick }) });
  const twice = [line("#000000", 4), line("#ffffff", 2)]; // seen on every ground
  const outlined = (i, top, left, down, across) => new ol.geom.Polygon([[[0, 0], [0, 1], [1, 1], [1, 0], [0, 0]]
    .map(([y, x]) => placeOf(i, top + y * down, left + x * across))]);
  const frames = new ol.source.Vector({
    features: maps.map(({ size: [w, h] }, i) => new ol.Feature(outlined(i, 0, 0, h, w))),
  });
  const vectors = [[frames, line("#808080", 1)], [drawn, twice], [marked, twice]]
    .map(([source, style]) => new ol.layer.Vector({ source, style }));
  const map = new ol.Map({
    target: "map",
    layers: [...Object.values(stack).map(({ layer }) => layer), ...vectors],
    controls: [
      new ol.control.Zoom({ zoomInTipLabel: "Zoom in", zoomOutTipLabel: "Zoom out" }),
      ...(first.metres ? [new ol.control.ScaleLine({ minWidth: 80 })] : []),
    ],
    view: new ol.View({
      projection, center: ol.extent.getCenter(extent), showFullExtent: true, constrainRotation: true, enableRotation: false,
      minResolution: Math.min(...maps.map(({ relation }) => relation[0])) / 64,
      maxResolution: Math.max(1, (1.5 * Math.max(wide, high)) / 256),
      extent: around,
    }),
  });
  const whole = () => map.getView().fit(extent, { padding: [12, 12, 12, 12] });
  function printed() { // the size on the screen is kept on paper, and scaled: nothing is cut
    if (matchMedia("print").matches || !map.getSize()) return;
    const [w, h] = map.getSize();
    const fit = Math.min(690 / w, 620 / h); // of the pixels of a sheet of A4 or Letter, upright or across
    document.querySelector(".stage").style.cssText = `--width: ${w}px; --height: ${h}px; --fit: ${fit}`;
  }
  map.on("change:size", printed);
  map.getView().on("change:resolution", () => {
    $("map").classList.toggle("far", far());
    for (const { show: each } of Object.values(stack)) each();
  });
  printed();

  // ---------------------------------------------------------------- swipe
  const divider = document.querySelector(".divider");
  const sides = document.querySelector(".sides");
  /** Show a layer between two shares of the width: neither side shines through the other. */
  function clipped({ layer }, ends) {
    layer.on("prerender", ({ context }) => {
      const { width, height } = context.canvas;
      const [from, to] = ends(Number(state.share) / 100).map((share) => share * width);
      context.save();
      context.beginPath();
      context.rect(from, 0, to - from, height);
      context.clip();
    });
    layer.on("postrender", ({ context }) => context.restore());
  }
  clipped(stack.left, (edge) => [0, state.right ? edge : 1]);
  clipped(stack.right, (edge) => [edge, 1]);

  function moveEdge(share) {
    state.share = String(Math.round(Math.min(100, Math.max(0, share))));
    divider.style.left = `${state.share}%`;
    divider.setAttribute("aria-valuenow", state.share);
    map.render();
    remember();
  }
  divider.addEventListener("pointerdown", (event) => {
    divider.setPointerCapture(event.pointerId);
    divider.onpointermove = (move) => {
      const box = $("map").getBoundingClientRect();
      moveEdge((100 * (move.clientX - box.left)) / box.width);
    };
  });
  divider.addEventListener("pointerup", () => { divider.onpointermove = null; });
  divider.addEventListener("keydown", ({ key }) => {
    const step = { ArrowLeft: -2, ArrowRight: 2, PageDown: -10, PageUp: 10 }[key];
    if (step) moveEdge(Number(state.share) + step);
  });

  // ---------------------------------------------------------------- what is chosen
  let writing = null;
  function remember() {
    clearTimeout(writing);
    writing = setTimeout(() => {
      const given = Object.entries(state).filter(([, value]) => value !== "");
      history.replaceState(null, "", `#${new URLSearchParams(given)}`);
    }, 200);
  }

  function show() {
    for (const name of ["left", "right", "behind", "over", "ramp", "palette", "opacity"]) $(name).value = state[name];
    if (document.activeElement !== $("find")) $("find").value = state.only;
    for (const { show: each } of Object.values(stack)) each();
    for (const side of ["left", "right"]) stack[side].layer.setOpacity(Number(state.opacity) / 100);
    divider.hidden = sides.hidden = !state.right;
    const titles = ["left", "right"].map((slot) => choices.get(state[slot])?.layer.title ?? "");
    sides.querySelectorAll("span").forEach((each, i) => { each.textContent = titles[i]; });
    legends();
    moveEdge(Number(state.share));
    if (told) tell(...told); // in the colours that were chosen
  }

  function legends() {
    const slots = [["left", state.right ? "Left" : ""], ["right", "Right"], ["over", "On top"]];
    const made = slots.flatMap(([slot, where]) => {
      const choice = choices.get(state[slot]);
      return choice ? [legend(choice, where)] : [];
    });
    document.querySelector(".legends").replaceChildren(element("h2", {}, "Legend"), ...made);
  }

  function legend({ map: its, layer }, where) {
    const box = element("div", { class: "legend-of" }, element("h3", {}, where ? `${where}: ${layer.title}` : layer.title));
    const swatch = (colour) => element("i", { class: "swatch", style: { background: colour } });
    const plain = ([name, colour]) => element("span", {}, swatch(colour), name);
    const entries = element("div", { class: "legend" });
    if (layer.kind === "number") {
      const ramp = report.RAMPS[state.ramp];
      const bar = element("i", { class: "ramp", style: { background: `linear-gradient(to right, ${ramp.join(",")})` } });
      const end = layer.unit ? `${number(layer.top, 2)} ${layer.unit} or more` : number(layer.top, 2);
      entries.append(element("span", { class: "scale" }, "0", bar, end));
    } else if (layer.kind === "flags") {
      entries.append(...its.flags.filter(({ colour }) => colour.length === 7)
        .map(({ name, colour }) => element("span", {}, swatch(colour), name)));
      const bare = its.flags.filter(({ colour }) => colour.length > 7).map(({ name }) => name);
      entries.append(element("span", {}, `Without a colour: ${bare.join(", ")}.`));
    } else if (layer.kind === "agreement") {
      entries.append(...report.AGREEMENT.map(plain));
    } else if (layer.kind !== "colours") {
      const colours = report.classColours(its, state);
      entries.append(...its.classes.map(({ name }, k) => {
        const pressed = String(state.only === name);
        const button = element("button", { type: "button", "aria-pressed": pressed, title: `Show ${name} alone` }, swatch(colours[k]), name);
        button.addEventListener("click", () => {
          choose({ only: state.only === name ? "" : name });
          [...document.querySelectorAll(".legend button")].find((b) => b.textContent === name)?.focus();
        });
        return button;
      }));
      if (layer.kind === "labels") entries.append(plain(report.LACKING));
    }
    box.append(entries);
    if (layer.reading) box.append(element("p", { class: "help" }, `${layer.reading[0].toUpperCase()}${layer.reading.slice(1)}.`));
    return box;
  }

  function choose(changes) {
    Object.assign(state, changes);
    show();
  }
  for (const name of ["left", "right", "behind", "over", "ramp", "palette"]) {
    $(name).addEventListener("change", (event) => choose({ [name]: event.target.value }));
  }
  $("opacity").addEventListener("input", (event) => choose({ opacity: event.target.value }));
  $("find").addEventListener("input", (event) => {
    const typed = event.target.value.trim().toLowerCase();
    const found = typed && report.classNames.find((name) => name.toLowerCase().startsWith(typed));
    say(typed && !found ? `No class begins with “${typed}”; there are ${report.classNames.join(", ")}.` : "");
    choose({ only: found || "" });
  });

  // ---------------------------------------------------------------- the story of a pixel
  const teller = report.teller(first, document.querySelector(".pixel"));
  let asked = 0;
  let told = null;

  /** Numbers of a pixel from the tiles of some layers: what a static page knows. */
  async function fromTiles(i, row, col, layers) {
    const { SIDE } = report;
    const at = (row % SIDE) * SIDE + (col % SIDE);
    const get = (layer) => tileOf(i, layer, 0, Math.floor(row / SIDE), Math.floor(col / SIDE));
    return Object.fromEntries(await Promise.all(layers.map(async (layer) => [layer.name, (await get(layer))[at]])));
  }

  async function story(i, row, col) {
    if (!data.static) return { ...await ask(`data/${i}/${maps[i].version}/story/${row}-${col}`), reading: true };
    const numbers = await fromTiles(i, row, col, maps[i].layers.filter(({ kind }) => kind !== "colours"));
    return { row, col, numbers, lost: "the scene is not in this export", model: maps[i].model };
  }

  const ask = async (address) => (await report.get(address)).json();

  /** The map whose layer lies under a place of the screen. */
  function under([x]) {
    const right = state.right && x > (map.getSize()[0] * Number(state.share)) / 100;
    return choices.get(right ? state.right : state.left).i;
  }

  /** Choose the pixel at a place: of this map, or of another one where it does not reach. */
  async function pick(wanted, place, move = false) {
    const at = maps.map((_, each) => pixelAt(each, place));
    const i = at[wanted] ? wanted : at.findIndex(Boolean);
    if (i < 0) return;
    const [row, col] = at[i];
    Object.assign(state, { of: String(i), pixel: at[i].join() });
    remember();
    marked.clear();
    marked.addFeature(new ol.Feature(outlined(i, row, col, 1, 1)));
    marked.addFeature(new ol.Feature(new ol.geom.MultiLineString(cross())));
    if (move) map.getView().setCenter(centre(i, row, col));
    const mine = (asked += 1);
    try {
      const [found, ...briefs] = await Promise.all([story(i, row, col), ...maps.map((_, each) => (each === i ? "" : brief(each, at[each])))]);
      if (mine !== asked) return;
      told = [i, found];
      tell(...told);
      const others = briefs.map((words, each) => other(each, words, place)).filter((_, each) => each !== i);
      document.querySelector(".others").replaceChildren(...others);
      if (data.static) return;
      const read = await ask(`data/${i}/${maps[i].version}/measured/${row}-${col}`).catch(({ message }) => ({ lost: message }));
      if (mine !== asked) return;
      told = [i, { ...found, reading: false, ...read }];
      tell(...told);
    } catch (error) { say(error.message); }
  }

  /** What a map says of a pixel, in few words. */
  async function brief(i, pixel) {
    if (!pixel) return "outside";
    const largest = layerOf(maps[i], "largest");
    const numbers = await fromTiles(i, ...pixel, [layerOf(maps[i], "class"), largest]);
    const found = maps[i].classes.find(({ code }) => code === numbers.class);
    return found ? `${found.name}, ${(numbers.largest * largest.scale).toFixed(3)}` : "no class";
  }

  function other(i, words, place) {
    const button = element("button", { type: "button", title: `Tell the story of ${maps[i].name}` }, `${maps[i].name} here: ${words}`);
    button.disabled = !pixelAt(i, place);
    button.addEventListener("click", () => pick(i, place));
    return button;
  }

  /** Four strokes around the chosen pixel, which are seen when it is too small to be. */
  function cross() {
    const i = Number(state.of);
    const [x, y] = centre(i, ...state.pixel.split(",").map(Number));
    const r = map.getView().getResolution();
    const near = Math.max(0.5 * maps[i].relation[0], 6 * r), far = near + 10 * r;
    return [[1, 0], [-1, 0], [0, 1], [0, -1]].map(([dx, dy]) => [[x + dx * near, y + dy * near], [x + dx * far, y + dy * far]]);
  }

  function tell(i, found) {
    const its = maps[i];
    const value = (name) => {
      const layer = layerOf(its, name);
      const stored = found.numbers[name];
      return !layer || stored === null || stored === layer.nodata ? NaN : stored * layer.scale;
    };
    const parts = Object.fromEntries(its.layers.filter(({ group }) => group === "Uncertainty").map(({ name }) => [name, value(name)]));
    const k = its.classes.findIndex(({ code }) => code === found.numbers.class);
    const colours = report.classColours(its, state);
    const box = document.querySelector(".pixel");
    box.hidden = false;
    box.setAttribute("aria-busy", String(Boolean(found.reading)));
    document.querySelector(".hint").hidden = true;
    document.querySelector(".whose").textContent = maps.length > 1 ? `On ${its.name}` : "";
    Object.assign(box.dataset, { map: i, pixel: `${found.row},${found.col}`, numbers: JSON.stringify(found.numbers) });
    teller.use({
      ...its, model: found.model, classes: its.classes.map((each, n) => ({ ...each, colour: colours[n] })),
      flags: Object.fromEntries(its.flags.map(({ bit, name }) => [bit, name])),
    });
    teller({
      row: found.row, col: found.col, k, quality: found.numbers.quality ?? 0, parts,
      probability: its.classes.map((_, n) => value(`p${n + 1}`)), worlds: found.worlds,
      mean: found.measured, lines: found.realised ?? [], spread: found.deviation,
      lost: found.reading ? "Reading the scene …" : `No spectrum: ${found.lost ?? "the scene is not here"}.`,
    });
    const [x, y] = centre(i, found.row, found.col);
    const degrees = first.degrees ? report.degreesOf(first.degrees, -y, x) : found.place && [...found.place].reverse();
    box.dataset.place = degrees ? degrees.map((v) => v.toFixed(6)).join(", ") : "";
  }

  /** Choose a pixel on the map, and bring its story into sight. */
  async function pickOnMap(pixel, place) {
    await pick(under(pixel), place);
    const box = document.querySelector(".pixel");
    const { top, bottom } = box.getBoundingClientRect();
    const panel = document.querySelector(".panel").getBoundingClientRect();
    const above = Math.max(panel.top, narrow.matches ? $("map").getBoundingClientRect().bottom : 0);
    if (top > innerHeight - 150 || bottom < above + 50) box.scrollIntoView({ block: "start" });
  }
  const narrow = matchMedia("(max-width: 56rem)");

  map.on("click", ({ coordinate, pixel }) => {
    if (!drawing) pickOnMap(pixel, coordinate);
  });
  $("map").addEventListener("keydown", (event) => {
    const middle = map.getView().getCenter();
    const arrow = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key];
    if (event.key === "Enter") pickOnMap(map.getPixelFromCoordinate(middle), middle);
    else if (event.key === "0") whole();
    else if (event.key === "Escape") draw(null);
    else if (arrow && event.shiftKey) {
      const i = Number(state.of);
      const [row, col] = state.pixel ? state.pixel.split(",").map(Number) : onMap(i, middle).map(Math.floor);
      pick(i, centre(i, row + arrow[0], col + arrow[1]));
    } else return;
    event.preventDefault();
    event.stopPropagation();
  }, true);

  $("go").addEventListener("submit", async (event) => {
    event.preventDefault();
    const i = Number(state.of);
    try {
      const place = await placeTyped($("place").value, i);
      const found = place && maps.some((_, each) => pixelAt(each, place));
      say(found ? "" : "That is no place on the map.");
      if (!found) return;
      if (map.getView().getResolution() > 0.5) map.getView().setResolution(0.5);
      pick(i, place, true);
    } catch (error) { say(error.message); }
  });

  /** The place that was typed: a row and a column of a map, its coordinates, or latitude and longitude. */
  async function placeTyped(text, i) {
    const numbers = text.match(/-?\d+(\.\d+)?/g)?.map(Number) ?? [];
    if (numbers.length !== 2) return null;
    if (/row|r\s*\d/i.test(text)) {
      if (!numbers.every(Number.isInteger)) throw new Error("Rows and columns are whole numbers, counted from 0.");
      return centre(i, ...numbers);
    }
    const [a, b, c, d, e, f] = first.transform;
    const [x, y] = numbers;
    const row = (a * (y - f) - d * (x - c)) / (a * e - b * d);
    const col = (e * (x - c) - b * (y - f)) / (a * e - b * d);
    if (maps.some((_, each) => pixelAt(each, [col, -row]))) return [col, -row];
    if (!first.crs || Math.abs(x) > 90 || Math.abs(y) > 360) return null;
    const found = data.static ? report.pixelOf(first.degrees, x, y)
      : await ask(`data/0/${first.version}/place/${x.toFixed(9)},${y.toFixed(9)}`);
    return found && [found.col, -found.row];
  }
  const copy = async (text, button) => {
    try {
      await navigator.clipboard.writeText(text);
      say(`Copied: ${text}`);
    } catch { say(text); }
    button.focus();
  };
  $("copy-place").addEventListener("click", ({ target }) => {
    const [row, col] = state.pixel.split(",").map(Number);
    const [a, b, c, d, e, f] = maps[Number(state.of)].transform;
    const [x, y] = [a * (col + 0.5) + b * (row + 0.5) + c, d * (col + 0.5) + e * (row + 0.5) + f];
    const place = document.querySelector(".pixel").dataset.place;
    copy(`${x}, ${y}${place ? ` (latitude, longitude ${place})` : ""}`, target);
  });
  $("copy-link").addEventListener("click", ({ target }) => copy(location.href, target));

  // ---------------------------------------------------------------- areas
  let drawing = null, dragging = null;
  const pan = map.getInteractions().getArray().find((each) => each instanceof ol.interaction.DragPan);
  function draw(kind) {
    for (const each of [drawing, dragging]) if (each) map.removeInteraction(each);
    drawing = dragging = null;
    pan.setActive(kind !== "Rectangle"); // a rectangle may be dragged
    for (const button of document.querySelectorAll("[data-draw]")) {
      button.setAttribute("aria-pressed", String(button.dataset.draw === kind));
    }
    if (!kind) return;
    const box = kind === "Rectangle" ? { type: "Circle", geometryFunction: ol.interaction.Draw.createBox() } : { type: "Polygon" };
    drawing = new ol.interaction.Draw({ source: drawn, ...box });
    drawing.on("drawstart", () => drawn.clear());
    drawing.on("drawend", ({ feature }) => {
      setTimeout(() => draw(null)); // the click that ends it chooses no pixel
      areas(feature.getGeometry().getCoordinates()[0].slice(0, -1));
    });
    map.addInteraction(drawing);
    if (kind === "Rectangle") {
      dragging = new ol.interaction.DragBox();
      dragging.stopDown = () => false; // two clicks draw it too
      dragging.on("boxend", () => {
        const shape = dragging.getGeometry();
        drawing.abortDrawing();
        drawn.clear();
        drawn.addFeature(new ol.Feature(shape));
        setTimeout(() => draw(null));
        areas(shape.getCoordinates()[0].slice(0, -1));
      });
      map.addInteraction(dragging);
    }
    say(kind === "Rectangle" ? "Drag from corner to corner, or click both." : "Click the corners; double-click the last.");
  }

  /** Areas inside an outline on each map that is shown. */
  async function areas(corners) {
    const box = document.querySelector(".areas .result");
    const shown = new Set([state.left, state.right].filter(Boolean).map((key) => choices.get(key).i));
    say("");
    box.textContent = "…";
    try {
      const found = await Promise.all([...shown].map((i) => {
        const outline = corners.map((corner) => onMap(i, corner).map((v) => v.toFixed(3)).join()).join(";");
        return ask(`data/${i}/${maps[i].version}/areas?outline=${encodeURIComponent(outline)}`);
      }));
      box.replaceChildren(...[...shown].flatMap((i, n) => [
        ...(maps.length > 1 ? [element("h3", {}, maps[i].name)] : []),
        ...(found[n].refused ? [element("p", {}, found[n].refused)] : areaParts(found[n])),
      ]));
    } catch (error) { box.textContent = error.message; }
  }

  function areaParts({ unit, step, pixels, area, mapped, classes, budget }) {
    const cell = (text) => element("td", {}, text);
    const rows = [...classes].sort((one, two) => two.counted - one.counted).map((each) =>
      element("tr", {}, element("th", { scope: "row" }, each.name), cell(number(each.counted)), cell(number(each.expected)),
        cell(`${number(each.least, 2)} – ${number(each.most, 2)}`)));
    const head = ["class", `counted, ${unit}`, `expected, ${unit}`, "± s"].map((words) => element("th", { scope: "col" }, words));
    const words = `${pixels.toLocaleString("en")} pixels, ${number(area, 4)} ${unit}` +
      (mapped < area * 0.9995 ? `, of which ${number(mapped, 4)} ${unit} have a class.` : ".") +
      (step > 1 ? ` From the overviews, 1 pixel for ${step} × ${step}.` : "");
    const made = [
      element("p", {}, words),
      element("div", { class: "scroll" }, element("table", {}, element("thead", {}, element("tr", {}, ...head)), element("tbody", {}, ...rows))),
      element("p", { class: "help" }, "s is the standard deviation of the expected area by the probabilities: the first if errors of pixels are independent, the second if they are all of one piece."),
    ];
    if (budget) {
      const mean = ["measurement", "model", "overlap"].map((name) => `${name} ${number(budget[name], 2)}`).join(", ");
      made.push(element("p", {}, `Mean uncertainty ${number(budget.total, 2)} nats: ${mean}.`));
    }
    return made;
  }
  for (const button of document.querySelectorAll("[data-draw]")) {
    button.addEventListener("click", () => draw(button.getAttribute("aria-pressed") === "true" ? null : button.dataset.draw));
  }
  $("in-view").addEventListener("click", () => {
    const [left, bottom, right, top] = map.getView().calculateExtent();
    const corners = [[left, top], [right, top], [right, bottom], [left, bottom]];
    drawn.clear();
    drawn.addFeature(new ol.Feature(new ol.geom.Polygon([[...corners, corners[0]]])));
    areas(corners);
  });
  $("clear").addEventListener("click", () => {
    draw(null);
    drawn.clear();
    document.querySelector(".areas .result").replaceChildren();
  });
  document.querySelector(".areas").hidden = data.static;

  // ---------------------------------------------------------------- labels and the most confident errors
  const errors = { list: [], at: -1 };
  const compared = () => $("label-source").value.split("/").map(Number);
  const counted = (n, words) => `${n.toLocaleString("en")} ${words}`;
  let reading = null;
  const readErrors = () => { reading = countErrors(); return reading; };
  async function countErrors() {
    const source = $("label-source").value;
    const box = document.querySelector(".labels");
    box.querySelector(".counts").textContent = "…";
    try {
      const [i, n] = compared();
      const found = data.static ? maps[i].errors[n] : await ask(`data/${i}/${maps[i].version}/errors/${n}`);
      if (source !== $("label-source").value) return; // another was chosen meanwhile
      Object.assign(errors, { list: found.errors, at: -1 });
      const counts = [counted(found.right, "labelled pixels right"), counted(found.wrong, "wrong"),
        ...(found.unmapped ? [counted(found.unmapped, "where the map has no class")] : []),
        ...(found.unknown ? [counted(found.unknown, `of classes that the map does not have (${found.lacking.join(", ")})`)] : [])];
      box.querySelector(".counts").textContent = `${counts.join(", ")}. ${maps[i].labels[n].remedy}`;
      box.querySelector(".error").textContent = found.errors.length ? "" : "No error to step through.";
    } catch (error) {
      reading = null;
      box.querySelector(".counts").textContent = error.message;
    }
  }

  async function step(by) {
    if (!errors.list.length) await (reading ?? readErrors());
    const n = errors.list.length;
    if (!n) return;
    const [i] = compared();
    errors.at = errors.at < 0 ? (by > 0 ? 0 : n - 1) : (errors.at + by + n) % n;
    const { p, row, col, mapped, label } = errors.list[errors.at];
    const name = (k) => maps[i].classes[k - 1].name;
    document.querySelector(".labels .error").textContent =
      `${errors.at + 1} of ${n}: mapped ${name(mapped)} with probability ${p.toFixed(3)}, labelled ${name(label)}.`;
    const layers = [state.left, state.right].filter(Boolean).map((key) => choices.get(key));
    if (layers.every((each) => each.i !== i)) { // the map that the error is on is the one to see
      const key = `${i}/${layers[0].layer.name}`;
      choose({ left: choices.has(key) ? key : `${i}/class` });
    }
    if (map.getView().getResolution() > 0.25) map.getView().setResolution(0.25);
    pick(i, centre(i, row, col), true);
  }
  for (const [i, { labels }] of maps.entries()) {
    labels.forEach(({ name }, n) => $("label-source").append(element("option", { value: `${i}/${n}` }, named(i, name))));
  }
  if ($("label-source").options.length) {
    document.querySelector(".labels").hidden = false;
    const [i, n] = compared();
    document.querySelector(".labels .counts").textContent = maps[i].labels[n].remedy;
    $("label-source").addEventListener("change", readErrors);
    $("next").addEventListener("click", () => step(1));
    $("previous").addEventListener("click", () => step(-1));
  }

  // ---------------------------------------------------------------- begin
  /** What an address says wrongly is not followed. */
  function sane() {
    const offered = (name) => [...$(name).options].some(({ value }) => value === state[name]);
    for (const name of ["left", "right", "behind", "over", "ramp", "palette"]) if (!offered(name)) state[name] = standard[name];
    for (const name of ["share", "opacity"]) if (!(state[name] >= 0 && state[name] <= 100)) state[name] = standard[name];
    if (!report.classNames.includes(state.only)) state.only = "";
    const there = maps[state.of] && state.pixel.split(",").map(Number);
    if (!there || there.length !== 2 || !pixelAt(Number(state.of), centre(Number(state.of), ...there))) Object.assign(state, { of: "0", pixel: "" });
    const places = ["left", "right", "behind", "over", "of", "pixel"];
    if (places.some((name) => kept.get(name) && kept.get(name) !== state[name])) say("This link names a map, layer or pixel that is not here.");
  }
  sane();
  if (maps.length > 1 && !kept.has("left")) state.right = "1/class";
  show();
  const [x, y, resolution] = state.at.split(",").map(Number);
  if (resolution > 0 && ol.extent.containsXY(around, x, -y)) {
    map.getView().setCenter([x, -y]);
    map.getView().setResolution(resolution);
  } else whole();
  map.on("moveend", () => {
    const [x, y] = map.getView().getCenter();
    state.at = [x, -y, map.getView().getResolution()].map((v) => Number(v.toFixed(4))).join();
    remember();
    if (!state.pixel || !marked.getFeatures().length) return;
    marked.getFeatures()[1].getGeometry().setCoordinates(cross());
  });
  map.once("rendercomplete", () => {
    document.body.dataset.ready = "yes";
    const few = maps.every(({ size: [w, h] }) => w * h <= 2 ** 22); // of larger maps they are counted when asked for
    if ($("label-source").options.length && few) readErrors();
  });
  if (state.pixel) pick(Number(state.of), centre(Number(state.of), ...state.pixel.split(",").map(Number)));
  report.map = map;
})();
