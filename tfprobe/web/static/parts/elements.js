// Create elements. Text only ever becomes text: nothing here or elsewhere parses a name as HTML.

/**
 * Create an element: `make("a", { href: "#/" }, "all runs")`.
 * Attributes that are null or false are left out; `onclick` and the like take functions; `style`
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

/** Like `make`, for SVG elements. */
export function draw(tag, attributes = {}, ...children) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  setAttributes(element, attributes);
  element.append(...children.flat(Infinity));
  return element;
}

/** Replace the children of an element. */
export function fill(element, ...children) {
  element.replaceChildren(
    ...children
      .flat(Infinity)
      .filter((child) => child !== null && child !== undefined && child !== false),
  );
  return element;
}

/** Like `fill`, unless it is in use: it has the focus, or a table in it was opened. */
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
