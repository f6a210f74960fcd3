// Where documents come from: the server, or the file that this page is in. Nobody else fetches.

/**
 * A sentence for a person: why there is no document. `status` is that of HTTP, 0 where there is
 * none.
 */
export class ApiError extends Error {
  constructor(sentence, status = 0) {
    super(sentence);
    this.status = status;
  }
}

const inFile = document.getElementById("recording");
// `answers` has the place in `documents` of each question's answer, `troubles` a sentence for those
// that have none.
const recording = inFile ? JSON.parse(inFile.textContent) : null;

/** Whether this page is a file that somebody sent. */
export const isFile = recording !== null;

/** The run that this file holds; "" where a server answers. */
export const fileRun = recording?.run ?? "";

// A page is asked for before the browser has gone through the libraries, which takes as long as an
// answer; no page has its answer, and draws, before they are there.
const librariesRead = new Promise((done) => {
  if (document.readyState === "complete") done();
  for (const event of ["DOMContentLoaded", "load"]) addEventListener(event, done, { once: true });
});

/** Ask for a document: `ask("run/ID/ops", { work: 3 })`. Throws Trouble. */
export async function ask(name, args = {}, { signal } = {}) {
  return isFile ? fromFile(name, args) : fromServer(keyOf(name, args), signal);
}

function keyOf(name, args) {
  const kept = Object.entries(args).filter(
    ([, value]) => value !== "" && value !== null && value !== undefined,
  );
  const query = new URLSearchParams(
    kept.sort(([one], [other]) => (one < other ? -1 : 1)),
  ).toString();
  return query ? `${name}?${query}` : name;
}

async function fromFile(name, args) {
  const key = keyOf(name, args);
  if (Object.hasOwn(recording.troubles, key)) throw new ApiError(recording.troubles[key]);
  if (Object.hasOwn(recording.answers, key)) return inFileAt(key);
  // Who names the work that is shown anyway asks for the same.
  const { work, ...others } = args;
  const bare = keyOf(name, others);
  const found =
    work !== undefined && Object.hasOwn(recording.answers, bare) ? await inFileAt(bare) : null;
  if (found?.work !== undefined && String(found.work) === String(work)) return found;
  throw new ApiError("This file does not hold that; `tfprobe ui` on the run shows it.");
}

function inFileAt(key) {
  const found = recording.documents[recording.answers[key]];
  // Pages may sort what they get: each gets its own.
  return typeof found === "string" ? unpacked(found) : JSON.parse(JSON.stringify(found));
}

/** Big documents are deflated, and stand in the file in base64. */
async function unpacked(text) {
  if (typeof DecompressionStream === "undefined") {
    throw new ApiError(
      "This browser is too old to unpack what the file holds; one of 2023 or later can.",
    );
  }
  const packed = Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
  return JSON.parse(await new Response(stream).text());
}

async function fromServer(key, signal) {
  const found = await fetched(key, { signal, headers: { Accept: "application/json" } });
  await librariesRead;
  if (found === null) throw new ApiError("The server's answer cannot be read.");
  // A run that holds no such answer: the sentence is all there is.
  if (found.missing && Object.keys(found).length === 1) throw new ApiError(found.missing, 404);
  return found;
}

/**
 * Bring the server something, `post("run/ID/sample", { steps: 5 })`; returns what it says, null for
 * nothing. Throws Trouble.
 */
export function post(name, content) {
  return fetched(name, { method: "POST", body: JSON.stringify(content) });
}

async function fetched(key, options) {
  let response;
  try {
    response = await fetch(`/api/${key}`, { cache: "no-store", ...options });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiError("The server does not answer: `tfprobe ui` has ended, or the tunnel to it.");
  }
  const found = await response.json().catch((error) => {
    if (error.name === "AbortError") throw error;
    return null;
  });
  if (response.ok) return found;
  throw new ApiError(found?.error ?? `The server answered ${response.status}.`, response.status);
}

/** Ask the server for bytes as they are. Throws Trouble. */
export async function askBytes(address, { signal } = {}) {
  let response;
  try {
    response = await fetch(address, { signal, cache: "no-store" });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiError("The server does not answer: `tfprobe ui` has ended, or the tunnel to it.");
  }
  if (!response.ok) {
    const found = await response.text();
    throw new ApiError(
      sentenceOf(found) ?? `The server answered ${response.status}.`,
      response.status,
    );
  }
  return response.arrayBuffer();
}

function sentenceOf(text) {
  try {
    return JSON.parse(text).error;
  } catch {
    return text.trim() || undefined;
  }
}
