// A module dropped in: its bytes to the service, then a job with the settings of the form.

import { json, showProblem } from "/ui/api.js";
import { element, setText } from "/ui/format.js";

const form = document.getElementById("upload"), drop = document.getElementById("drop");
const problem = document.getElementById("upload-problem"), note = document.getElementById("upload-note");
const panel = document.getElementById("new"), file = document.getElementById("file");
const FIELDS = ["name", "mesh", "device", "memory", "budget", "planner"];

export function prepareUpload() {
  form.addEventListener("submit", event => { event.preventDefault(); send(); });
  panel.addEventListener("toggle", loadDevices, { once: true });
  file.addEventListener("change", () => showProblem(problem, null));
  // Wherever on the page it is dropped: a browser would open the file instead.
  document.addEventListener("dragover", event => {
    event.preventDefault();
    panel.open = true;
    drop.classList.add("over");
  });
  document.addEventListener("dragleave", event => { if (!event.relatedTarget) drop.classList.remove("over"); });
  document.addEventListener("drop", event => {
    event.preventDefault();
    drop.classList.remove("over");
    if (!event.dataTransfer.files.length) return;
    panel.open = true;
    file.files = event.dataTransfer.files;
    showProblem(problem, null);
    form.elements.mesh.focus();
  });
}

async function loadDevices() {
  const select = form.elements.device;
  try {
    const { devices } = await json("/v1/devices");
    const options = devices.map(one => element("option", one.name, { title: one.description }));
    const wanted = select.value;
    select.replaceChildren(...options);
    select.value = wanted;
  } catch { /* the one that is there will do */ }
}

function settings() {
  const asked = {};
  for (const name of FIELDS) {
    const value = form.elements[name].value.trim();
    if (value) asked[name] = value;
  }
  for (const name of ["pins", "forbid"]) {
    const lines = form.elements[name].value.split("\n").map(line => line.trim()).filter(Boolean);
    if (lines.length) asked[name] = lines;
  }
  const parts = form.elements.microbatches.value.trim();
  if (parts) asked.microbatches = /^\d+$/.test(parts) ? Number(parts) : parts;
  if (form.elements.recompute.value) asked.recompute = [form.elements.recompute.value];
  if (form.elements.seed.value) asked.seed = Number(form.elements.seed.value);
  for (const name of ["fit", "refine"]) if (form.elements[name].checked) asked[name] = true;
  return asked;
}

function refuse(field, message, hint) {
  showProblem(problem, { message, hint });
  field.setAttribute("aria-invalid", "true");
  field.setAttribute("aria-describedby", "upload-problem");
  field.focus();
}

async function send() {
  for (const field of form.elements) field.removeAttribute("aria-invalid");
  const chosen = file.files[0], asked = settings();
  if (!chosen) return refuse(file, "There is no module.", "Drop one in, or choose its file.");
  if (!asked.mesh) return refuse(form.elements.mesh, "The mesh is missing.", "Write it as data=2,model=4, or as auto:8.");
  showProblem(problem, null);
  const button = form.querySelector("button.main");
  button.disabled = true;
  try {
    setText(note, `Sending ${chosen.name}.`);
    const type = "application/octet-stream";
    const module = await json("/v1/modules", { method: "POST", body: chosen, headers: { "Content-Type": type } });
    const job = await json("/v1/jobs", {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify({ name: chosen.name, ...asked, module: module.id }),
    });
    location.href = `/ui/job.html?id=${job.id}`;
  } catch (error) {
    const place = /mesh/.test(error.code) ? "mesh" : /device/.test(error.code) ? "device"
      : FIELDS.find(name => [name, asked[name]].some(word => word && error.message.includes(`'${word}'`)));
    if (place) refuse(form.elements[place], error.message, error.hint);
    else showProblem(problem, error);
    setText(note, "");
  } finally { button.disabled = false; }
}
