"use strict";

// What the page shows is one policy, in its JSON form. The form, the texts and the address
// follow each other through it; the library says what it does.

let policy = {}; // the last valid one
let plan; // what it does
let ask; // asks the library

// latest returns a function that asks, and shows the answer to the last question alone. While
// an answer is awaited it remembers only the last question: nobody wants to see what was asked
// in between while dragging. forget has the answer that is awaited not shown.
function latest(show) {
  let busy = false, next, asked = 0;
  async function question(...args) {
    next = args;
    asked++;
    if (busy) return;
    busy = true;
    while (next) {
      const [text, ...rest] = next, number = asked;
      next = undefined;
      const answer = await ask(...text);
      if (number === asked) show(answer, ...rest);
    }
    busy = false;
  }
  question.forget = () => {
    next = undefined;
    asked++;
  };
  return question;
}

const askPlan = latest(showPlan);
const askClients = latest(drawClients);
const askStorm = latest(drawStorm);
const askBacklog = latest(showBacklog);
const askPresets = latest((answer) => showPresets(answer, (preset) => {
  show(JSON.stringify(preset.policy), "preset");
  $("preset").value = preset.name;
  $("policy-title").scrollIntoView();
}));

// show takes a policy over if it is valid. from is what was changed, and is left alone.
function show(text, from) {
  const begin = performance.now();
  if (from === "yaml") {
    try {
      text = JSON.stringify(jsyaml.load(text)) ?? "null";
    } catch (e) {
      askPlan.forget();
      fail("YAML: " + (e.mark ? `${e.mark.line + 1}:${e.mark.column + 1}: ${e.reason}` : e.message), from);
      return;
    }
  }
  askPlan([from === "go" ? "go" : "plan", text], from, begin);
}

const editors = ["json", "yaml", "go"];

function fail(problem, from) {
  $("error").textContent = problem;
  for (const id of editors) $(id).setAttribute("aria-invalid", String(problem !== "" && (id === from || (from === "link" && id === "json"))));
}

function showPlan(answer, from, begin) {
  fail(answer.error ?? "", from);
  if (answer.error) return; // the pictures stay
  plan = answer;
  policy = ordered(plan.policy);
  if (from !== "form") fillForm();
  if (from !== "json") $("json").value = JSON.stringify(policy, null, 2);
  if (from !== "yaml") $("yaml").value = jsyaml.dump(policy);
  if (from !== "go") $("go").value = plan.go;
  const link = "#" + encodeURIComponent(JSON.stringify(policy));
  if (location.hash !== link) history.replaceState(null, "", link);
  if (from !== "preset") $("preset").value = "";
  $("text").textContent = plan.text;
  showAttempts(plan);
  drawWaits(plan);
  showCode();
  performance.measure("redraw", { start: begin });
  simulate();
}

function simulate() {
  const text = JSON.stringify(policy);
  askClients(["clients", text, Number($("outage").value)]);
  askStorm(["storm", text, $("fault").value]);
}

const simulateBacklog = () => askBacklog(["backlog", ...$("limit").value.split(" ").map(Number)]);

const order = ["name", "max_attempts", "max_elapsed", "attempt_timeout", "timeout", "reset_after", "backoff", "max_delay", "jitter", "max_retry_after", "free_rate_limits", "non_idempotent", "overrides"];

// ordered returns a policy with its keys in the order of the documentation.
const ordered = (policy) => Object.fromEntries(Object.entries(policy).sort(([a], [b]) => order.indexOf(a) - order.indexOf(b)));

function showCode() {
  const indented = plan.go.replaceAll("\n", "\n\t");
  $("code").textContent = {
    call: `policy := &${plan.go}\nerr := policy.Execute(ctx, func(ctx context.Context) error {\n\treturn call(ctx)\n})`,
    http: `client := &http.Client{Transport: &retryhttp.Transport{\n\tPolicy: &${indented},\n}}`,
    command: `cat > policy.yaml <<'END'\n${jsyaml.dump(policy)}END\nretry -p policy.yaml curl -fsS https://example.com`,
  }[$("use").value];
}

// The form.

