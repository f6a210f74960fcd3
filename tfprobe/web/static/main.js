// Entry point: read the address, and show the page that it names in the frame around all pages.

import { codePage } from "./pages/code.js";
import { comparePage } from "./pages/compare.js";
import { findingsPage } from "./pages/findings.js";
import { graphPage } from "./pages/graph.js";
import { inputPage } from "./pages/input.js";
import { memoryPage } from "./pages/memory.js";
import { opsPage } from "./pages/ops.js";
import { overviewPage } from "./pages/overview.js";
import { processesPage } from "./pages/processes.js";
import { ranksPage } from "./pages/ranks.js";
import { runsPage } from "./pages/runs.js";
import { scopesPage } from "./pages/scopes.js";
import { stacksPage } from "./pages/stacks.js";
import { stepsPage } from "./pages/steps.js";
import { timelinePage } from "./pages/timeline.js";
import { transfersPage } from "./pages/transfers.js";
import { trialsPage } from "./pages/trials.js";
import { addressOf, here } from "./parts/address.js";
import { ApiError, ask, isFile } from "./parts/data.js";
import { isBusyIn, replaceInPlace, throttled } from "./parts/dom_update.js";
import { fill, make } from "./parts/elements.js";
import { frameOf } from "./parts/frame.js";
import { isLive, listenForNews, liveMark } from "./parts/live.js";
import { recordButton } from "./parts/record.js";
import { scrollsKept } from "./parts/scrolled.js";
import { beginSession, isUnknown, tokenForm } from "./parts/session.js";

// The pages of a run, in the order of the navigation.
const PAGES = [
  overviewPage,
  findingsPage,
  trialsPage,
  stepsPage,
  opsPage,
  scopesPage,
  codePage,
  stacksPage,
  graphPage,
  timelinePage,
  inputPage,
  memoryPage,
  transfersPage,
  ranksPage,
  processesPage,
  comparePage,
];

// The pages of the whole directory.
const DIRECTORY_PAGES = [runsPage, trialsPage];

const frame = frameOf(PAGES, DIRECTORY_PAGES);
const place = make("main", { id: "page", tabindex: "-1" });
const mark = liveMark();
const record = recordButton();
// How long to wait for the user to finish what they are doing.
const LATER_MS = 2000;
const soon = throttled(updateShown);
const turned = scrollsKept(place);
let isListening = false;
// The state of the run as the frame shows it.
let runState = "";
let shown = { controller: null, handle: null, run: null, page: null };

function pageOf(address) {
  const pages = address.run ? PAGES : DIRECTORY_PAGES;
  return pages.find((page) => page.name === address.page) ?? pages[0];
}

async function showHere() {
  const address = here();
  const page = pageOf(address);
  if (shown.page === page && shown.run === address.run && shown.handle?.turn) {
    frame.turn(address, page);
    await turnShown(address.args);
    return;
  }
  turned();
  shown.controller?.abort();
  shown.handle?.leave?.();
  const controller = new AbortController();
  const isOther = address.run !== shown.run;
  shown = { controller, handle: null, run: address.run, page };
  // The list of runs is live as long as it is shown.
  if (isOther || !address.run) tellState(page === runsPage ? "running" : "");
  if (isOther && address.run) describeRun(address);
  frame.turn(address, page);
  document.title = [page === runsPage ? "" : page.title, address.run, "tfprobe"]
    .filter(Boolean)
    .join(" · ");
  const content = make("div", { class: `page page-${page.name}` });
  fill(place, make("p", { class: "wait", role: "status" }, "Reading …"));
  try {
    const handle = await page.show(content, contextOf(address, controller.signal));
    if (controller.signal.aborted) return handle?.leave?.();
    shown.handle = handle ?? null;
    fill(place, content);
    mark.updated();
    listen();
    handle?.shown?.();
  } catch (error) {
    if (!controller.signal.aborted) showError(error);
    if (!(error instanceof ApiError) && error.name !== "AbortError") throw error;
  }
}

/**
 * Pass new arguments to the current page; a page that cannot show them is reopened at the next
 * change.
 */
async function turnShown(args) {
  const { controller, handle } = shown;
  try {
    await handle.turn(args);
  } catch (error) {
    if (controller.signal.aborted) return;
    handle.leave?.();
    shown.handle = null;
    showError(error);
    if (!(error instanceof ApiError)) throw error;
  }
}

/**
 * Update the current page: by its own `update(changed)`, or else by showing it again in place, but
 * not for new steps alone, of which most pages show nothing.
 */
