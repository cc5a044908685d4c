// One job: live progress, what came of it, its report.

import { call, download, json, onKey, showProblem } from "/ui/api.js";
import { follow } from "/ui/events.js";
import { band, bytes, element, isOver, nameOf, seconds, setBadge, setProgress, setText, time, verdictOf } from "/ui/format.js";

const id = new URLSearchParams(location.search).get("id") || "";
const path = `/v1/jobs/${encodeURIComponent(id)}`;
const at = name => document.getElementById(name);
const WAITS = {
  newer_worker: "Waits for a newer worker: this server does not understand its request.",
  suspected: "Servers ended while it ran. It waits until nothing else runs.",
};
let job = null, reported = false;

async function load() {
  try {
    job = await json(path);
    showProblem(at("problem"), null);
    at("job").hidden = false;
    show();
    if (isOver(job)) await listen();  // for the log alone
    else await listen().then(reload);
  } catch (error) { fail(error); }
}

async function reload() {
  take(await json(path));
}

function take(found) {
  if (found.version < job.version) return;  // an answer that another one overtook
  job = found;
  show();
}

function fail(error) {
  showProblem(at("problem"), error);
  if (error.status === 404) at("job").hidden = true;
}

function listen() {
  at("log").replaceChildren();
  return follow(id, (kind, data, number) => {
    record(kind, data);
    if (isOver(job) || number <= job.version) return;  // told for the log alone
    if (isOver(data)) return;  // `load` reads it then, and shows its end with its results
    if (kind === "progress") job.progress = data;
    else job.state = data.state;
    if (job.state === "queued") reload().catch(fail);  // what it waits for
    show();
  });
}

function record(kind, data) {
  const said = kind === "state" ? data.state : data.detail || data.stage;
  const log = at("log"), last = log.lastElementChild;
  if (last && last.dataset.said === said) return;
  const line = element("li", null, { "data-said": said }), when = new Date(1000 * data.at);
  line.append(element("time", when.toLocaleTimeString(), { datetime: when.toISOString() }), said);
  log.append(line);
}

function show() {
  const name = nameOf(job), over = isOver(job);
  document.title = `${name} · TOAST`;
  setText(at("name"), name);
  setText(at("asked"), `${job.request.mesh} on ${job.request.device}, ${job.owner ? `of ${job.owner}, ` : ""}${time(job.created)}`);
  setBadge(at("state"), job.state);
  setBadge(at("verdict"), verdictOf(job));
  at("running").hidden = over;
  setProgress(at("bar"), job);
  const p = job.progress;
  setText(at("stage"), job.state === "queued" ? WAITS[job.waits_for] || "Waits for a worker." : p ? p.detail || `${p.stage}` : "Starting.");
  setText(at("best"), p && p.best_seconds ? `Best so far: ${seconds(p.best_seconds)} a step, ${bytes(p.best_bytes)} per chip, `
    + `${p.evaluations.toLocaleString()} plans priced` : "");
  showProblem(at("error"), job.error && { message: job.error.detail, hint: job.error.hint });
  at("cancel").hidden = !job.links.cancel || over;
  at("cancel").disabled = job.state === "cancelling";
  for (const button of ["plan", "module"]) at(button).hidden = !job.links[button];
  at("open").hidden = !job.links.report;
  at("delete").hidden = !over;
  facts();
  if (over) results();
}

function results() {
  const s = job.summary;
  at("tiles").hidden = !s;
  if (s) {
    const tiles = [["step", band(s, "step_seconds", seconds)], ["unsharded", seconds(s.unsharded_step_seconds)],
      ["memory per chip", band(s, "peak_bytes", bytes)], ["of", bytes(s.memory_bytes)], ["search", s.termination]];
    at("tiles").replaceChildren(...tiles.map(([what, figure]) => {
      const tile = element("div", what, { class: "tile" });
      tile.append(element("b", figure));
      return tile;
    }));
    at("advice").hidden = !(s.advice || []).length;
    at("advice").querySelector("ul").replaceChildren(...(s.advice || []).map(line => element("li", line)));
  }
  if (job.links.report && !reported) {
    reported = true;
    draw();
    others().catch(fail);
  }
}

async function draw() {
  at("report").hidden = false;
  try {
    const blob = await (await call(job.links.report)).blob();
    const frame = element("iframe", null, { title: `Report of ${nameOf(job)}`, sandbox: "allow-same-origin" });
    frame.src = URL.createObjectURL(blob);
    const fit = () => { frame.style.height = `${frame.contentDocument.documentElement.scrollHeight + 4}px`; };
    frame.addEventListener("load", () => {
      at("report-note").hidden = true;
      fit();
      new ResizeObserver(fit).observe(frame.contentDocument.body);
    });
    at("open").onclick = () => window.open(frame.src);
    at("report").append(frame);
  } catch (error) { setText(at("report-note"), `${error.message} ${error.hint}`); }
}

async function others() {
  const page = await json("/v1/jobs?limit=200");
  const found = page.jobs.filter(one => one.id !== job.id && one.links.plan && (one.module === job.module || nameOf(one) === nameOf(job)));
  at("against").hidden = !found.length;
  at("against").elements.other.replaceChildren(...found.map(one =>
    element("option", `${nameOf(one)}, ${one.request.mesh} on ${one.request.device}, ${time(one.created)}`, { value: one.id })));
}

function facts() {
  const asked = Object.entries(job.request).filter(([, value]) => value !== null && value !== false && String(value) !== "");
  const rows = [["job", job.id], ["module", job.module], ["created", time(job.created)], ["started", time(job.started)],
    ["finished", time(job.finished)], ["attempts", job.attempt], ...asked];
  at("facts").replaceChildren(...rows.filter(([, value]) => value !== "").flatMap(([name, value]) =>
    [element("dt", name.replaceAll("_", " ")), element("dd", String(value))]));
}

function button(name, act) {
  at(name).addEventListener("click", async () => {
    try { await act(); } catch (error) { fail(error); }
  });
}
button("cancel", async () => take(await json(`${path}/cancel`, { method: "POST" })));
button("plan", () => download(job.links.plan, `${nameOf(job)}.plan.json`));
button("module", () => download(job.links.module, `${nameOf(job)}.sharded.mlir`));
button("delete", async () => {
  if (!confirm(`Delete the job of ${nameOf(job)}, with its plan?`)) return;
  await call(path, { method: "DELETE" });
  location.href = "/";
});
at("against").addEventListener("submit", event => {
  event.preventDefault();
  location.href = `/ui/compare.html?a=${at("against").elements.other.value}&b=${job.id}`;
});
onKey(load);
load();
