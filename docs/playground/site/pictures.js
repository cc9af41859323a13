"use strict";

// The pictures, drawn with uPlot, and the texts that say the same.

const $ = (id) => document.getElementById(id);

// color returns one of the page's colors.
const color = (name) => getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim();

// time writes seconds as people do: 1.5 s, 20 min, 2.2 h.
function time(s) {
  if (s >= 7200 || s === 3600) return +(s / 3600).toPrecision(3) + " h";
  if (s >= 120 || s === 60) return +(s / 60).toPrecision(3) + " min";
  return s >= 1 || s === 0 ? +s.toPrecision(3) + " s" : +(s * 1000).toPrecision(3) + " ms";
}

const range = (low, high) => (low === high ? time(low) : time(low) + " – " + time(high));
const plural = (n, one) => `${n.toLocaleString("en")} ${one}${n === 1 ? "" : "s"}`;

// steps are distances of ticks that look well as times.
const steps = [1e-3, 2e-3, 5e-3, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 28800, 86400, 172800, 864000];

function axis(more) {
  return { stroke: color("soft"), grid: { stroke: color("line"), width: 1 }, ticks: { stroke: color("line"), size: 4 }, font: "12px system-ui, sans-serif", labelFont: "12px system-ui, sans-serif", size: 26, labelSize: 18, labelGap: 0, ...more };
}
const timeAxis = (more) => axis({ incrs: steps, space: 60, values: (_, ticks) => ticks.map(time), ...more });

const series = (name, more) => ({ stroke: color(name), width: 2, points: { show: false }, ...more });

const plots = {};

// draw draws the plot in an element, or its data anew if nothing else has changed. What is
// not shown is not drawn. There are no legends: the text beside a plot says what is what.
function draw(id, options, data) {
  const { clientWidth: width, clientHeight: height } = $(id);
  if (!width) return;
  const look = [width, height, color("ink")].join();
  if (plots[id]?.look === look) {
    plots[id].plot.setData(data);
    return;
  }
  plots[id]?.plot.destroy();
  plots[id] = { look, plot: new uPlot({ width, height, legend: { show: false }, cursor: { show: false }, padding: [8, 16, 0, 0], ...options }, data, $(id)) };
}

// shade fills what lies between two values of x.
function shade(u, from, to, fill) {
  const [left, right] = [u.valToPos(from, "x", true), u.valToPos(to, "x", true)];
  u.ctx.fillStyle = fill;
  u.ctx.fillRect(left, u.bbox.top, right - left, u.bbox.height);
}

function drawWaits({ attempts, more }) {
  const waits = attempts.slice(1);
  const xs = waits.map((a) => a.attempt - 1);
  draw(
    "waits",
    {
      scales: { x: { time: false, range: (_, __, max) => [0.5, (max || 1) + 0.5] }, y: { range: (_, __, max) => [0, max || 1] } },
      axes: [axis({ label: "retry", incrs: [1, 2, 5] }), timeAxis({ size: 62, space: 30 })],
      series: [{}, series("one", { points: { show: true } }), series("one", { points: { show: true }, dash: [5, 4] })],
      bands: [{ series: [1, 2], fill: color("band") }],
    },
    [xs, waits.map((a) => a.longest), waits.map((a) => a.shortest)],
  );
  $("waits-key").style.visibility = waits.length ? "" : "hidden";
  const last = attempts[attempts.length - 1];
  $("waits-text").textContent =
    attempts.length === 1
      ? "There is one attempt, and so no wait."
      : `The first wait is ${range(waits[0].shortest, waits[0].longest)}, the longest ${time(Math.max(...waits.map((a) => a.longest)))}. ` +
        `Attempt ${attempts.length}${more ? "" : ", the last,"} begins after ${range(last.earliest, last.latest)}, if attempts take no time.`;
}

function showAttempts({ attempts }) {
  $("attempts").replaceChildren(
    ...attempts.map((a) => {
      const row = document.createElement("tr");
      for (const text of [a.attempt, a.attempt === 1 ? "–" : range(a.shortest, a.longest), range(a.earliest, a.latest)]) {
        row.insertCell().textContent = text;
      }
      Object.assign(row.dataset, { shortest: a.shortest, longest: a.longest });
      return row;
    }),
  );
}

