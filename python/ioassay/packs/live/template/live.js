// Shows the news of a run as they come, one event a second at most. Draws when something came and at no other time.
"use strict";

const WINDOW_S = 300;
const LEAST_WINDOW_S = 60;
const ANNOUNCE_EVERY_MS = 30000;
const LOST_AFTER_MS = 6000;
const STALE_MS = 3000;
const LOG_FROM_RATIO = 40;
const RATES = ["", " k", " M", " G", " T"];
const BYTES = [" B/s", " kB/s", " MB/s", " GB/s", " TB/s"];
const TIMES = [" ns", " µs", " ms", " s"];
const WORDS = { unneeded: "not needed", kept: "recorded before" };

const element = (id) => document.getElementById(id);
const rows = [];
const studies = new Set();
let points = [];
let latest = null;
let announcedAt = 0;
let lostTimer = 0;
let staleTimer = 0;

function scaled(number, units) {
  let step = 0;
  let size = number;
  while (step < units.length - 1 && size >= 999.5) {
    size /= 1000;
    step += 1;
  }
  return `${size >= 99.95 || Number.isInteger(size) ? Math.round(size) : Number(size.toPrecision(3))}${units[step]}`;
}

function duration(seconds) {
  const whole = Math.round(seconds);
  if (whole < 60) return `${whole} s`;
  const minutes = Math.floor(whole / 60);
  if (minutes >= 60) return `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
  return whole % 60 ? `${minutes} min ${whole % 60} s` : `${minutes} min`;
}

function say(id, text) {
  const place = element(id);
  if (place.textContent !== text) place.textContent = text;
}

function showRow([number, study, point, repetition, state, result, took]) {
  studies.add(study);
  let row = rows[number];
  if (!row) {
    row = rows[number] = document.createElement("tr");
    for (const kind of ["num", "", "", "", "num"]) {
      const cell = document.createElement("td");
      cell.className = kind;
      row.append(cell);
    }
    element("trials").append(row);
  }
  const texts = [number + 1, `${studies.size > 1 ? `${study} ` : ""}${point} #${repetition}`, WORDS[state] || state, result, took];
  texts.forEach((text, index) => { row.cells[index].textContent = text; });
  row.className = state;
  row.cells[2].className = state;
}

function follow(number) {
  const row = rows[number];
  if (!row || !element("follow").checked) return;
  const place = element("scroll");
  place.scrollTop = row.offsetTop - place.clientHeight / 3;
}

function showProgress(news) {
  const done = Object.values(news.counts).reduce((sum, count) => sum + count, 0);
  const bad = ["failed", "skipped"].filter((state) => news.counts[state]).map((state) => `, ${news.counts[state]} ${state}`);
  element("bar").max = Math.max(news.total, 1);
  element("bar").value = done;
  say("counts", news.total ? `${done} of ${news.total} trials${bad.join("")}` : "No trial yet");
  say("left", !news.total ? "" : news.end ? `took ${duration(news.elapsed_s)}` : `about ${duration(news.left_s)} left, ${duration(news.elapsed_s)} so far`);
  const running = news.running && `Running: ${news.running}, ${duration(news.running_s)}`;
  say("now", news.end ? "" : news.note || running || "");
  document.title = `${news.end ? "Ended" : `${done}/${news.total}`} – ${news.title} – ioassay`;
  return done;
}

function showRates(news) {
  clearTimeout(staleTimer);
  const left = STALE_MS - 1000 * news.rates_age_s;
  const fresh = left > 0;
  const source = fresh && (news.tool || news.device);
  const latency = fresh ? news.latency_ns : null;
  const where = news.rates_row === news.running_row ? "" : ", in the trial before";
  const from = source && (source === news.tool ? `as ${source.name} states` : `all requests of ${source.name}`) + where;
  say("iops", source ? scaled(source.iops, RATES) : "–");
  say("bandwidth", source ? scaled(source.bytes_per_s, BYTES) : "–");
  say("iops-source", from || "");
  say("bandwidth-source", from || "");
  say("latency", latency !== null ? scaled(latency, TIMES) : "–");
  say("latency-source", latency !== null ? `mean of ${news.device.name}${where}` : source && !news.device ? "no device is loaded" : "");
  if (fresh) staleTimer = setTimeout(showRates, left, { ...news, rates_age_s: Infinity });
}

function showNames(news) {
  if (news.tool) say("tool-name", news.tool.name);
  if (news.device) {
    say("device-name", news.device.name);
    say("latency-name", news.device.name);
  }
  for (const name of ["tool", "device", "latency"]) {
    element(`${name}-name`).parentElement.hidden = !element(`${name}-name`).textContent;
  }
  if (news.grade) {
    say("grade", news.grade);
    element("grade").className = news.grade;
    say("conditions", news.conditions);
  }
}

function niceCeiling(value) {
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 2.5, 5, 10].map((step) => step * power).find((step) => step >= value * 0.999);
}

