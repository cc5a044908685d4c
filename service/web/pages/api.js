// Calls of the API, with the key where the service wants one, and problems as errors.

let key = "";
try { key = sessionStorage.getItem("toast-key") || ""; } catch { /* a private window */ }

/** What the service answers when something is wrong: `detail`, `hint`, `code`, `status`. */
export class Problem extends Error {
  constructor(body, status) {
    super(body.detail || `The service answered ${status}.`);
    this.hint = body.hint || "";
    this.code = body.code || "";
    this.status = status;
  }
}

/** The answer to a request; a Problem for one that was refused. */
export async function call(path, options = {}) {
  const headers = { ...options.headers };
  if (key) headers.Authorization = "Bearer " + key;
  let answer;
  try {
    answer = await fetch(path, { ...options, headers });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Problem({ detail: "The service does not answer.", hint: "It is asked again.", code: "away" }, 0);
  }
  askForKey(answer.status === 401);
  if (answer.ok || answer.status === 304) return answer;
  let body = {};
  try { body = await answer.json(); } catch { /* a proxy's words */ }
  throw new Problem(body, answer.status);
}

export async function json(path, options) {
  return (await call(path, options)).json();
}

/** Save what is at a path under a name. */
export async function download(path, name) {
  const blob = await (await call(path)).blob();
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

/** Show a problem's own words in an element with role=alert; nothing for null. */
export function showProblem(place, error) {
  place.hidden = !error;
  if (!error) return;
  const lines = [error.message, error.hint].filter(Boolean).map(text => {
    const line = document.createElement("p");
    line.textContent = text;
    return line;
  });
  place.replaceChildren(...lines);
}

function askForKey(wanted) {
  const form = document.getElementById("key");
  if (!form || form.hidden === !wanted) return;
  form.hidden = !wanted;
  if (wanted) form.querySelector("input").focus();
}

/** Let the form with the key call `again` once it has one. */
export function onKey(again) {
  const form = document.getElementById("key");
  form.addEventListener("submit", event => {
    event.preventDefault();
    key = form.querySelector("input").value;
    try { sessionStorage.setItem("toast-key", key); } catch { /* a private window */ }
    again();
  });
}