// heat paints how many attempts were made when: a column for a time, a row for an
// attempt, and above them a row with all.
function heat(ctx, left, top, width, height, { cells }) {
  const rows = [cells[0].map((_, column) => cells.reduce((sum, row) => sum + row[column], 0)), ...cells];
  const most = Math.max(1, ...cells.slice(1).flat()); // of the retries: all first attempts are in one column
  const rowHeight = height / rows.length, columnWidth = width / cells[0].length;
  const hue = color("heat");
  rows.forEach((row, y) =>
    row.forEach((count, x) => {
      if (!count) return;
      ctx.fillStyle = `rgba(${hue}, ${0.1 + 0.9 * Math.sqrt(Math.min(1, count / most))})`;
      ctx.fillRect(left + x * columnWidth, top + y * rowHeight + 1, columnWidth + 0.5, rowHeight - 2);
    }),
  );
  ctx.fillStyle = color("edge");
  ctx.fillRect(left, top + rowHeight - 1, width, 1);
}

let clients; // the last ones that were drawn

const through = (c) =>
  c.through === 1000
    ? `All 1,000 get through, the last one after ${time(c.last)}.`
    : c.through === 0
      ? "None gets through."
      : `${c.through} of 1,000 get through, the last one after ${time(c.last)}.`;

function drawClients(answer) {
  if (answer.error) return;
  clients = answer;
  const end = clients.column * clients.cells[0].length;
  const rows = () => clients.cells.length;
  const width = () => clients.column * clients.cells[0].length;
  draw(
    "clients",
    {
      scales: { x: { time: false, range: () => [0, width()] }, y: { dir: -1, range: () => [-0.5, rows() + 0.5] } },
      axes: [
        timeAxis({ label: "time since the outage began" }),
        axis({
          label: "attempt",
          size: 34,
          splits: () => [...Array(rows() + 1).keys()],
          values: (_, ticks) => ticks.map((y) => (y === 0 ? "all" : y === rows() && clients.more ? y + "+" : y)),
          grid: { show: false },
        }),
      ],
      series: [{}, {}],
      hooks: {
        drawClear: [(u) => shade(u, 0, clients.outage, color("fault"))],
        draw: [
          (u) => {
            heat(u.ctx, u.bbox.left, u.bbox.top, u.bbox.width, u.bbox.height, clients);
            u.ctx.fillStyle = color("two");
            u.ctx.fillRect(u.valToPos(clients.outage, "x", true) - 1, u.bbox.top, 2, u.bbox.height);
          },
        ],
      },
    },
    [[0, end], [null, null]],
  );
  $("clients-text").textContent =
    `All fail at 0 s, and the service is back after ${time(clients.outage)}, at the line. The stronger the color, the more attempts. ${through(clients)} ` +
    (clients.gaveUp ? `${plural(clients.gaveUp, "client")} ${clients.gaveUp === 1 ? "gives" : "give"} up before. ` : "") +
    (clients.hammering ? `${plural(clients.hammering, "client")} still hammered after 200 retries and were stopped here. ` : "") +
    `${plural(clients.attempts, "attempt")} in all; the busiest second has ${plural(clients.busiest, "retry").replace("retrys", "retries")}.`;
}

let storm; // the last one that was drawn

// percent never makes all of nearly all.
const percent = (share) => +(100 * (share < 1 ? Math.min(share, 0.999) : 1)).toFixed(1) + " %";

function drawStorm(answer) {
  if (answer.error) {
    $("storm-text").textContent = answer.error;
    return;
  }
  storm = answer;
  const { lines, seconds, capacity, rate, fault } = answer;
  const styles = [["one"], ["two", "dashed"], ["three", "dotted"]]; // as in style.css
  const picture = (id, label, of, limit) => {
    draw(
      id,
      {
        scales: { x: { time: false }, y: { range: (_, __, max) => [0, 1.05 * (max || 1)] } },
        axes: [axis({ label }), axis({ size: 40, space: 25 })],
        series: [{}, series("edge", { width: 1, dash: [10, 4] }), ...styles.map(([name], i) => series(name, { dash: [[], [6, 3], [2, 3]][i] })).reverse()], // the first one on top
        hooks: { drawClear: [(u) => shade(u, ...storm.fault, color("fault"))] },
      },
      [seconds, seconds.map(() => limit), ...lines.map(of).reverse()],
    );
  };
  picture("load", undefined, (line) => line.attempts, capacity);
  picture("success", "seconds since the fault began", (line) => line.good, rate);
  $("load-key").replaceChildren(`Attempts per second. The service can serve ${capacity}: `, mark(["limit"]));
  $("success-key").replaceChildren(`Calls per second that succeed, of ${rate}: `, mark(["limit"]));
  $("background").textContent = `success at ${percent(storm.background)} errors`;
  const late = seconds[seconds.length - 1] + 1 - fault[1];
  const well = ({ recovery }) => (recovery < 0 ? `not in ${late} s` : recovery === 0 ? "at once" : recovery + " s");
  $("storm-lines").tBodies[0].replaceChildren(
    ...lines.map((line, i) => {
      const row = document.createElement("tr");
      const head = row.appendChild(Object.assign(document.createElement("th"), { scope: "row" }));
      head.append(mark(styles[i]), line.name);
      for (const text of [line.amplification.toFixed(2), well(line), percent(line.everyday)]) row.insertCell().textContent = text;
      return row;
    }),
  );
  $("storm-text").textContent = stormText(lines, well, answer.background);
}