// The vertical axis: its marks, and a value's share of the height. Logarithmic where values span decades.
function axis(values) {
  const positive = values.filter((value) => value > 0);
  const high = Math.max(...positive, 0);
  const low = Math.min(...positive);
  if (!positive.length) return { marks: [0], share: () => 0, log: false };
  if (high / low < LOG_FROM_RATIO) {
    const top = niceCeiling(high);
    return { marks: [0, top / 2, top], share: (value) => value / top, log: false };
  }
  const first = Math.floor(Math.log10(low));
  const last = Math.ceil(Math.log10(high));
  const marks = [];
  for (let power = first; power <= last; power += 1) marks.push(10 ** power);
  return { marks, share: (value) => Math.max((Math.log10(value) - first) / (last - first), 0), log: true };
}

function svg(parent, name, attributes, text) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text !== undefined) made.textContent = text;
  parent.append(made);
}

function draw(id, scale, lines, units, now) {
  const chart = element(id);
  const width = chart.clientWidth;
  const height = chart.clientHeight;
  const [left, right, top, bottom] = [52, 10, 10, 20];
  const span = Math.min(Math.max(now, LEAST_WINDOW_S), WINDOW_S);
  const shown = points.filter((point) => point[0] >= now - span);
  const { marks, share, log } = axis(shown.flatMap((point) => lines.map(([column]) => point[column])));
  const x = (time) => left + (1 - (now - time) / span) * (width - left - right);
  const y = (value) => height - bottom - share(value) * (height - top - bottom);
  chart.replaceChildren();
  say(scale, log ? "(log axis)" : "");
  for (const mark of marks) {
    svg(chart, "line", { x1: left, x2: width - right, y1: y(mark), y2: y(mark) });
    svg(chart, "text", { x: left - 6, y: y(mark) + 4, "text-anchor": "end" }, scaled(mark, units));
  }
  for (const [part, anchor] of [[1, "start"], [0.5, "middle"], [0, "end"]]) {
    const end = latest.end ? "end" : "now";
    const label = part ? `${duration(part * span)} ${latest.end ? "before" : "ago"}` : end;
    svg(chart, "text", { x: x(now - part * span), y: height - 5, "text-anchor": anchor }, label);
  }
  for (const [column, kind] of lines) {
    const known = (point) => point !== undefined && point[column] !== null;
    let path = "";
    shown.forEach((point, index) => {
      if (!known(point)) return;
      const [joined, goesOn] = [known(shown[index - 1]), known(shown[index + 1])];
      const [cx, cy] = [x(point[0]).toFixed(1), y(point[column]).toFixed(1)];
      path += `${joined ? "L" : "M"}${cx} ${cy}`;
      const isLatest = index === shown.length - 1;
      if (isLatest || (!joined && !goesOn)) svg(chart, "circle", { class: kind, cx, cy, r: isLatest ? 3.5 : 2 });
    });
    svg(chart, "path", { class: kind, d: path });
  }
}

function drawCharts() {
  if (!latest) return;
  draw("iops-chart", "iops-scale", [[2, "device"], [1, "tool"]], RATES, latest.elapsed_s);
  draw("latency-chart", "latency-scale", [[3, "device"]], TIMES, latest.elapsed_s);
}

function announce(text) {
  announcedAt = Date.now();
  say("announcement", text);
}

function showEnd(news) {
  document.body.className = "ended";
  element("end").hidden = false;
  element("lost").hidden = true;
  say("end-text", news.end_text);
  if (news.report) {
    element("report").hidden = false;
    element("report-link").href = news.report_uri;
    say("report-link", news.report);
  }
  announce(news.end_text);
}

function take(news) {
  if (news.whole) {
    rows.length = 0;
    points = [];
    element("trials").replaceChildren();
  }
  news.rows.forEach(showRow);
  points.push(...news.points);
  points = points.filter((point) => point[0] >= news.elapsed_s - WINDOW_S - 10);
  const before = latest;
  latest = news;
  say("title", news.title);
  say("folder", news.folder);
  const done = showProgress(news);
  showRates(news);
  showNames(news);
  drawCharts();
  if (!before || before.running_row !== news.running_row) follow(news.running_row);
  if (news.end) {
    showEnd(news);
  } else if (Date.now() - announcedAt >= ANNOUNCE_EVERY_MS) {
    announce(`${done} of ${news.total} trials, about ${duration(news.left_s)} left`);
  }
}

function copyAddress(event) {
  event.preventDefault();
  navigator.clipboard.writeText(element("report-link").href).then(
    () => say("copied", "Copied: paste it into the address bar."),
    () => say("copied", "It could not be copied: select the path above."),
  );
}

function connect() {
  const source = new EventSource("events");
  source.onmessage = (message) => {
    clearTimeout(lostTimer);
    lostTimer = 0;
    element("lost").hidden = true;
    const news = JSON.parse(message.data);
    if (news.end) source.close(); // or the browser would connect again, to a server that is gone
    take(news);
  };
  source.onerror = () => {
    if (lostTimer || (latest && latest.end)) return;
    const at = new Date().toLocaleTimeString();
    lostTimer = setTimeout(() => {
      element("lost").hidden = false;
      say("lost-at", at);
      announce(`No connection to the run since ${at}.`);
    }, LOST_AFTER_MS);
  };
}

element("copy").addEventListener("click", copyAddress);
element("report-link").addEventListener("click", copyAddress);
element("follow").addEventListener("change", () => latest && follow(latest.running_row));
new ResizeObserver(drawCharts).observe(element("iops-chart"));
connect();
