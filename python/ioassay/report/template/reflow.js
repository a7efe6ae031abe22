/* Declarations of charts for less room than they ask for: panels come below each other, plots get narrower, titles,
   labels and legends break into more lines. Text keeps its size. Where a plot would be too narrow to be read, the chart
   stays wider than its room, and its figure scrolls. Declarations name their rows, which are apart. */
"use strict";
const reflow = (function () {
  const LEAST_PX = 150; // of a plot
  const MOST_GROWTH = 1.5; // of a small panel that has a row to itself
  const PANEL_SHARE = 0.55; // of its width a panel keeps before it goes below its neighbour
  const MENU_PX = 24; // of a figure's menu, at the right of its title
  const NARROW_PX = 480; // less room than that has legends below each other
  const FONT = JSON.parse(document.getElementById("themes").textContent).light.font;
  const LINE_PX = 13;
  const SLANTED_PX = 20; // a step in which slanted labels do not touch
  const LONGEST_LABEL_PX = 130;
  const LEGENDS = ["color", "fill", "stroke", "shape", "strokeDash", "size", "opacity"];
  let table = new Map(); // name -> rows of the declaration at hand
  const ruler = document.createElement("canvas").getContext("2d");

  function widthOf(text, size = "13px") {
    ruler.font = `${size} ${FONT}`;
    return ruler.measureText(text).width;
  }

  /** A text or its lines in lines of at most so many pixels; lines that fit stay as they are. */
  function broken(text, room, size) {
    const given = [text].flat();
    if (given.every((line) => widthOf(line, size) <= room)) return given;
    const lines = [""];
    for (const word of given.join(" ").split(" ")) {
      const longer = lines.at(-1) ? `${lines.at(-1)} ${word}` : word;
      if (lines.at(-1) && widthOf(longer, size) > room) lines.push(word);
      else lines[lines.length - 1] = longer;
    }
    return lines;
  }

  const panelsOf = (part) => part.hconcat || part.concat;

  /** About the width of all plots side by side, without their axes. */
  function plotWidth(part) {
    const panels = panelsOf(part);
    if (part.vconcat) return Math.max(...part.vconcat.map(plotWidth));
    if (part.hconcat) return panels.map(plotWidth).reduce((sum, width) => sum + width);
    return panels ? Math.max(...panels.map(plotWidth)) * columns(part) : part.width || 0;
  }

  /** In how many columns the widest row of panels is. */
  function columns(part) {
    const panels = panelsOf(part);
    if (part.vconcat) return Math.max(...part.vconcat.map(columns));
    return panels ? Math.max(...panels.map(columns)) * Math.min(part.columns || panels.length, panels.length) : 1;
  }

  /** The declaration for `room` pixels, of which the axes of one panel take `margin`; `rows` are those it names. */
  function fitted(declared, rows, room, margin) {
    table = rows;
    const chart = structuredClone(declared);
    const narrow = room < NARROW_PX;
    const padding = narrow ? 4 : 12;
    legends(chart, room - 2 * padding - margin);
    place(chart, room - 2 * padding, margin - 2 * padding);
    const legend = narrow ? { titleOrient: "top", titlePadding: 3, labelLimit: room - 40 } : {};
    legend.layout = { top: { anchor: "start", margin: 8, direction: narrow ? "vertical" : "horizontal" } };
    chart.config = { padding, legend, title: { frame: "bounds" } };
    return chart;
  }

  function place(part, room, margin, growth = 1) {
    if (part.title) part.title = title(part.title, room - MENU_PX);
    const rows = part.vconcat;
    if (rows?.every((row) => panelsOf(row) && !row.title)) {
      Object.assign(part, { concat: rows.flatMap(panelsOf), columns: columns(part), spacing: rows[0].spacing });
      delete part.vconcat;
    }
    const panels = panelsOf(part);
    if (part.vconcat) part.vconcat.forEach((row) => place(row, room, margin));
    else if (panels) {
      const gap = part.spacing ?? 20;
      const least = PANEL_SHARE * Math.max(...panels.map(plotWidth)) + margin + gap;
      const before = Math.min(part.columns || panels.length, panels.length);
      const across = Math.max(1, Math.min(before, Math.floor((room + gap) / least)));
      delete part.hconcat;
      part.concat = panels;
      part.columns = across;
      panels.forEach((panel, index) => {
        if (across < before && index % across === 0) channels(panel, "y").forEach(showLabels);
        place(panel, (room - gap * (across - 1)) / across, margin, MOST_GROWTH);
      });
    } else plot(part, room, margin, growth);
  }

  function title(declared, room) {
    const words = typeof declared === "object" && !Array.isArray(declared) ? { ...declared } : { text: declared };
    const size = words.fontSize || 15;
    words.text = broken(words.text, room, `bold ${size}px`);
    if (words.subtitle) words.subtitle = broken(words.subtitle, room, `${words.subtitleFontSize || 13}px`);
    return words;
  }

  /** All views of a plot: itself and its layers, however deep. */
  const layers = (part) => [part, ...(part.layer || []).flatMap(layers)];

  const plots = (part) => (part.vconcat || panelsOf(part))?.flatMap(plots) || [part];

  const channels = (part, ...names) =>
    layers(part).flatMap((layer) => names.map((name) => layer.encoding?.[name]).filter(Boolean));

  const rowsOf = (layer) => layer.data?.values || table.get(layer.data?.name) || [];

  function showLabels(channel) {
    if (channel.axis?.labels === false) delete channel.axis.labels;
  }

  function plot(part, room, margin, growth) {
    const before = part.width || room;
    part.width = Math.round(Math.min(before * growth, Math.max(room - margin, LEAST_PX)));
    const share = part.width / before;
    channels(part, "x").forEach((channel) => labels(part, channel));
    // What stands behind the plot goes with its end.
    for (const channel of channels(part, "x", "x2")) if (channel.value >= before) channel.value += part.width - before;
    for (const layer of layers(part)) {
      const mark = layer.mark;
      if (typeof mark?.xOffset === "number") mark.xOffset *= share;
      if (mark?.type === "text") texts(part, layer, room);
    }
    // What has no rows has no extent, which Vega warns of.
    if (part.layer) part.layer = part.layer.filter((layer) => !layer.data || rowsOf(layer).length);
  }

  /** The labels of an axis of categories in lines that fit between its ticks, or slanted, or upright. */
  function labels(part, channel) {
    if (channel.title) channel.title = broken(channel.title, part.width, "13px");
    const axis = channel.axis;
    if (!axis || axis.labels === false) return;
    if (axis.tickCount) axis.tickCount = Math.min(axis.tickCount, Math.max(Math.floor(part.width / 60), 2));
    if (channel.type !== "nominal") {
      if (axis.labelAngle && axis.values && part.width / axis.values.length < SLANTED_PX) {
        Object.assign(axis, { labelAngle: -90, labelAlign: "right", labelBaseline: "middle" });
      }
      return;
    }
    const known = /^\((\{.*\})\)\[datum\.value\]$/.exec(axis.labelExpr || "");
    const lines = known ? JSON.parse(known[1]) : Object.fromEntries(values(part, channel).map((value) => [value, value]));
    const names = Object.keys(lines);
    const step = part.width / Math.max(names.length, 1);
    const wrapped = Object.fromEntries(names.map((name) => [name, broken(lines[name], step - 6)]));
    const fits = Object.values(wrapped).every((label) => label.every((line) => widthOf(line) <= step - 4));
    const angle = fits ? 0 : step >= SLANTED_PX ? -35 : -90;
    const shown = fits ? wrapped : Object.fromEntries(names.map((name) => [name, [lines[name]].flat().join(" ")]));
    Object.assign(axis, {
      labelAngle: angle,
      labelExpr: `(${JSON.stringify(shown)})[datum.value]`,
      labelOverlap: step < LINE_PX ? "greedy" : false,
      labelLimit: fits ? step : LONGEST_LABEL_PX,
    });
    if (!fits) Object.assign(axis, { labelAlign: "right", labelBaseline: "middle" });
  }

  function values(part, channel) {
    if (Array.isArray(channel.sort)) return channel.sort;
    const every = layers(part).flatMap(rowsOf).map((row) => row[channel.field]);
    return [...new Set(every)].filter((value) => value !== undefined);
  }

  /** As many columns as the entries of a legend have room for; the channels of a field share one legend. */
  function legends(chart, room) {
    const shown = plots(chart).flatMap((part) => channels(part, ...LEGENDS)
      .filter((channel) => channel.field && channel.legend !== null).map((channel) => [part, channel]));
    const entries = new Map();
    for (const [part, channel] of shown) {
      const names = channel.legend?.values || channel.scale?.domain || values(part, channel);
      entries.set(channel.field, [...(entries.get(channel.field) || []), names.map((name) => widthOf(String(name)))]);
    }
    for (const [, channel] of shown) {
      const { gradientLength } = channel.legend || {};
      const most = Math.max(...entries.get(channel.field).map((names) => names.length));
      const widest = Math.max(...entries.get(channel.field).flat());
      const shape = channel.type === "quantitative"
        ? gradientLength && { gradientLength: Math.min(gradientLength, room - 10) }
        : { columns: Math.max(1, Math.min(most, Math.floor(room / (widest + 36)))), labelLimit: room - 36 };
      channel.legend = { ...channel.legend, ...shape };
    }
  }

  /** Sentences break into more lines; what has no room in cells, over bars or behind the plot is left out. */
  function texts(part, layer, room) {
    const { mark, encoding } = layer;
    const field = encoding?.text?.field;
    if (!field || !layer.data) return;
    let found = rowsOf(layer);
    if (mark.style === "whisper") {
      found = found.map((row) => ({ ...row, [field]: broken(row[field], part.width - 20, "13px") }));
      mark.dy = 9 - 9 * Math.max(...found.map((row) => row[field].length));
    }
    const bar = encoding.xOffset && part.width / (values(part, encoding.x).length * values(part, encoding.xOffset).length);
    const behind = encoding.x?.value === "width" && mark.align === "left" ? room / 3 : Infinity;
    const fits = (row) => widthOf(row[field]) + 4 <= ("x_share" in row ? row.x_share * part.width : bar ?? behind);
    layer.data = { values: found.filter(fits) };
  }

  return { columns, fitted, plotWidth };
})();
