// Figures, times and names as people read them; elements that change only where they differ.

export function bytes(n) {
  const unit = Math.min(4, Math.max(0, Math.floor(Math.log2(Math.max(Math.abs(n), 1)) / 10)));
  return (n / 1024 ** unit).toFixed(unit ? 2 : 0) + " " + ["B", "KiB", "MiB", "GiB", "TiB"][unit];
}

export function seconds(s) {
  if (!s) return "0 s";
  const size = Math.abs(s);
  const [scale, unit] = size < 1e-3 ? [1e6, "us"] : size < 1 ? [1e3, "ms"] : [1, "s"];
  return Number((s * scale).toPrecision(3)) + " " + unit;
}

export function time(text) {
  return text ? new Date(text).toLocaleString([], { dateStyle: "medium", timeStyle: "medium" }) : "";
}

export function ago(text, now = Date.now()) {
  const s = Math.max(0, (now - new Date(text)) / 1000);
  if (s < 60) return "just now";
  const [n, unit] = s < 3600 ? [s / 60, "minute"] : s < 86400 ? [s / 3600, "hour"] : [s / 86400, "day"];
  const count = Math.floor(n);
  return `${count} ${unit}${count === 1 ? "" : "s"} ago`;
}

/** The job's name, else its module's id in short. */
export function nameOf(job) {
  return job.name || `module ${job.module.slice(0, 8)}`;
}

/** Whether the plan of a job fits, in the words of the planner; '' before there is a plan. */
export function verdictOf(job) {
  if (!job.summary) return "";
  return job.summary.verdict || (job.summary.fits ? "fits" : "does not fit");
}

export function band(summary, figure, text) {
  const ends = (summary.bands || {})[figure];
  return text(summary[figure]) + (ends ? ` (${text(ends.low)} to ${text(ends.high)})` : "");
}

/** An element. Text goes in as text, never as markup: it comes from callers. */
export function element(tag, text, attributes = {}) {
  const node = document.createElement(tag);
  if (text !== undefined && text !== null) node.textContent = text;
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  return node;
}

/** Change an element's text only where it differs, so that nothing moves that did not change. */
export function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

export function setBadge(node, text) {
  setText(node, text);
  const kind = "badge " + text.replaceAll(" ", "-");
  if (node.className !== kind) node.className = kind;
  node.hidden = !text;
}

/** The bar of a job that runs. */
export function setProgress(bar, job) {
  const going = job.state === "running" || job.state === "cancelling";
  bar.hidden = !going;
  const value = going && job.progress ? job.progress.fraction || 0 : 0;
  if (bar.value !== value) bar.value = value;
}

export function isOver(job) {
  return ["succeeded", "failed", "cancelled"].includes(job.state);
}
