// Where documents come from: the server, or the file that this page is in. Nobody else fetches.

/** A sentence for a person: why there is no document. `status` is that of HTTP, 0 where there is none. */
export class Trouble extends Error {
  constructor(sentence, status = 0) {
    super(sentence);
    this.status = status;
  }
}

const inFile = document.getElementById("recording");
const documents = inFile ? JSON.parse(inFile.textContent) : null;

/** Whether this page is a file that somebody sent. */
export const isFile = documents !== null;

/** Ask for a document: `ask("run/ID/ops", { work: 3 })`. Throws Trouble. */
export async function ask(name, args = {}, { signal } = {}) {
  const kept = Object.entries(args).filter(([, value]) => value !== "" && value !== null && value !== undefined);
  const query = new URLSearchParams(kept.sort(([one], [other]) => (one < other ? -1 : 1))).toString();
  const key = query ? `${name}?${query}` : name;
  return isFile ? fromFile(key) : fromServer(key, signal);
}

function fromFile(key) {
  const found = documents[key];
  if (found === undefined) throw new Trouble("This file does not hold that; `tfprobe ui` on the run shows it.");
  return found;
}

async function fromServer(key, signal) {
  let response;
  try {
    response = await fetch(`/api/${key}`, { signal, cache: "no-store", headers: { Accept: "application/json" } });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Trouble("The server does not answer: `tfprobe ui` has ended, or the tunnel to it.");
  }
  const found = await response.json().catch(() => null);
  if (response.ok && found !== null) return found;
  throw new Trouble(found?.error ?? `The server answered ${response.status}.`, response.status);
}
