// Server-sent events with a key: EventSource cannot send one, so the stream is read here.

import { call } from "/ui/api.js";

/** Calls `heard(kind, data, number)` for every event of a job; returns once the job is over.
    A connection that breaks is made again where it broke. */
export async function follow(id, heard) {
  let last = "";
  for (;;) {
    try {
      const answer = await call(`/v1/jobs/${id}/events`, last ? { headers: { "Last-Event-ID": last } } : {});
      if (answer.status === 204) return;
      for await (const event of blocks(answer.body)) {
        if (event.id) last = event.id;
        if (!event.data) continue;
        const data = JSON.parse(event.data);
        heard(event.event, data, Number(event.id));
        if (event.event === "state" && ["succeeded", "failed", "cancelled"].includes(data.state)) return;
      }
    } catch (error) {
      if (error.status >= 400 && error.status < 500) throw error;
    }
    await new Promise(wake => setTimeout(wake, 1000));
  }
}

async function* blocks(stream) {
  const reader = stream.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    text += value.replaceAll("\r\n", "\n");
    let end;
    while ((end = text.indexOf("\n\n")) >= 0) {
      yield fields(text.slice(0, end));
      text = text.slice(end + 2);
    }
  }
}

function fields(block) {
  const found = {};
  for (const line of block.split("\n")) {
    const colon = line.indexOf(":");
    if (colon <= 0) continue;  // a comment
    const name = line.slice(0, colon), value = line.slice(colon + 1).replace(/^ /, "");
    found[name] = name in found ? `${found[name]}\n${value}` : value;
  }
  return found;
}
