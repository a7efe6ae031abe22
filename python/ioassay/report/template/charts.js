/* Unpacks what is folded when it is opened, and draws the page's charts: those that are seen first, the others when the
   browser has nothing else to do, all again when the colour scheme changes. Opens what is folded for print, but for
   tables of a hundred pages. */
"use strict";
(function () {
  const root = document.documentElement;
  const themes = JSON.parse(document.getElementById("themes").textContent);
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  const charts = Array.from(document.querySelectorAll(".chart"));
  const specs = new Map();
  const views = new Map();
  const MANY_MARKS = 300000; // characters of a declaration: from there on, elements for all marks take a second
  const PRINTED = "details:not(.bulk):not(.vega-embed details)";
  let turn = 0;
  let waiting = [];

  async function unpacked(script) {
    const bytes = Uint8Array.from(atob(script.textContent), (letter) => letter.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    return new Response(stream).text();
  }

  async function spec(chart) {
    const id = chart.dataset.spec;
    if (!specs.has(id)) {
      const text = await unpacked(document.getElementById(id));
      specs.set(id, { chart: JSON.parse(text), renderer: text.length > MANY_MARKS ? "canvas" : "svg" });
    }
    return specs.get(id);
  }

  async function draw(chart, theme) {
    const { chart: declared, renderer } = await spec(chart);
    const options = {
      renderer,
      ast: true,
      config: themes[theme],
      actions: { export: true, source: false, compiled: false, editor: false },
      downloadFileName: chart.dataset.name,
      scaleFactor: 2,
      tooltip: { theme: theme === "dark" ? "dark" : "default" },
    };
    const previous = views.get(chart);
    const drawn = await window.vegaEmbed(chart, structuredClone(declared), options);
    if (previous) previous.finalize();
    views.set(chart, drawn);
    chart.dataset.state = "drawn";
  }

  const isSeen = (chart) => {
    const place = chart.getBoundingClientRect();
    return place.width > 0 && place.bottom > 0 && place.top < window.innerHeight;
  };

  const idle = () => new Promise((resolve) =>
    window.requestIdleCallback ? window.requestIdleCallback(resolve, { timeout: 500 }) : setTimeout(resolve, 0));

  async function drawAll() {
    const mine = ++turn;
    const theme = dark.matches ? "dark" : "light";
    root.dataset.charts = theme;
    root.dataset.state = "drawing";
    waiting = charts.slice();
    while (waiting.length) {
      const seen = waiting.find(isSeen);
      if (!seen && root.dataset.state === "drawing") root.dataset.state = "shown";
      if (!seen) await idle();
      if (mine !== turn) return;
      const chart = seen || waiting[0];
      waiting.splice(waiting.indexOf(chart), 1);
      try {
        await draw(chart, theme);
      } catch (error) {
        chart.dataset.state = "failed";
        chart.textContent = "This chart could not be drawn: " + error.message;
        console.error(error);
      }
      if (mine !== turn) return;
    }
    root.dataset.state = "drawn";
    for (const part of document.querySelectorAll(`main ${PRINTED}`)) {
      await idle(); // printing does not wait for what is unpacked then
      await fill(part);
    }
  }

  async function fill(part) {
    const script = part.querySelector(":scope > .inside > script[type='application/gzip']");
    if (!script) return;
    const content = document.createElement("template");
    try {
      content.innerHTML = await unpacked(script);
    } catch (error) {
      content.innerHTML = "<p>This browser cannot unpack this part. Its numbers are in findings.json.</p>";
      console.error(error);
    }
    script.replaceWith(content.content);
  }

  document.addEventListener("toggle", (event) => {
    if (event.target.open) fill(event.target);
  }, true);

  let opened = [];
  window.addEventListener("beforeprint", () => {
    opened = Array.from(document.querySelectorAll(`main ${PRINTED}:not([open])`));
    opened.forEach((part) => { part.open = true; });
  });
  window.addEventListener("afterprint", () => opened.forEach((part) => { part.open = false; }));
  dark.addEventListener("change", drawAll);
  drawAll();
})();
