// What every page has: the theme, and the data that lie in it.
"use strict";

const report = { data: JSON.parse(document.getElementById("data").textContent) };

/** Numbers of an array that `packed` of page.py wrote. */
report.unpack = function ({ type, bytes }) {
  const text = atob(bytes);
  const buffer = Uint8Array.from(text, (letter) => letter.charCodeAt(0)).buffer;
  const kinds = {
    uint8: Uint8Array, int8: Int8Array, uint16: Uint16Array, int16: Int16Array,
    uint32: Uint32Array, int32: Int32Array, float32: Float32Array, float64: Float64Array,
  };
  return new kinds[type](buffer);
};

(function theme() {
  const button = document.getElementById("theme");
  const root = document.documentElement;
  const system = window.matchMedia("(prefers-color-scheme: dark)");
  const isDark = () => (root.dataset.theme ? root.dataset.theme === "dark" : system.matches);
  function show() {
    button.setAttribute("aria-pressed", String(isDark()));
    document.dispatchEvent(new Event("themechange"));
  }
  button.addEventListener("click", () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    show();
  });
  system.addEventListener("change", show);
  show();
})();
