// The frame around all pages: the skip link, the run's header, the navigation, and the keys.
import { addressOf } from "./address.js";
import { clock } from "./amounts.js";
import { chooseTheme, isDark, onColours, recallTheme } from "./colours.js";
import { badge } from "./controls.js";
import { isFile } from "./data.js";
import { draw, fill, make } from "./elements.js";

/**
 * Make the frame for these pages of a run and those of the whole directory. `put(main)` builds it into the document around a place,
 * `turn(address, page)` shows the current position, `describe(header)` the run (from the document
 *   "header"),
 * `leaveOut(run, sentence)` that pages do not cover all of it.
 * `acts` is the place for buttons about the whole run, at the right of the header.
 */
export function frameOf(pagesOfRun, pagesOfDirectory) {
  recallTheme();
  const acts = make("div", { class: "acts" });
  const ofRun = make("div", { class: "of-run" });
  const leftOut = make("p", { class: "notice left-out", role: "note", hidden: true });
  const list = make("nav", { class: "pages" });
  // A file holds one run: there is no list to go to.
  const home = make(
    isFile ? "span" : "a",
    { href: isFile ? null : addressOf("", ""), class: "home" },
    frameMark(),
    "tfprobe",
  );
  const keys = keysDialog();
  const head = make(
    "header",
    { class: "head" },
    home,
    ofRun,
    make("div", { class: "acts" }, acts, themeButton(), keysButton(keys)),
  );
  let now = { address: { run: "" }, page: null, pages: [] };

  function put(main) {
    const skip = make(
      "a",
      { class: "skip", href: "#", onclick: (event) => passTo(event, main) },
      "Skip to content",
    );
    document.body.append(skip, head, leftOut, list, main, keys);
    addEventListener("keydown", (event) => pressedKey(event, now, keys));
  }

  function turn(address, page) {
    if (address.run !== now.address.run) leftOut.hidden = true;
    const pages = address.run ? pagesOfRun : pagesOfDirectory;
    now = { address, page, pages };
    if (address.run || isFile || page !== pages[0]) home.removeAttribute("aria-current");
    else home.setAttribute("aria-current", "page");
    list.classList.toggle("of-directory", !address.run);
    list.setAttribute("aria-label", address.run ? "Pages of the run" : "Pages of all runs");
    const links = pages.map((each) => make("li", {}, pageLink(address, each, page)));
    fill(list, make("ul", {}, links));
    if (!address.run) fill(ofRun);
  }

  function describe(header) {
    const command = header.command ?? header.id;
    fill(
      ofRun,
      badge(header.state),
      make("bdi", { class: "command", title: command }, command),
      header.started
        ? make("span", { class: "since" }, clock(1e6 * Date.parse(header.started)))
        : null,
    );
  }

  function leaveOut(run, sentence) {
    if (run !== now.address.run || (!leftOut.hidden && leftOut.textContent === sentence)) return;
    leftOut.hidden = false;
    fill(leftOut, sentence);
  }

  return { put, turn, describe, leaveOut, acts };
}

function pageLink(address, each, page) {
  // A selected loop stays selected from page to page.
  const kept = address.args?.work ? { work: address.args.work } : {};
  return make(
    "a",
    {
      href: addressOf(address.run, each.name, kept),
      "aria-current": each === page ? "page" : null,
    },
    each.title,
  );
}

function passTo(event, main) {
  event.preventDefault();
  main.focus();
}

function themeButton() {
  const button = make("button", {
    type: "button",
    class: "icon",
    onclick: () => chooseTheme(isDark() ? "light" : "dark"),
  });
  const showTheme = () => {
    const other = isDark() ? "light" : "dark";
    button.setAttribute("aria-label", `Show in ${other} colours`);
    button.title = `Show in ${other} colours`;
    button.textContent = isDark() ? "☀" : "☾";
  };
  showTheme();
  onColours(showTheme);
  return button;
}

function keysButton(keys) {
  return make(
    "button",
    {
      type: "button",
      class: "icon",
      title: "Keys (?)",
      "aria-label": "Show keyboard shortcuts",
      onclick: () => keys.showModal(),
    },
    "?",
  );
}

function keysDialog() {
  const known = [
    ["[", "the page before"],
    ["]", "the next page"],
    ["g", "then the first letter of a page: that page"],
    ["/", "search in the table or chart"],
    ["?", "this list"],
    ["Esc", "close, or back to the whole"],
  ];
  const title = make("h2", { id: "keys-title" }, "Keys");
  const dialog = make(
    "dialog",
    { class: "keys", "aria-labelledby": "keys-title" },
    title,
    make(
      "dl",
      {},
      known.map(([key, does]) => [make("dt", {}, make("kbd", {}, key)), make("dd", {}, does)]),
    ),
    make(
      "p",
      { class: "soft" },
      "In charts and flame graphs arrows move, Enter opens, + and − zoom, 0 shows all. Table headings are buttons that sort.",
    ),
    make("form", { method: "dialog" }, make("button", {}, "Close")),
  );
  return dialog;
}

// When `g` was last pressed, by the clock of events.
let frameGoes = -Infinity;

function pressedKey(event, { address, page, pages }, keys) {
  const inField = event.target.closest?.("input, select, textarea, dialog, [contenteditable]");
  if (inField || event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
  const isGoing = event.timeStamp - frameGoes < 1500;
  frameGoes = -Infinity;
  const at = pages.indexOf(page);
  if (event.key === "?") keys.showModal();
  else if (event.key === "/") document.querySelector("main input[type=search]")?.focus();
  else if (isGoing && event.key.length === 1) goTo(pages, address, page, event.key);
  else if (event.key === "g") frameGoes = event.timeStamp;
  else if (event.key === "]") frameWalk(address, pages[(at + 1) % pages.length]);
  else if (event.key === "[") frameWalk(address, pages[(at - 1 + pages.length) % pages.length]);
  else return;
  event.preventDefault();
}

/** Go to the next page whose title begins with a letter, again to the one after. */
function goTo(pages, address, page, letter) {
  const turned = [...pages.slice(pages.indexOf(page) + 1), ...pages];
  const found = turned.find((each) => each.title.toLowerCase().startsWith(letter.toLowerCase()));
  if (found) frameWalk(address, found);
}

function frameWalk(address, page) {
  location.hash = addressOf(
    address.run,
    page.name,
    address.args.work ? { work: address.args.work } : {},
  );
}

function frameMark() {
  return draw(
    "svg",
    { viewBox: "0 0 20 20", "aria-hidden": "true" },
    draw("rect", { x: 1, y: 12, width: 18, height: 6, rx: 1.5, fill: "var(--on)" }),
    draw("rect", { x: 1, y: 7, width: 11, height: 4, rx: 1.5, fill: "var(--before)" }),
    draw("rect", { x: 13, y: 7, width: 6, height: 4, rx: 1.5, fill: "var(--after)" }),
    draw("rect", { x: 4, y: 2, width: 6, height: 4, rx: 1.5, fill: "var(--part-collectives)" }),
  );
}
