/* Unpacks what is folded when it is opened, and draws the page's charts: those that are seen first, the others when the
   browser has nothing else to do, again when the colour scheme or their room changes. Opens what is folded for print, but
   for tables of a hundred pages. */
(function () {
  const root = document.documentElement;
  const themes = JSON.parse(document.getElementById("themes").textContent);
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  const charts = Array.from(document.querySelectorAll(".chart"));
  const specs = new Map();
  const drawings = new Map();
  const MARGIN_PX = 80; // about what the axes of a plot take
  const SLACK_PX = 40; // room that a narrowed chart may leave unused
  const MOST_TRIALS = 5; // of margins
  const MANY_MARKS = 1000; // from there on, elements for all marks take longer than the rest
  const PRINTED = "details:not(.bulk):not(.vega-embed details)";
  let turn = 0;
  let waiting = [];

  async function unpacked(script) {
    const letters = atob(script.textContent);
    const bytes = new Uint8Array(letters.length);
    for (let place = 0; place < letters.length; place++) bytes[place] = letters.charCodeAt(place);
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    return new Response(stream).text();
  }

  async function spec(chart) {
    const id = chart.dataset.spec;
    if (!specs.has(id)) {
      const text = await unpacked(document.getElementById(id));
      const { datasets, ...declared } = JSON.parse(text);
      unchecked(declared);
      const rows = new Map(Object.entries(datasets));
      const whole = Object.values(datasets).flat().every((row) => !Object.values(row).includes(null));
      specs.set(id, { declared, rows, whole, renderer: marks(declared, rows) > MANY_MARKS ? "canvas" : "svg" });
    }
    return specs.get(id);
  }

  /** Numbers are numbers already: converting each takes as long as drawing it. */
  function unchecked(part) {
    if (part.data?.name) part.data.format = { parse: null };
    for (const parts of [part.layer, part.concat, part.hconcat, part.vconcat]) parts?.forEach(unchecked);
  }

  /** How many elements a chart would have: a row each, but for lines and areas. */
  function marks(part, rows) {
    const own = part.mark && !["line", "area"].includes(part.mark.type) ? rows.get(part.data?.name)?.length || 0 : 0;
    const parts = [part.layer, part.concat, part.hconcat, part.vconcat].flatMap((list) => list || []);
    return parts.reduce((sum, one) => sum + marks(one, rows), own);
  }

  /** What Vega-Lite compiled, with the rows, which it would copy and compare, and without its search for gaps in them. */
  function filled(compiled, { rows, whole }) {
    for (const one of compiled.data) {
      if (rows.has(one.name)) one.values = rows.get(one.name);
      if (whole) one.transform = one.transform?.filter(({ type, expr }) => type !== "filter" || !expr.startsWith("isValid("));
      if (!one.transform?.length) delete one.transform;
    }
    return compiled;
  }

  /** The width that a chart may have; what is folded and has none yet gets about that of its section. */
  const roomOf = (chart) => Math.floor(chart.clientWidth || chart.closest("section").clientWidth - 60);

  function isCurrent(chart, theme) {
    const drawn = drawings.get(chart);
    if (!drawn || drawn.theme !== theme) return false;
    const room = roomOf(chart);
    return drawn.narrowed ? drawn.room === room : drawn.width <= room;
  }

  async function draw(chart, theme) {
    const known = await spec(chart);
    const { declared, rows } = known;
    const [plots, columns] = [reflow.plotWidth(declared), reflow.columns(declared)];
    // As much as it can need: figures that fit their content would be as narrow as their captions.
    chart.style.width = `${drawings.get(chart)?.natural || plots + 2 * MARGIN_PX * columns}px`;
    let margin = MARGIN_PX;
    let narrowed = plots + margin * columns > roomOf(chart);
    for (let trial = 0; trial < MOST_TRIALS; trial++) {
      const room = roomOf(chart);
      const shown = narrowed ? reflow.fitted(declared, rows, room, margin) : structuredClone(declared);
      const width = await embed(chart, shown, known, theme);
      const drawn = drawings.get(chart);
      Object.assign(drawn, { room, width, narrowed });
      if (!narrowed) {
        drawn.natural = width;
        chart.style.width = `${width}px`;
        narrowed = width > roomOf(chart);
        if (!narrowed) break;
      } else if (width <= room && (trial || width > room - SLACK_PX || reflow.plotWidth(shown) >= plots)) break;
      else margin += (width - room) / reflow.columns(shown);
    }
    chart.dataset.state = "drawn";
  }

  /** Draws into the element; its width then. */
  async function embed(chart, shown, known, theme) {
    const { view, finalize } = await window.vegaEmbed(chart, shown, {
      renderer: known.renderer,
      patch: (compiled) => filled(compiled, known),
      ast: true,
      config: themes[theme],
      actions: { export: true, source: false, compiled: false, editor: false },
      downloadFileName: chart.dataset.name,
      scaleFactor: 2,
      tooltip: { theme: theme === "dark" ? "dark" : "default" },
    });
    const before = drawings.get(chart);
    before?.finalize();
    drawings.set(chart, { theme, finalize, natural: before?.natural });
    const picture = view.container().querySelector("svg.marks, canvas.marks");
    return parseFloat(picture.getAttribute("width")) / (known.renderer === "canvas" ? window.devicePixelRatio : 1);
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
    waiting = charts.filter((chart) => !isCurrent(chart, theme));
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
    // What is not drawn yet is printed as its file: printing does not wait for scripts, but for pictures.
    charts.filter((chart) => !drawings.has(chart)).forEach((chart) => {
      chart.insertAdjacentHTML("beforeend", chart.querySelector("noscript")?.textContent || "");
    });
  });
  window.addEventListener("afterprint", () => {
    opened.forEach((part) => { part.open = false; });
    document.querySelectorAll(".chart > img").forEach((picture) => picture.remove());
  });
  dark.addEventListener("change", drawAll);
  let resized = 0;
  const observer = new ResizeObserver((entries) => {
    const changed = ({ target }) => target.dataset.state === "drawn" && !isCurrent(target, root.dataset.charts);
    if (!entries.some(changed)) return;
    clearTimeout(resized);
    resized = setTimeout(drawAll, 150);
  });
  charts.forEach((chart) => observer.observe(chart));
  drawAll();
})();
