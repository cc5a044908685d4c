// What differs between the plans of two jobs: the content of `toast diff`.

import { json, onKey, showProblem } from "/ui/api.js";
import { bytes, element, nameOf, seconds, setText, time } from "/ui/format.js";

const asked = new URLSearchParams(location.search);
const ids = ["a", "b"].map(name => encodeURIComponent(asked.get(name) || ""));
const at = name => document.getElementById(name);

async function load() {
  setText(at("note"), "Comparing.");
  try {
    const jobs = await Promise.all(ids.map(id => json(`/v1/jobs/${id}`)));
    at("which").replaceChildren(...jobs.flatMap((job, n) => {
      const link = element("a", nameOf(job), { href: `/ui/job.html?id=${job.id}` });
      return [element("b", n ? "B: " : "A: "), link, `, ${job.request.mesh} on ${job.request.device}, ${time(job.created)}`, element("br")];
    }));
    const found = await json(`/v1/jobs/${ids[0]}/diff/${ids[1]}`);
    showProblem(at("problem"), null);
    show(found);
  } catch (error) {
    setText(at("note"), "");
    showProblem(at("problem"), error);
  }
}

function show(found) {
  const same = !["settings", "figures", "traffic", "layouts", "only_a", "only_b"].some(name => found[name].length) && !found.reordered;
  setText(at("note"), same ? "The plans are the same." : found.same_module ? ""
    : "The modules are not the same to the letter; their arguments and results are.");
  at("found").replaceChildren(...same ? [] : [
    ...table("Planned for", ["", "A", "B"], found.settings.map(row => [row.what, row.a, row.b])),
    ...table("Predicted cost of one step", ["", ">A", ">B", ">B − A", ">"], found.figures.map(figure)),
    ...table("Communication, per chip and step", ["collective", ">count A", ">B", ">bytes A", ">B", ">time A", ">B", ">B − A"],
      found.traffic.map(traffic)),
    ...table(`Layout (${found.unchanged_layouts.toLocaleString()} arguments and results are laid out alike)`,
      ["", "group", ">count", "shape", "A", "B"], found.layouts.map(row =>
        [row.kind, path(row.name), row.count, row.shape.join(" x ") || "scalar", spec(row.a), spec(row.b)])),
    ...decisions(found),
  ]);
}

const written = { seconds, bytes };
const signed = (text, value) => (value > 0 ? "+" : value < 0 ? "−" : "") + text(Math.abs(value));
const trend = value => ({ text: value, kind: "" });

function moved(text, before, after) {
  return { ...trend(signed(text, after - before)), kind: after > before ? "more" : after < before ? "less" : "" };
}

function figure(row) {
  const text = written[row.unit];
  const share = row.a ? `${row.b >= row.a ? "+" : "−"}${Math.abs(100 * (row.b - row.a) / row.a).toFixed(1)} %` : "";
  return [row.what, text(row.a), text(row.b), moved(text, row.a, row.b), share];
}

function traffic(row) {
  return [row.kind.replaceAll("_", "-"), row.count_a, row.count_b, bytes(row.bytes_a), bytes(row.bytes_b),
    seconds(row.seconds_a), seconds(row.seconds_b), moved(seconds, row.seconds_a, row.seconds_b)];
}

function path(name) {
  return name.replace(/\['?([^\]']*)'?\]/g, "/$1").replaceAll(".", "/").replace(/^\//, "");
}

function spec(axes) {
  return `(${axes.map(one => one.length ? one.join("+") : "None").join(", ")})`;
}

function table(title, heads, rows) {
  if (!rows.length) return [];
  const node = element("table", null, { class: "cards" }), head = element("tr"), body = element("tbody");
  node.append(element("caption", title, { class: "unseen" }));
  const number = heads.map(name => name.startsWith(">"));
  const names = heads.map((name, n) => name.replace(">", "") || (n ? "change" : ""));
  names.forEach((name, n) => head.append(element("th", name, number[n] ? { class: "number" } : {})));
  for (const cells of rows) {
    const line = element("tr");
    cells.forEach((given, n) => {
      const { text, kind } = typeof given === "object" ? given : { text: String(given), kind: "" };
      const attributes = { class: `${number[n] ? "number " : ""}${kind}`.trim(), ...(names[n] ? { "data-label": names[n] } : {}) };
      line.append(element("td", text, attributes));
    });
    body.append(line);
  }
  const top = element("thead");
  top.append(head);
  node.append(top, body);
  return [element("h2", title), node];
}

function decisions(found) {
  const parts = [element("h2", "Decisions")];
  if (found.reordered) return [...parts, element("p", "The same, in another order.")];
  if (!found.only_a.length && !found.only_b.length) return [...parts, element("p", "The same.")];
  const list = element("ul");
  for (const [letter, rows] of [["A", found.only_a], ["B", found.only_b]])
    rows.forEach(row => list.append(element("li", `${letter} only: ${row}`)));
  return [...parts, list];
}

onKey(load);
load();
