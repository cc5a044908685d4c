// The list of jobs. Rows are patched, never built anew: focus and choices stay where they are.

import { call, json, onKey, showProblem } from "/ui/api.js";
import { ago, bytes, element, isOver, nameOf, seconds, setBadge, setProgress, setText, time, verdictOf } from "/ui/format.js";
import { prepareUpload } from "/ui/upload.js";

const PAGE = 25, PAUSE = 2000;
const table = document.getElementById("jobs"), body = table.tBodies[0];
const filters = document.getElementById("filters");
const note = document.getElementById("note"), problem = document.getElementById("problem");
const older = document.getElementById("older"), newest = document.getElementById("newest");
const compare = document.getElementById("compare");
const rows = new Map();  // by the id of the job
const chosen = [];  // ids of jobs to compare, the first first
let cursor = null, next = null, timer = 0, asked = 0;

function cell(row, label, attributes = {}) {
  const node = element("td", null, { role: "cell", ...(label ? { "data-label": label } : {}), ...attributes });
  row.append(node);
  return node;
}

function makeRow(id) {
  const row = element("tr", null, { role: "row", "data-job": id });
  const parts = { row };
  parts.pick = element("input", null, { type: "checkbox" });
  parts.picking = cell(row, "Compare", { class: "pick" });
  parts.picking.append(parts.pick);
  parts.pick.addEventListener("change", () => choose(id, parts.pick.checked));
  parts.link = element("a", null, { class: "model", href: `/ui/job.html?id=${id}` });
  parts.asked = element("div", null, { class: "soft small" });
  parts.when = element("div", null, { class: "soft small" });
  const model = cell(row), words = element("div");
  words.append(parts.link, parts.asked, parts.when);
  model.append(words);
  parts.owner = cell(row, "Owner", { "data-owner": "" });
  parts.state = element("span");
  parts.bar = element("progress", null, { max: 1, "aria-label": "progress" });
  const state = element("div");
  state.append(parts.state, parts.bar);
  cell(row, "State").append(state);
  parts.verdict = element("span");
  parts.why = element("span", null, { class: "small" });
  const verdict = element("div");
  verdict.append(parts.verdict, parts.why);
  parts.fits = cell(row, "Fits");
  parts.fits.append(verdict);
  parts.step = cell(row, "Step", { class: "number" });
  parts.peak = cell(row, "Memory", { class: "number" });
  parts.act = element("button");
  cell(row, null, { class: "acts" }).append(parts.act);
  parts.act.addEventListener("click", () => act(parts));
  return parts;
}

function patch(parts, job) {
  parts.job = job;
  const name = nameOf(job);
  setText(parts.link, name);
  setText(parts.asked, `${job.request.mesh} on ${job.request.device}`);
  setText(parts.when, ago(job.created));
  parts.when.title = time(job.created);
  setText(parts.owner, job.owner || "");
  setBadge(parts.state, job.state);
  setProgress(parts.bar, job);
  setBadge(parts.verdict, verdictOf(job));
  setText(parts.why, job.error ? job.error.detail : "");
  parts.fits.classList.toggle("blank", !job.summary && !job.error);
  parts.picking.classList.toggle("blank", !job.links.plan);
  const s = job.summary;
  setText(parts.step, s ? seconds(s.step_seconds) : "");
  setText(parts.peak, s ? `${bytes(s.peak_bytes)} of ${bytes(s.memory_bytes)}` : "");
  parts.pick.disabled = !job.links.plan;
  parts.pick.setAttribute("aria-label", `Compare the plan of ${name}`);
  const verb = isOver(job) ? "Delete" : "Cancel";
  setText(parts.act, verb);
  parts.act.setAttribute("aria-label", `${verb} ${name}`);
  parts.act.disabled = job.state === "cancelling";
}

