// Where documents come from: the server, or the file that contains this page. Nothing else fetches.

/**
 * Why there is no document, as a sentence for the user. `status` is that of HTTP, 0 if there is
 * none.
 */
export class ApiError extends Error {
  constructor(sentence, status = 0) {
    super(sentence);
    this.status = status;
  }
}

const inFile = document.getElementById("recording");
// `answers` has the index in `documents` of each request's answer, `troubles` a sentence for
// requests without an answer.
const recording = inFile ? JSON.parse(inFile.textContent) : null;

/** Whether this page is a single file rather than served. */
export const isFile = recording !== null;

/** The run in this file; "" if a server answers. */
export const fileRun = recording?.run ?? "";

// A page is requested before the browser has parsed the libraries, which takes as long as an
// answer; no page receives its answer and draws before they are loaded.
const librariesRead = new Promise((done) => {
  if (document.readyState === "complete") done();
  for (const event of ["DOMContentLoaded", "load"]) addEventListener(event, done, { once: true });
});

/** Request a document: `ask("run/ID/ops", { work: 3 })`. Throws ApiError. */
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
  // Naming the loop that is shown by default requests the same document.
  const { work, ...others } = args;
  const bare = keyOf(name, others);
  const found =
    work !== undefined && Object.hasOwn(recording.answers, bare) ? await inFileAt(bare) : null;
  if (found?.work !== undefined && String(found.work) === String(work)) return found;
  throw new ApiError("This file does not contain that; `tfprobe ui` on the run shows it.");
}

function inFileAt(key) {
  const found = recording.documents[recording.answers[key]];
  // Pages may sort what they receive, so each receives its own copy.
  return typeof found === "string" ? unpacked(found) : JSON.parse(JSON.stringify(found));
}

/** Large documents are deflated and in base64. */
async function unpacked(text) {
  if (typeof DecompressionStream === "undefined") {
    throw new ApiError("This browser is too old to unpack the file; use one from 2023 or later.");
  }
  const packed = Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
  return JSON.parse(await new Response(stream).text());
}

async function fromServer(key, signal) {
  const found = await fetched(key, { signal, headers: { Accept: "application/json" } });
  await librariesRead;
  if (found === null) throw new ApiError("The server's answer cannot be read.");
  // The run has no such answer: the sentence is all there is.
  if (found.missing && Object.keys(found).length === 1) throw new ApiError(found.missing, 404);
  return found;
}

/**
 * Send a request to the server, `post("run/ID/sample", { steps: 5 })`; returns its answer, null if
 * empty. Throws ApiError.
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
    throw new ApiError("The server does not answer: `tfprobe ui` or the tunnel to it has ended.");
  }
  const found = await response.json().catch((error) => {
    if (error.name === "AbortError") throw error;
    return null;
  });
  if (response.ok) return found;
  throw new ApiError(found?.error ?? `The server answered ${response.status}.`, response.status);
}

/** Request raw bytes from the server. Throws ApiError. */
export async function askBytes(address, { signal } = {}) {
  let response;
  try {
    response = await fetch(address, { signal, cache: "no-store" });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiError("The server does not answer: `tfprobe ui` or the tunnel to it has ended.");
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
