/* Draws the page's charts one after the other, again when the colour scheme changes; opens what is folded for print, but for tables of a hundred pages. */
"use strict";
(function () {
  const read = (id) => JSON.parse(document.getElementById(id).textContent);
  const themes = read("themes");
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  const charts = Array.from(document.querySelectorAll(".chart"));
  const views = new Map();
  let turn = 0;

  async function draw(chart, theme) {
    const options = {
      renderer: "svg",
      ast: true,
      config: themes[theme],
      actions: { export: true, source: false, compiled: false, editor: false },
      downloadFileName: chart.dataset.name,
      scaleFactor: 2,
      tooltip: { theme: theme === "dark" ? "dark" : "default" },
    };
    const previous = views.get(chart);
    const drawn = await window.vegaEmbed(chart, read(chart.dataset.spec), options);
    if (previous) previous.finalize();
    views.set(chart, drawn);
    chart.dataset.state = "drawn";
  }

  async function drawAll() {
    const mine = ++turn;
    const theme = dark.matches ? "dark" : "light";
    document.documentElement.dataset.charts = theme;
    document.documentElement.dataset.state = "drawing";
    for (const chart of charts) {
      if (mine !== turn) return;
      try {
        await draw(chart, theme);
      } catch (error) {
        chart.dataset.state = "failed";
        chart.textContent = "This chart could not be drawn: " + error.message;
        console.error(error);
      }
    }
    document.documentElement.dataset.state = "drawn";
  }

  let opened = [];
  window.addEventListener("beforeprint", () => {
    opened = Array.from(document.querySelectorAll("main details:not([open]):not(.bulk)"));
    opened.forEach((part) => { part.open = true; });
  });
  window.addEventListener("afterprint", () => opened.forEach((part) => { part.open = false; }));
  dark.addEventListener("change", drawAll);
  drawAll();
})();
