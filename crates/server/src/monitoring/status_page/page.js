"use strict";
const at = (id) => document.getElementById(id);
const NS = "http:" + "//www.w3.org/2000/svg";
const UNITS = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
let shown = null;

function number(value) {
  if (value === 0) return "0";
  const places = value >= 100 ? 0 : value >= 10 ? 1 : 2;
  return Number(value.toFixed(places)).toLocaleString("en");
}
function bytes(value) {
  let unit = 0;
  while (value >= 1024 && unit < UNITS.length - 1) { value /= 1024; unit += 1; }
  return number(value) + " " + UNITS[unit];
}
function milliseconds(value) {
  if (value === null) return "–";
  if (value >= 60000) return number(value / 60000) + " min";
  return value >= 1000 ? number(value / 1000) + " s" : number(value) + " ms";
}
function span(seconds) {
  const parts = [["d", 86400], ["h", 3600], ["min", 60], ["s", 1]];
  const from = parts.findIndex(([, size]) => seconds >= size);
  if (from < 0) return "0 s";
  return parts.slice(from, from + 2).map(([unit, size], n) => {
    const count = n === 0 ? Math.floor(seconds / size) : Math.floor((seconds % parts[from][1]) / size);
    return count + " " + unit;
  }).join(" ");
}
function text(id, value, small) {
  at(id).textContent = value;
  if (small) {
    const more = document.createElement("small");
    more.textContent = " " + small;
    at(id).append(more);
  }
}
function draw(name, attributes, content) {
  const made = document.createElementNS(NS, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (content !== undefined) made.textContent = content;
  return made;
}
/* The next of 1, 2 and 5 times a power of the base's unit. */
function ceiling(value, base) {
  if (value <= 0) return base === 1024 ? 1024 : 1;
  let unit = 1;
  while (base === 1024 && value >= unit * 1024) unit *= 1024;
  let step = Math.pow(10, Math.floor(Math.log10(value / unit)));
  if (base === 1024 && step >= 100 && value > 500 * unit) return 1024 * unit;
  for (const factor of [1, 2, 5, 10]) if (step * factor * unit >= value) return step * factor * unit;
  return value;
}
/* Series are [class, values in each second, oldest first]; a chart is as wide as five minutes. */
function chart(id, series, base, format, samples, seconds) {
  const svg = at(id), box = svg.getBoundingClientRect();
  const width = Math.max(box.width, 200), height = Math.max(box.height, 60), left = 76, foot = 20, top = 8;
  const most = ceiling(Math.max(...series.flatMap(([, values]) => values), 0), base);
  const x = (n, count) => width - (count - 1 - n) * (width - left) / (samples - 1);
  const y = (value) => height - foot - value / most * (height - foot - top);
  const parts = [];
  for (const part of [0, 0.5, 1]) {
    parts.push(draw("line", { class: "grid", x1: left, x2: width, y1: y(part * most), y2: y(part * most) }));
    parts.push(draw("text", { x: left - 8, y: y(part * most) + 4, "text-anchor": "end" }, format(part * most)));
  }
  const minutes = Math.round(samples * seconds / 60);
  for (let minute = 0; minute <= minutes; minute += width < 600 ? 2 : 1) {
    const place = width - minute * (width - left) / minutes;
    const anchor = minute === 0 ? "end" : minute === minutes ? "start" : "middle";
    parts.push(draw("text", { x: place, y: height - 4, "text-anchor": anchor }, minute ? "−" + minute + " min" : "now"));
  }
  for (const [kind, values] of series) {
    if (values.length < 2 || kind === "failed" && !values.some((value) => value > 0)) continue;
    const points = values.map((value, n) => x(n, values.length).toFixed(1) + "," + y(value).toFixed(1));
    const begin = x(0, values.length).toFixed(1), floor = y(0).toFixed(1);
    const area = draw("g", { class: "line " + kind });
    area.append(draw("polygon", { class: "area", points: `${begin},${floor} ${points.join(" ")} ${width},${floor}` }));
    area.append(draw("polyline", { class: "line " + kind, points: points.join(" ") }));
    parts.push(area);
  }
  svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
  svg.replaceChildren(...parts);
  svg.setAttribute("aria-label", series.map(([kind, values]) =>
    `${kind}: ${format(values.at(-1) ?? 0)} now, ${format(Math.max(...values, 0))} maximum in the last five minutes`).join("; "));
  return { left, width, height, foot, samples, seconds };
}
/* What was where the pointer is. */
function follow(id, out, form, tell) {
  const svg = at(id);
  svg.addEventListener("pointermove", (event) => {
    if (!shown) return;
    const box = svg.getBoundingClientRect(), view = form();
    const place = (event.clientX - box.left) * view.width / box.width;
    const back = Math.round((view.width - place) * (view.samples - 1) / (view.width - view.left));
    const count = shown.past.requests.length, n = count - 1 - back;
    svg.querySelector(".at")?.remove();
    if (n < 0 || n >= count) { at(out).textContent = ""; return; }
    svg.append(draw("line", { class: "at", x1: place, x2: place, y1: 0, y2: view.height - view.foot }));
    at(out).textContent = span(back * view.seconds) + " ago: " + tell(n);
  });
  svg.addEventListener("pointerleave", () => { svg.querySelector(".at")?.remove(); at(out).textContent = ""; });
}
function rows(id, all, nothing) {
  const made = all.map((cells) => {
    const row = document.createElement("tr");
    cells.forEach((cell, n) => {
      const made = document.createElement(n === 0 ? "th" : "td");
      if (n === 0) made.scope = "row";
      made.textContent = cell;
      row.append(made);
    });
    return row;
  });
  if (made.length === 0) {
    const row = document.createElement("tr"), cell = document.createElement("td");
    cell.textContent = nothing;
    row.append(cell);
    made.push(row);
  }
  at(id).replaceChildren(...made);
}
/* A meter with no bound is as good as full. */
function bar(id, now, most) {
  at(id).max = Math.max(most, 1);
  at(id).value = now;
}
let bytesForm = null, rateForm = null;
function show(now) {
  shown = now;
  const past = now.past, every = past.seconds_between_samples, rate = (values) => values.map((value) => value / every);
  const last = (values) => { const few = values.slice(-3); return few.reduce((sum, value) => sum + value, 0) / every / Math.max(few.length, 1); };
  text("version", now.version);
  text("about", now.urls.join(" ") + " · up " + span(now.uptime_seconds));
  const bad = Object.entries(now.health.checks).filter(([, check]) => !check.ok);
  const verdict = now.health.healthy ? "healthy" : "not healthy: " + bad.map(([, check]) => check.seen).join("; ");
  if (at("health").textContent !== verdict) text("health", verdict);
  at("health").className = now.health.healthy ? "" : "bad";
  text("sending", bytes(last(past.sent_bytes)) + "/s", "to clients");
  text("receiving", bytes(last(past.received_bytes)) + "/s", "from clients");
  text("requests", number(last(past.requests)) + "/s", number(past.failures.reduce((sum, value) => sum + value, 0)) + " failed (last 5 min)");
  text("open", number(now.requests_open), number(now.uploads_open) + (now.uploads_open === 1 ? " upload" : " uploads"));
  text("connections", number(now.connections.now), "of " + number(now.connections.max));
  bar("connections-bar", now.connections.now, now.connections.max);
  text("memory", bytes(now.memory_bytes.now), "of " + bytes(now.memory_bytes.max));
  bar("memory-bar", now.memory_bytes.now, now.memory_bytes.max);
  at("lots-tile").hidden = !now.lots;
  if (now.lots) {
    text("lots", bytes(now.lots.used_bytes), "of " + bytes(now.lots.reserved_bytes) + (now.lots.count === 1 ? " in 1 lot" : " in " + number(now.lots.count) + " lots"));
    bar("lots-bar", now.lots.used_bytes, now.lots.reserved_bytes);
  }
  const samples = 150;
  bytesForm = chart("bytes", [["sent", rate(past.sent_bytes)], ["received", rate(past.received_bytes)]], 1024,
    (value) => bytes(value) + "/s", samples, every);
  rateForm = chart("rates", [["sent", rate(past.requests)], ["failed", rate(past.failures)]], 1000,
    (value) => number(value) + "/s", samples, every);
  at("rates").setAttribute("aria-label", `${number(last(past.requests))} requests per second now, ` +
    `${past.failures.reduce((sum, value) => sum + value, 0)} failed in the last five minutes`);
  const line = (name, times) => [name, ...[times.p50_ms, times.p90_ms, times.p99_ms, times.max_ms].map(milliseconds)];
  rows("times", [line("Time to first byte", past.head), line("Time to last byte", past.whole)]);
  rows("top", past.files.map((file) => [file.path, number(file.requests), bytes(file.bytes)]), "none");
  const servers = now.servers ?? [];
  document.title = servers.length === 0 ? "hither serve" : "hither federate";
  at("servers-section").hidden = servers.length === 0;
  rows("servers", servers.map((server) => [server.name, server.is_up ? "up" : "down",
    server.answer_seconds > 0 ? milliseconds(server.answer_seconds * 1000) : "–",
    number(server.answered), number(server.failed), number(server.conflicts)]), "none");
  at("checked").replaceChildren(...Object.values(now.health.checks).map((check) => {
    const item = document.createElement("li");
    item.className = check.ok ? "" : "bad";
    item.textContent = check.seen;
    return item;
  }));
  text("totals", `${now.requests_total.toLocaleString("en")} requests, ${bytes(now.sent_bytes_total)} sent, ` +
    `${bytes(now.received_bytes_total)} received since the start` +
    (now.log_lines_lost ? `, ${now.log_lines_lost} access log lines lost` : ""));
}
async function refresh() {
  if (document.hidden) return;
  try {
    const answer = await fetch("/status.json", { cache: "no-store", signal: AbortSignal.timeout(8000) });
    show(await answer.json());
    at("stale").hidden = true;
  } catch {
    at("stale").hidden = false;
  }
}
show(JSON.parse(at("figures").textContent));
follow("bytes", "bytes-at", () => bytesForm, (n) => {
  const every = shown.past.seconds_between_samples;
  return bytes(shown.past.sent_bytes[n] / every) + "/s sent, " + bytes(shown.past.received_bytes[n] / every) + "/s received";
});
follow("rates", "rate-at", () => rateForm, (n) =>
  number(shown.past.requests[n] / shown.past.seconds_between_samples) + " per second, " + shown.past.failures[n] + " failed");
addEventListener("resize", () => show(shown));
document.addEventListener("visibilitychange", refresh);
setInterval(refresh, 2000);