/** Rows in the order of the jobs: those that stay are neither moved nor made again. */
function show(jobs) {
  const owners = jobs.some(job => job.owner);
  for (const node of table.querySelectorAll("th[data-owner]")) node.hidden = !owners;
  document.getElementById("owner-filter").hidden = !owners && !filters.elements.owner.value;
  const ids = new Set(jobs.map(job => job.id));
  for (const [id, parts] of rows) if (!ids.has(id)) {
    parts.row.remove();
    rows.delete(id);
    choose(id, false);
  }
  let place = body.firstElementChild;
  for (const job of jobs) {
    if (!rows.has(job.id)) rows.set(job.id, makeRow(job.id));
    const parts = rows.get(job.id);
    patch(parts, job);
    parts.owner.hidden = !owners;
    if (parts.row === place) place = place.nextElementSibling;
    else body.insertBefore(parts.row, place);
  }
  table.hidden = jobs.length === 0;
}

function choose(id, wanted) {
  const at = chosen.indexOf(id);
  if (at >= 0) chosen.splice(at, 1);
  if (wanted) chosen.push(id);
  if (chosen.length > 2) {
    const dropped = rows.get(chosen.shift());
    if (dropped) dropped.pick.checked = false;
  }
  compare.hidden = chosen.length !== 2;
}

compare.addEventListener("click", () => {
  location.href = `/ui/compare.html?a=${chosen[0]}&b=${chosen[1]}`;
});

async function act(parts) {
  const { job, row } = parts;
  const path = `/v1/jobs/${job.id}`;
  try {
    if (parts.act.textContent === "Cancel") await call(`${path}/cancel`, { method: "POST" });
    else {
      if (!confirm(`Delete the job of ${nameOf(job)}, with its plan?`)) return;
      await call(path, { method: "DELETE" });
      const near = row.nextElementSibling || row.previousElementSibling;
      (near ? near.querySelector("a") : filters.elements.name).focus();
    }
    showProblem(problem, null);
  } catch (error) { showProblem(problem, error); }
  refresh();
}

function query() {
  const wanted = new URLSearchParams();
  for (const name of ["name", "state", "owner"]) {
    const value = filters.elements[name].value.trim();
    if (value) wanted.set(name, value);
  }
  return wanted;
}

async function refresh() {
  clearTimeout(timer);
  const turn = ++asked, wanted = query(), filtered = wanted.size > 0;
  wanted.set("limit", PAGE);
  if (cursor) wanted.set("cursor", cursor);
  try {
    const page = await json(`/v1/jobs?${wanted}`);
    if (turn !== asked) return;
    next = page.next && new URLSearchParams(page.next.split("?")[1]).get("cursor");
    show(page.jobs);
    older.hidden = !next;
    newest.hidden = !cursor;
    setText(note, page.jobs.length ? `${page.jobs.length} ${cursor ? "older" : next ? "newest" : ""} jobs`.replace("  ", " ")
      : filtered || cursor ? "No job is like that." : "No jobs yet: plan a module, or send one with toast submit.");
    if (away) showProblem(problem, null);
    away = false;
  } catch (error) {
    if (turn === asked) {
      away = true;
      if (error.status === 401) { setText(note, error.message); show([]); } else showProblem(problem, error);
    }
  }
  if (turn === asked) timer = setTimeout(refresh, document.hidden ? 10 * PAUSE : PAUSE);
}
let away = false;

function filter() {
  cursor = null;
  const wanted = query();
  history.replaceState(null, "", wanted.size ? `/?${wanted}` : "/");
  refresh();
}

filters.addEventListener("submit", event => { event.preventDefault(); filter(); });
let typing = 0;
filters.addEventListener("input", () => { clearTimeout(typing); typing = setTimeout(filter, 250); });
older.addEventListener("click", () => { cursor = next; refresh(); scrollTo(0, 0); });
newest.addEventListener("click", () => { cursor = null; refresh(); scrollTo(0, 0); });
document.addEventListener("visibilitychange", () => { if (!document.hidden) refresh(); });
for (const [name, value] of new URLSearchParams(location.search))
  if (filters.elements[name]) filters.elements[name].value = value;
onKey(refresh);
prepareUpload();
refresh();