const texts = ["max_attempts", "max_delay", "attempt_timeout", "timeout", "max_elapsed", "reset_after", "max_retry_after", "free_rate_limits"];

// A slider of waits is logarithmic: from 10 ms to some longest wait in 60 steps.
const logarithmic = (decades, usual) => ({
  usual,
  wait: (step) => shortText(10 * 10 ** (decades * step / 60)),
  step: (ms) => (60 * Math.log10(Math.max(ms, 10) / 10)) / decades,
});
const sliders = { initial: logarithmic(3.5, "2s"), max_delay: logarithmic(6, "30s") };

function shortText(ms) {
  for (const [unit, name] of [[3600e3, "h"], [60e3, "m"], [1e3, "s"], [1, "ms"]]) {
    if (ms >= unit) return +(ms / unit).toPrecision(2) + name;
  }
}

function fillForm() {
  for (const key of texts) $(key).value = policy[key] ?? "";
  $("non_idempotent").checked = policy.non_idempotent === true;
  $("max_attempts_range").value = policy.max_attempts === "unlimited" ? 12 : (policy.max_attempts ?? 3);
  const [kind, value] = Object.entries(policy.backoff ?? {})[0] ?? ["", {}];
  $("kind").value = kind;
  $("initial").value = kind === "constant" ? value : kind === "schedule" ? value.join(", ") : (value.initial ?? "");
  $("factor").value = value.multiplier ?? value.step ?? "";
  for (const [id, { step, usual }] of Object.entries(sliders)) {
    const wait = $(id).value.split(",")[0] || usual;
    $(id + "_range").value = step(milliseconds(wait));
    $(id + "_range").ariaValueText = wait;
  }
  const jitter = policy.jitter ?? "";
  $("jitter").value =
    jitter.proportional !== undefined ? +(100 * jitter.proportional).toPrecision(4) + "%" : jitter.plus_minus ? "±" + jitter.plus_minus :
    typeof jitter === "string" ? jitter : Object.entries(jitter)[0].join(":");
}

// milliseconds returns a duration as the library writes it as a number.
function milliseconds(text) {
  const units = { h: 3600e3, m: 60e3, s: 1e3, ms: 1, "µs": 1e-3, us: 1e-3, ns: 1e-6 };
  return [...String(text).matchAll(/([0-9.]+)(h|ms|m|s|µs|us|ns)/g)].reduce((sum, [, n, unit]) => sum + n * units[unit], 0);
}

// number returns a text as a number if it is one, so that "0.5" is half a second.
const number = (text) => (text !== "" && !isNaN(text) ? Number(text) : text);

function readForm() {
  const next = { ...policy };
  const set = (key, value) => (value === "" || value === undefined ? delete next[key] : (next[key] = value));
  for (const key of texts) set(key, number($(key).value.trim()));
  set("non_idempotent", $("non_idempotent").checked || "");
  const kind = $("kind").value, initial = $("initial").value.trim(), factor = $("factor").value.trim();
  const args = initial === "" ? {} : { initial: number(initial) };
  if (factor !== "" && kind === "exponential") args.multiplier = number(factor);
  if (factor !== "" && kind === "linear") args.step = number(factor);
  switch (kind) {
    case "":
      set("backoff", initial === "" ? "" : { exponential: args });
      break;
    case "constant":
      set("backoff", { constant: number(initial || "2s") });
      break;
    case "schedule":
      set("backoff", { schedule: (initial || "1s, 5s").split(",").map((wait) => number(wait.trim())) });
      break;
    default:
      set("backoff", { [kind]: args });
  }
  const jitter = $("jitter").value.trim(), [word, argument] = jitter.split(":");
  if (argument !== undefined) set("jitter", { [word]: number(argument) });
  else if (jitter.endsWith("%")) set("jitter", { proportional: number(jitter.slice(0, -1)) / 100 });
  else if (jitter.startsWith("±")) set("jitter", { plus_minus: number(jitter.slice(1).trim()) });
  else set("jitter", jitter);
  return JSON.stringify(next);
}

