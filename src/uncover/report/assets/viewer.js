// Two layers of a map that move together, and the story of the pixel that was chosen.
"use strict";

(function () {
  const { data } = report;
  const root = document.getElementById("viewer");
  if (!root || !data.viewer) return;
  const map = data.viewer;
  const [width, height] = map.size;
  const { element } = report;
  const stories = report.stories(map, root.querySelector(".story"));
  const { rows, cols, placeOf } = stories;

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

  // ---------------------------------------------------------------- the pixel that was chosen
  function choose(pixel) {
    state.pixel = pixel;
    root.dataset.pixel = String(pixel);
    stories.tell(pixel);
    draw();
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
      choose(stories.nearest(at.row, at.col));
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
    choose(map.stories.first);
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