async function updateShown(changed) {
  const { controller, handle, page } = shown;
  const isAffected = handle?.update || changed.has("captures") || changed.has("state");
  if (!page || controller.signal.aborted || !isAffected) return;
  if (!handle?.update && isBusyIn(place)) {
    setTimeout(() => soon(changed), LATER_MS);
    return;
  }
  try {
    await (handle?.update ? handle.update(changed) : showInPlace(page, controller));
    if (!controller.signal.aborted) mark.updated();
  } catch (error) {
    if (controller.signal.aborted) return;
    // The mark reports that the server is gone, and the page stays readable.
    if (!(error instanceof ApiError)) throw error;
    if (error.status) showError(error);
  }
}

async function showInPlace(page, controller) {
  const content = make("div", { class: `page page-${page.name}` });
  const next = (await page.show(content, contextOf(here(), controller.signal))) ?? null;
  if (controller.signal.aborted) {
    next?.leave?.();
    return;
  }
  shown.handle?.leave?.();
  shown.handle = next;
  const putBack = replaceInPlace(place, content);
  next?.shown?.();
  putBack();
}

function onNews(news) {
  if (!shown.run) {
    const changed = [...news.values()].flatMap((each) => each.changed);
    // A list of runs shows all of it.
    if (changed.length) soon(["state", ...changed]);
    return;
  }
  if (!news.has(shown.run)) return;
  const { word, changed } = news.get(shown.run);
  const state = word?.state ?? "gone";
  if (state !== runState) describeRun(here());
  tellState(state);
  if (changed.length) soon(changed);
}

function tellState(state) {
  runState = state;
  mark.state(state);
  record.run(isLive(state) && shown.run ? shown.run : "");
}

/** Listen once the server has authenticated us: a refused client receives no stream. */
function listen() {
  if (!isListening) listenForNews(onNews, mark.link);
  isListening = true;
}

function showAnew() {
  shown.handle?.leave?.();
  shown = { controller: shown.controller, handle: null, run: null, page: null };
  showHere();
}

/** The context that a page receives with its place: see docs/web.md. */
function contextOf(address, signal) {
  const prefix = address.run
    ? `run/${address.run.split("/").map(encodeURIComponent).join("/")}/`
    : "";
  return {
    run: address.run,
    args: address.args,
    signal,
    ask: async (name, args = {}) => {
      const found = await ask(prefix + name, args, { signal });
      if (found.unread) frame.leaveOut(address.run, found.unread);
      return found;
    },
    link: (page, args = {}) => addressOf(address.run, page, args),
    go: (args, { page = address.page || (address.run ? "overview" : ""), keep = false } = {}) => {
      const target = addressOf(address.run, page, args);
      if (keep) history.replaceState(history.state, "", whole(target));
      else location.hash = target;
    },
  };
}

/** An address with what precedes its "#": a bare one is taken for one of the page around a frame. */
function whole(target) {
  return location.href.split("#", 1)[0] + target;
}

/**
 * Follow a link to another page where this one is the text of a frame, as in a notebook: there the
 * browser would look for it at the address of the notebook.
 */
function followInFrame(event) {
  const link = event.target instanceof Element ? event.target.closest("a[href^='#/']") : null;
  const isPlain = !(event.defaultPrevented || event.ctrlKey || event.metaKey || event.shiftKey);
  if (location.protocol !== "about:" || link === null || !isPlain) return;
  event.preventDefault();
  location.hash = link.getAttribute("href");
}

/** Describe the run in the frame; the page does not wait for that. */
async function describeRun(address) {
  const context = contextOf(address);
  const unknown = { id: address.run, command: null, started: null };
  // A run that is no longer there was removed; the state of one that cannot be read is unknown.
  const header = await context
    .ask("header")
    .catch((error) => ({ ...unknown, state: error.status === 404 ? "removed" : "unknown" }));
  if (shown.run !== address.run) return;
  frame.describe(header);
  tellState(isFile ? "" : header.state);
}

function showError(error) {
  if (isUnknown(error)) {
    tellState("");
    fill(place, tokenForm(error.message, showAnew));
    return;
  }
  const sentence = error instanceof ApiError ? error.message : `This page failed: ${error.message}`;
  fill(place, make("p", { class: "trouble", role: "alert" }, sentence));
}

async function begin() {
  await beginSession();
  await showHere();
}

if (!isFile) frame.acts.append(mark.element, record);
frame.put(place);
addEventListener("hashchange", showHere);
addEventListener("click", followInFrame);
begin().catch(showError);