// The tabs of the texts: arrow keys move between them.
function listenToTabs() {
  const tabs = [...document.querySelectorAll('[role="tab"]')];
  const select = (tab) => {
    for (const other of tabs) {
      other.setAttribute("aria-selected", String(other === tab));
      other.tabIndex = other === tab ? 0 : -1;
      $(other.getAttribute("aria-controls")).hidden = other !== tab;
    }
    $("copy-text").textContent = "Copy " + tab.textContent;
    $("copied-text").textContent = "";
  };
  tabs.forEach((tab, i) => {
    tab.addEventListener("click", () => select(tab));
    tab.addEventListener("keydown", ({ key }) => {
      const next = { ArrowRight: i + 1, ArrowLeft: i - 1 + tabs.length, Home: 0, End: tabs.length - 1 }[key];
      if (next === undefined) return;
      select(tabs[next % tabs.length]);
      tabs[next % tabs.length].focus();
    });
  });
}

function listenToCopying() {
  const copy = async (text, status = "copied") => {
    try {
      await navigator.clipboard.writeText(text);
      $(status).textContent = "Copied.";
    } catch {
      $(status).textContent = "The browser does not allow that.";
    }
  };
  $("copy-text").addEventListener("click", () => copy($(editors.find((id) => !$("panel-" + id).hidden)).value, "copied-text"));
  $("copy").addEventListener("click", () => copy($("code").textContent));
  $("copy-link").addEventListener("click", () => copy(location.href));
}

function listen() {
  $("preset").addEventListener("input", () => {
    const preset = compared.find(({ name }) => name === $("preset").value);
    if (preset) show(JSON.stringify(preset.policy), "preset");
  });
  $("max_attempts_range").addEventListener("input", () => ($("max_attempts").value = $("max_attempts_range").value));
  for (const [id, { wait }] of Object.entries(sliders)) {
    $(id + "_range").addEventListener("input", ({ target }) => {
      $(id).value = wait(target.value);
      target.ariaValueText = $(id).value;
    });
  }
  $("form").addEventListener("input", () => show(readForm(), "form"));
  $("form").addEventListener("submit", (event) => event.preventDefault());
  for (const id of editors) $(id).addEventListener("input", () => show($(id).value, id));
  $("outage").addEventListener("input", () => {
    askPresets(["compare", Number($("outage").value)]);
    simulate();
  });
  $("fault").addEventListener("input", simulate);
  $("limit").addEventListener("input", simulateBacklog);
  $("use").addEventListener("input", showCode);
  listenToTabs();
  listenToCopying();
  // On a phone one picture is shown, above the form.
  for (const radio of document.getElementsByName("picture")) {
    radio.addEventListener("input", () => {
      for (const article of $("pictures").querySelectorAll("article")) article.classList.toggle("shown", article.id === radio.value);
      redraw();
    });
  }
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
  addEventListener("resize", redraw);
  // What has the focus is not to be behind the pictures.
  new ResizeObserver(() => document.documentElement.style.setProperty("--pictures", $("pictures").offsetHeight + "px")).observe($("pictures"));
  addEventListener("hashchange", () => show(linked(), "link"));
}

function redraw() {
  drawWaits(plan);
  if (clients) drawClients(clients);
  if (storm) drawStorm(storm);
  drawPresets();
}

// linked returns the policy of the address.
function linked() {
  try {
    return decodeURIComponent(location.hash.slice(1)) || "{}";
  } catch (e) {
    return location.hash; // which the library refuses
  }
}

const outages = [1, 3, 10, 30, 60, 300, 1800, 7200];

async function start() {
  for (const outage of outages) $("outage").append(new Option(time(outage), outage, outage === 3, outage === 3));
  ask = await library;
  const text = linked(); // before the first picture changes the address
  if (text !== "{}") await askPlan(["plan", "{}"], "start", performance.now()); // so that there is something beside an invalid link
  await askPlan(["plan", text], "link", performance.now());
  performance.mark("first picture");
  await askPresets(["compare", Number($("outage").value)]);
  $("preset").append(new Option("choose a preset", ""), ...compared.map(({ name }) => new Option(name, name)));
  $("preset").value = "";
  simulateBacklog();
  listen();
  document.body.dataset.ready = "true";
}

start();