// mark returns a piece of a line of a plot.
const mark = (styles) => Object.assign(document.createElement("span"), { className: ["line", ...styles].join(" ") });

// stormText says what is to be seen.
function stormText([budget, without, none], well, background) {
  const when = (line) => well(line) + (line.recovery > 0 ? " after the fault" : "");
  const later = budget.recovery - none.recovery;
  const seen =
    budget.recovery < 0
      ? "Even with a budget, the service is not well again so soon."
      : without.recovery < 0
        ? `Without a budget, the retries keep the service down. With one, it is well again ${later > 0 ? `${later} s later than` : "as soon as"} without retries.`
        : `The service is well again ${when(budget)} with a budget, and ${without.recovery === budget.recovery ? "as soon" : when(without)} without one.`;
  return `${seen} The last column is what retries are for: with ${percent(background)} errors, ${percent(none.everyday)} of the calls succeed without them, and ${percent(budget.everyday)} with them.`;
}

// showBacklog shows how jobs get through a limit: each alone, and with a Quota.
function showBacklog({ ways }) {
  $("backlog").tBodies[0].replaceChildren(
    ...ways.map(({ name, refused, took }) => {
      const row = document.createElement("tr");
      for (const text of [name, plural(refused, "time"), time(took / 1e9)]) row.insertCell().textContent = text;
      return row;
    }),
  );
}

// drawPreset draws a preset's card: the range of every wait, and a thousand clients.
function drawPreset(canvas, { plan, clients }) {
  const scale = devicePixelRatio || 1, width = canvas.clientWidth || 260, bars = 8, height = 150;
  canvas.width = width * scale;
  canvas.height = height * scale;
  const ctx = canvas.getContext("2d");
  ctx.scale(scale, scale);
  const waits = plan.attempts.slice(1, bars + 1);
  const longest = Math.max(1e-9, ...waits.map((a) => a.longest));
  ctx.font = "11px system-ui, sans-serif";
  ctx.fillStyle = color("soft");
  ctx.fillText("0", 0, 10);
  ctx.textAlign = "right";
  ctx.fillText(time(longest), width, 10);
  waits.forEach((a, i) => {
    ctx.fillStyle = color("one");
    const from = (a.shortest / longest) * width, to = (a.longest / longest) * width;
    ctx.fillRect(Math.min(from, width - 2), 15 + i * 6, Math.max(to - from, 2), 4);
  });
  const top = 72, mapHeight = 62, end = clients.column * clients.cells[0].length;
  ctx.fillStyle = color("fault");
  ctx.fillRect(0, top, (clients.outage / end) * width, mapHeight);
  heat(ctx, 0, top, width, mapHeight, clients);
  ctx.fillStyle = color("two");
  ctx.fillRect((clients.outage / end) * width - 0.5, top, 1.5, mapHeight);
  ctx.fillStyle = color("soft");
  ctx.fillText(time(end), width, height - 3);
  ctx.textAlign = "left";
  ctx.fillText("0", 0, height - 3);
}

let compared = []; // what the cards show

function showPresets(answer, start) {
  if (answer.error) return;
  compared = answer;
  $("presets").replaceChildren(
    ...answer.map((preset) => {
      const { name, about, plan, clients } = preset;
      const card = document.createElement("li");
      const add = (tag, properties) => card.appendChild(Object.assign(document.createElement(tag), properties));
      add("h3", { textContent: name });
      add("p", { className: "about", textContent: about });
      const canvas = add("canvas");
      canvas.setAttribute("role", "img");
      const last = plan.attempts[plan.attempts.length - 1];
      canvas.setAttribute("aria-label", `${name}: ${plan.text}. ${through(clients)}`);
      add("p", { className: "says", textContent: plan.text });
      add("p", {
        className: "numbers",
        textContent:
          `${through(clients)} The busiest second has ${clients.busiest.toLocaleString("en")} retries` +
          (plan.more ? "." : `; the last attempt begins after ${range(last.earliest, last.latest)}.`),
      });
      add("button", { type: "button", textContent: "Start from this", onclick: () => start(preset) }).setAttribute("aria-label", "Start from this: " + name);
      return card;
    }),
  );
  drawPresets();
}

const drawPresets = () => document.querySelectorAll("#presets canvas").forEach((canvas, i) => drawPreset(canvas, compared[i]));
