// Make elements. Text only ever becomes text: nothing here, or anywhere else, parses a name as
// HTML.

/**
 * Make an element: `make("a", { href: "#/" }, "all runs")`.
 * Attributes that are null or false are left out; `onclick` and its kin take functions; `style`
 * takes an object.
 */
export function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  setAttributes(element, attributes);
  element.append(
    ...children
      .flat(Infinity)
      .filter((child) => child !== null && child !== undefined && child !== false),
  );
  return element;
}

/** As `make`, for the elements of a drawing. */
export function draw(tag, attributes = {}, ...children) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  setAttributes(element, attributes);
  element.append(...children.flat(Infinity));
  return element;
}

/** Put these children in the place of those that an element has. */
export function fill(element, ...children) {
  element.replaceChildren(
    ...children
      .flat(Infinity)
      .filter((child) => child !== null && child !== undefined && child !== false),
  );
  return element;
}

/** As `fill`, unless somebody is at work in it: the focus is there, or a table was opened. */
export function refill(element, ...children) {
  const isUsed = element.contains(document.activeElement) || element.querySelector("details[open]");
  return isUsed ? element : fill(element, ...children);
}

function setAttributes(element, attributes) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "style")
      for (const [key, each] of Object.entries(value)) element.style.setProperty(key, each);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
}
